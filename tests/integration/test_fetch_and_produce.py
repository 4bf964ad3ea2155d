"""Produce and Fetch as the protocol has them, on the wire."""

import struct
import threading
import time
from typing import Any
from uuid import UUID

import pytest

from headrace.model.errors import ErrorCode
from headrace.records.header import iterate_batches
from headrace.testing import Broker
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.raw import RawClient, ask_until_created, batch, produce
from tests.support.waiting import until


@pytest.fixture
def client(broker: Broker) -> Any:
    with RawClient(broker.bootstrap) as raw:
        yield raw


def create(client: RawClient, topic: str, partitions: int = 1, **configs: str) -> UUID:
    request = CreateTopicsRequest(
        topics=(
            CreatableTopic(
                name=topic,
                num_partitions=partitions,
                replication_factor=1,
                assignments=(),
                configs=tuple(CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()),
            ),
        )
    )
    result = client.call(request, 7).topics[0]
    assert result.error_code == ErrorCode.NONE, result.error_message
    return UUID(bytes=result.topic_id.bytes)


def append(client: RawClient, topic: str, *values: bytes, partition: int = 0) -> int:
    reply = client.call(produce(topic, batch(*values), partition=partition), 9)
    answer = reply.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NONE
    return int(answer.base_offset)


def fetch(
    topic: str,
    offset: int = 0,
    *,
    partitions: int = 1,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 2**20,
    **more: Any,
) -> FetchRequest:
    wanted = tuple(
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=more.pop("partition_max_bytes", 2**20))
        for index in range(partitions)
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=(FetchTopic(topic=topic, partitions=wanted),),
        **more,
    )


def base_offsets(data: Any) -> list[int]:
    return [header.base_offset for header, _ in iterate_batches(data.records)]


def test_a_fetch_inside_a_batch_returns_the_whole_batch(client: RawClient, topic: str) -> None:
    create(client, topic)
    append(client, topic, b"a", b"b", b"c")
    append(client, topic, b"d")

    data = client.call(fetch(topic, 1), 12).responses[0].partitions[0]

    assert base_offsets(data) == [0, 3]
    assert data.high_watermark == 4


def test_a_reply_carries_one_batch_however_small_the_limits_are(client: RawClient, topic: str) -> None:
    create(client, topic)
    append(client, topic, b"x" * 10_000)
    append(client, topic, b"y" * 10_000)

    data = client.call(fetch(topic, max_bytes=100, partition_max_bytes=100), 12).responses[0].partitions[0]

    assert base_offsets(data) == [0]


def test_limits_hold_for_the_partition_and_for_the_whole_reply(client: RawClient, topic: str) -> None:
    create(client, topic, partitions=3)
    for partition in range(3):
        for _ in range(4):
            append(client, topic, b"x" * 1000, partition=partition)
    size = len(batch(b"x" * 1000))

    narrow = client.call(fetch(topic, partitions=1, partition_max_bytes=2 * size + 1), 12).responses[0].partitions
    whole = client.call(fetch(topic, partitions=3, max_bytes=5 * size + 1), 12).responses[0].partitions

    assert [len(base_offsets(data)) for data in narrow] == [2]
    assert [len(base_offsets(data)) for data in whole] == [4, 1, 0]


def test_a_long_poll_returns_as_soon_as_there_is_enough(client: RawClient, broker: Broker, topic: str) -> None:
    create(client, topic)

    def append_soon() -> None:
        until(lambda: broker.run(lambda real: bool(real.parts.replicas.find(topic, 0).readers)), "somebody waits")
        with RawClient(broker.bootstrap) as other:
            append(other, topic, b"news")

    writer = threading.Thread(target=append_soon)
    started = time.monotonic()
    writer.start()
    data = client.call(fetch(topic, max_wait_ms=5000), 12).responses[0].partitions[0]
    elapsed = time.monotonic() - started
    writer.join()

    assert base_offsets(data) == [0]
    assert elapsed < 2.0


def test_a_reply_that_is_full_waits_for_no_more_bytes_than_it_can_hold(client: RawClient, topic: str) -> None:
    create(client, topic)
    for _ in range(4):
        append(client, topic, b"x" * 1000)
    size = len(batch(b"x" * 1000))

    started = time.monotonic()
    asked = fetch(topic, max_wait_ms=20_000, max_bytes=2 * size + 1, min_bytes=3 * size)
    data = client.call(asked, 12).responses[0].partitions[0]

    assert base_offsets(data) == [0, 1]
    assert time.monotonic() - started < 10.0


def test_a_long_poll_that_waits_for_more_bytes_than_come_ends_with_its_time(
    client: RawClient, broker: Broker, topic: str
) -> None:
    create(client, topic)
    append(client, topic, b"little")

    started = time.monotonic()
    data = client.call(fetch(topic, max_wait_ms=200, min_bytes=1_000_000), 12).responses[0].partitions[0]
    elapsed = time.monotonic() - started

    assert base_offsets(data) == [0]
    assert 0.15 < elapsed < 2.0


