"""What a broken or hostile client can do: it gets Kafka's error or is disconnected, and everybody else goes on."""

import random
import socket
import struct
from collections.abc import Iterator

import pytest

from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.apis import ApiKey
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.raw import RawClient, ask_until_created, batch, frame, produce

API_VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        with RawClient(running.bootstrap) as client:
            ask_until_created(client, "t")
        yield running


@pytest.fixture(autouse=True)
def everybody_else_goes_on(broker: Broker) -> Iterator[None]:
    """A bystander connected before the offence is still served after it, and so is a newcomer."""
    with RawClient(broker.bootstrap) as bystander:
        bystander.call(API_VERSIONS, 3)
        yield
        assert bystander.call(produce("t", batch(b"still here")), 9).responses[0].partition_responses[0].error_code == 0
    with RawClient(broker.bootstrap) as newcomer:
        assert newcomer.call(API_VERSIONS, 3).error_code == 0


def test_random_bytes_end_the_connection(broker: Broker) -> None:
    chance = random.Random(7)
    for _ in range(50):
        with RawClient(broker.bootstrap, timeout=5) as client:
            length = chance.randrange(8, 200)
            client.send(struct.pack(">i", length) + chance.randbytes(length))

            assert client.is_closed_by_broker()


@pytest.mark.parametrize("length", [2**31 - 1, -1, -(2**31), 104_857_601])
def test_a_frame_length_that_cannot_be_ends_the_connection_at_once(broker: Broker, length: int) -> None:
    with RawClient(broker.bootstrap, timeout=5) as client:
        client.send(struct.pack(">i", length))

        assert client.is_closed_by_broker()


def test_a_large_frame_that_is_announced_and_never_sent_costs_nothing(broker: Broker) -> None:
    clients = [RawClient(broker.bootstrap) for _ in range(20)]
    for client in clients:
        client.send(struct.pack(">i", 100 * 1024 * 1024) + b"\0" * 100)

    with RawClient(broker.bootstrap) as other:
        assert other.call(API_VERSIONS, 3).error_code == 0
    for client in clients:
        client.socket.close()


def test_every_request_cut_at_every_byte_ends_its_connection_or_waits_for_the_rest(broker: Broker) -> None:
    requests = [
        frame(API_VERSIONS, 3),
        frame(MetadataRequest(topics=(MetadataRequestTopic(name="t"),)), 12),
        frame(produce("t", batch(b"a", b"b")), 9),
        frame(_fetch(), 12),
        frame(_list_offsets(), 6),
    ]
    for whole in requests:
        for cut in range(4, len(whole)):
            shortened = struct.pack(">i", cut - 4) + whole[4:cut]
            with RawClient(broker.bootstrap, timeout=5) as client:
                client.send(shortened)
                client.socket.shutdown(socket.SHUT_WR)

                assert client.is_closed_by_broker() or whole is requests[2], f"{cut} of {len(whole)} bytes"


def test_lengths_beyond_the_frame_end_the_connection(broker: Broker) -> None:
    head = struct.pack(">hhih", ApiKey.METADATA, 1, 1, 3) + b"raw"
    for body in (struct.pack(">i", 2**31 - 1), struct.pack(">ih", 1, 32_767), struct.pack(">i", -2)):
        with RawClient(broker.bootstrap, timeout=5) as client:
            client.send(struct.pack(">i", len(head + body)) + head + body)

            assert client.is_closed_by_broker()


@pytest.mark.parametrize(
    ("key", "version"), [(9999, 0), (-1, 0), (ApiKey.METADATA, 99), (ApiKey.METADATA, -1), (ApiKey.FETCH, 200)]
)
def test_an_unknown_api_or_version_ends_the_connection(broker: Broker, key: int, version: int) -> None:
    with RawClient(broker.bootstrap, timeout=5) as client:
        body = struct.pack(">hhih", key, version, 1, 3) + b"raw" + b"\0" * 8
        client.send(struct.pack(">i", len(body)) + body)

        assert client.is_closed_by_broker()


def test_a_client_that_is_too_new_is_told_which_versions_there_are(broker: Broker) -> None:
    with RawClient(broker.bootstrap) as client:
        body = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 42, 3) + b"raw" + b"\0" + b"anything at all"
        client.send(struct.pack(">i", len(body)) + body)
        reply = client.receive()

        correlation_id, error_code, count = struct.unpack_from(">ihi", reply)
        assert (correlation_id, error_code) == (42, ErrorCode.UNSUPPORTED_VERSION)
        keys = {struct.unpack_from(">hhh", reply, 10 + 6 * index)[0] for index in range(count)}
        assert ApiKey.API_VERSIONS in keys