def test_an_offset_out_of_range_is_told_at_once(client: RawClient, topic: str) -> None:
    create(client, topic)
    append(client, topic, b"a")

    for offset in (5, -1):
        data = client.call(fetch(topic, offset, max_wait_ms=5000), 12).responses[0].partitions[0]
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_fetch_sessions_are_declined_as_the_protocol_allows(client: RawClient, topic: str) -> None:
    create(client, topic)
    append(client, topic, b"a")

    asked = client.call(fetch(topic, session_epoch=0), 12)
    continued = client.call(fetch(topic, session_id=7, session_epoch=1), 12)

    assert (asked.session_id, asked.error_code) == (0, ErrorCode.NONE)
    assert continued.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_fetch_outside_of_sessions_is_answered_whichever_session_it_names(
    client: RawClient, topic: str, session_epoch: int
) -> None:
    create(client, topic)
    append(client, topic, b"a")

    full = client.call(fetch(topic, session_id=-1, session_epoch=session_epoch), 12)
    incremental = client.call(fetch(topic, session_id=-1, session_epoch=1), 12)
    nameless = client.call(fetch(topic, session_id=0, session_epoch=1), 12)

    assert (full.error_code, full.session_id) == (ErrorCode.NONE, 0)
    assert base_offsets(full.responses[0].partitions[0]) == [0]
    assert incremental.error_code == nameless.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_every_version_of_fetch_reads_what_every_version_of_produce_wrote(client: RawClient, topic: str) -> None:
    topic_id = create(client, topic)
    written = 0
    for version in range(3, PRODUCE.versions.stop):
        data = TopicProduceData(
            name=topic, topic_id=topic_id, partition_data=(PartitionProduceData(index=0, records=batch(b"v%d" % version)),)
        )
        reply = client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(data,)), version)
        assert reply.responses[0].partition_responses[0].error_code == ErrorCode.NONE, version
        written += 1
    for version in range(4, FETCH.versions.stop):
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=2**20)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, topics=(FetchTopic(topic=topic, topic_id=topic_id, partitions=(wanted,)),)
        )
        assert len(base_offsets(client.call(request, version).responses[0].partitions[0])) == written, version


def test_produce_in_the_oldest_versions_is_read_and_refused_for_its_format(client: RawClient, topic: str) -> None:
    create(client, topic)
    message_set = struct.pack(">qi", 0, 14) + struct.pack(">Ibb", 0, 0, 0) + struct.pack(">ii", -1, -1)
    for version in (0, 1, 2):
        reply = client.call(produce(topic, message_set, acks=1), version)
        assert reply.responses[0].partition_responses[0].error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_an_unknown_topic_id_has_an_error_of_its_own(client: RawClient) -> None:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=(FetchTopic(topic_id=UUID(int=7), partitions=(wanted,)),))

    assert client.call(request, 13).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_acks_other_than_zero_one_and_all_are_refused(client: RawClient, topic: str) -> None:
    create(client, topic)

    reply = client.call(produce(topic, batch(b"x"), acks=2), 9)

    assert reply.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_without_acknowledgement_there_is_no_reply_but_the_record_is_there(client: RawClient, topic: str) -> None:
    create(client, topic)
    client.send_request(produce(topic, batch(b"quiet"), acks=0), 9)

    data = client.call(fetch(topic, max_wait_ms=1000), 12).responses[0].partitions[0]

    assert base_offsets(data) == [0]


def test_log_append_time_is_stamped_and_reported(client: RawClient, topic: str) -> None:
    create(client, topic, message_timestamp_type="LogAppendTime")
    before = time.time() * 1000 - 1

    answer = client.call(produce(topic, batch(b"x")), 9).responses[0].partition_responses[0]
    data = client.call(fetch(topic), 12).responses[0].partitions[0]

    (header, _), *_ = iterate_batches(data.records)
    assert answer.log_append_time_ms >= before
    assert header.max_timestamp == answer.log_append_time_ms
    assert header.timestamp_type == "LogAppendTime"


def test_a_keyless_record_on_a_compacted_topic_is_refused_by_its_number(client: RawClient, topic: str) -> None:
    create(client, topic, cleanup_policy="compact")

    answer = client.call(produce(topic, batch(b"no key")), 9).responses[0].partition_responses[0]

    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0]


def test_clients_cannot_write_to_internal_topics(client: RawClient, broker: Broker) -> None:
    broker.call(broker.broker.parts.topics.ensure("__consumer_offsets"))  # type: ignore[union-attr]

    answer = client.call(produce("__consumer_offsets", batch(b"x")), 9).responses[0].partition_responses[0]

    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_an_old_leader_epoch_is_fenced_and_a_newer_one_unknown(client: RawClient, topic: str) -> None:
    create(client, topic)
    append(client, topic, b"x")
    for epoch, expected in ((5, ErrorCode.UNKNOWN_LEADER_EPOCH), (0, ErrorCode.NONE)):
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100, current_leader_epoch=epoch)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=(FetchTopic(topic=topic, partitions=(wanted,)),))
        assert client.call(request, 12).responses[0].partitions[0].error_code == expected


def test_a_topic_is_created_beside_the_first_answer_that_names_it_unless_the_client_forbids_that(
    client: RawClient, topic: str
) -> None:
    named = (MetadataRequestTopic(name=topic),)

    forbidden = client.call(MetadataRequest(topics=named, allow_auto_topic_creation=False), 12).topics[0]
    forbidden_again = client.call(MetadataRequest(topics=named, allow_auto_topic_creation=False), 12).topics[0]
    first = client.call(MetadataRequest(topics=named), 12).topics[0]
    later = ask_until_created(client, topic)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.error_code for each in (forbidden, forbidden_again, first)] == [unknown] * 3
    assert (later.error_code, len(later.partitions)) == (ErrorCode.NONE, 1)
    append(client, topic, b"usable at once")