def test_a_corrupt_checksum_is_refused(broker: Broker) -> None:
    records = bytearray(batch(b"value"))
    records[-1] ^= 1

    assert _error_of(broker, bytes(records)) == ErrorCode.CORRUPT_MESSAGE


def test_old_message_formats_are_refused(broker: Broker) -> None:
    for magic in (0, 1):
        records = bytearray(batch(b"value"))
        records[16] = magic

        assert _error_of(broker, bytes(records)) == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_record_counts_and_offset_deltas_that_contradict_each_other_are_refused(broker: Broker) -> None:
    for position, layout, value in ((57, ">i", 5), (23, ">i", 7), (57, ">i", -1), (57, ">i", 0)):
        assert _error_of(broker, _forged(batch(b"a", b"b"), position, layout, value)) == ErrorCode.INVALID_RECORD


def test_two_batches_or_half_a_batch_for_one_partition_are_refused(broker: Broker) -> None:
    whole = batch(b"value")

    assert _error_of(broker, whole + whole) == ErrorCode.INVALID_RECORD
    assert _error_of(broker, whole[:-3]) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
    assert _error_of(broker, None) == ErrorCode.INVALID_RECORD


def test_a_message_over_the_limit_is_refused_and_the_connection_goes_on(broker: Broker) -> None:
    with RawClient(broker.bootstrap) as client:
        reply = client.call(produce("t", batch(b"x" * 1_100_000)), 9)
        assert reply.responses[0].partition_responses[0].error_code == ErrorCode.MESSAGE_TOO_LARGE

        reply = client.call(produce("t", batch(b"small")), 9)
        assert reply.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_a_failed_write_without_acknowledgement_closes_the_connection(broker: Broker) -> None:
    with RawClient(broker.bootstrap, timeout=5) as client:
        client.send_request(produce("no-such-topic", batch(b"x"), acks=0), 9)

        assert client.is_closed_by_broker()


@pytest.mark.parametrize("name", ["..", ".", "", "a" * 250, "a/b", "a b", "ü"])
def test_a_topic_cannot_have_a_bad_name(broker: Broker, name: str) -> None:
    with RawClient(broker.bootstrap) as client:
        request = CreateTopicsRequest(
            topics=(CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()),)
        )
        result = client.call(request, 7).topics[0]
        assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

        asked = client.call(MetadataRequest(topics=(MetadataRequestTopic(name=name),)), 12).topics[0]
        assert asked.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_topic_cannot_have_a_million_partitions(broker: Broker) -> None:
    with RawClient(broker.bootstrap) as client:
        request = CreateTopicsRequest(
            topics=(CreatableTopic(name="wide", num_partitions=1_000_000, replication_factor=1, assignments=(), configs=()),)
        )
        result = client.call(request, 7).topics[0]

        assert result.error_code == ErrorCode.POLICY_VIOLATION
        assert "100000" in result.error_message


def test_replies_come_in_the_order_of_the_requests(broker: Broker) -> None:
    with RawClient(broker.bootstrap) as client:
        waits = FetchRequest(max_wait_ms=300, min_bytes=1_000_000, topics=_fetch().topics)
        expected = [
            client.send_request(waits, 12),
            client.send_request(API_VERSIONS, 3),
            client.send_request(produce("t", batch(b"x")), 9),
        ]

        assert [struct.unpack_from(">i", client.receive())[0] for _ in expected] == expected


def _forged(records: bytes, position: int, layout: str, value: int) -> bytes:
    """A batch with one header field changed and its checksum right all the same."""
    from crc32c import crc32c

    forged = bytearray(records)
    struct.pack_into(layout, forged, position, value)
    struct.pack_into(">I", forged, 17, crc32c(bytes(forged[21:])))
    return bytes(forged)


def _error_of(broker: Broker, records: bytes | None) -> int:
    with RawClient(broker.bootstrap) as client:
        reply = client.call(produce("t", records), 9)
        return int(reply.responses[0].partition_responses[0].error_code)


def _fetch() -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1024)
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=(FetchTopic(topic="t", partitions=(wanted,)),))


def _list_offsets() -> ListOffsetsRequest:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=(wanted,)),))
