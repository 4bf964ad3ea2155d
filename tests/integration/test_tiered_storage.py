"""Tiered storage, with a folder as the object store: what is closed goes up, leaves the disk, and is read all the same."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer

sys.path.insert(0, str(Path(__file__).parent))

from headrace import Consumer
from headrace.broker.tiering.remote_part import RemotePart
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.integration.test_deleted_records import delete, log_start
from tests.integration.test_fetch_and_produce import append, base_offsets, fetch
from tests.integration.test_fetch_and_produce import create as create_topic
from tests.support.raw import RawClient
from tests.support.waiting import until

SETTINGS = {"remote.log.manager.task.interval.ms": "20", "log.retention.check.interval.ms": "50"}
TIERED = {"remote_storage_enable": "true", "retention_ms": "-1", "internal_segment_bytes": "300", "file_delete_delay_ms": "0"}


def create(client: RawClient, topic: str, **configs: str) -> UUID:
    return create_topic(client, topic, 1, **configs)


def settings_for(folder: Path, **others: str) -> dict[str, str]:
    return {**SETTINGS, "headrace.remote.url": f"file://{folder}", **others}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def tiered(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(data=tmp_path_factory.mktemp("data"), settings=settings_for(store)) as broker:
        yield broker


@pytest.fixture
def client(tiered: Broker) -> Iterator[RawClient]:
    with RawClient(tiered.bootstrap) as raw:
        yield raw


def part_of(broker: Broker, topic: str, partition: int = 0) -> RemotePart:
    found = broker.run(lambda real: real.parts.replicas.find(topic, partition).remote)
    assert isinstance(found, RemotePart)
    return found


def local_start(broker: Broker, topic: str) -> int:
    return int(broker.run(lambda real: real.parts.replicas.find(topic, 0).log.state.local_start))


def fill(client: RawClient, topic: str, count: int = 12) -> None:
    for number in range(count):
        append(client, topic, b"%03d" % number * 30)


def read_all(client: RawClient, topic: str, start: int = 0, end: int = 12) -> list[int]:
    offsets: list[int] = []
    while start < end:
        data = client.call(fetch(topic, start, max_wait_ms=500), 12).responses[0].partitions[0]
        assert data.error_code == ErrorCode.NONE
        found = base_offsets(data) if data.records else []
        offsets += found
        start = found[-1] + 1 if found else start
    return offsets


def list_offset(client: RawClient, topic: str, timestamp: int) -> tuple[int, int]:
    wanted = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(wanted,)),))
    answer = client.call(request, 9).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE
    return answer.offset, answer.timestamp


def test_old_records_are_read_from_the_store_when_the_disk_no_longer_has_them(
    tiered: Broker, client: RawClient, topic: str, store: Path
) -> None:
    create(client, topic, local_retention_ms="1", **TIERED)
    fill(client, topic)

    until(lambda: local_start(tiered, topic) >= 11, "the older records have left the disk")

    assert log_start(client, topic) == 0
    assert read_all(client, topic) == list(range(12))
    assert len(list(store.rglob("*.log"))) == len(list(store.rglob("*.rest"))) > 0


def test_list_offsets_knows_both_parts(tiered: Broker, client: RawClient, topic: str) -> None:
    create(client, topic, local_retention_ms="1", **TIERED)
    fill(client, topic)
    until(lambda: local_start(tiered, topic) >= 11, "the older records have left the disk")
    local = local_start(tiered, topic)
    uploaded = part_of(tiered, topic).end_offset

    assert list_offset(client, topic, -2)[0] == 0
    assert list_offset(client, topic, -4)[0] == local
    assert list_offset(client, topic, -5)[0] == uploaded - 1
    assert list_offset(client, topic, -6)[0] == uploaded
    assert list_offset(client, topic, -1)[0] == 12
    first, time = list_offset(client, topic, 0)
    assert first == 0
    assert list_offset(client, topic, time + 10**9)[0] == -1
    assert list_offset(client, topic, -3)[0] in range(12)


def test_deleted_records_leave_the_store(tiered: Broker, client: RawClient, topic: str) -> None:
    create(client, topic, local_retention_ms="1", **TIERED)
    fill(client, topic)
    until(lambda: local_start(tiered, topic) >= 11, "the older records have left the disk")
    part = part_of(tiered, topic)
    before = part.known

    assert delete(client, topic, 5).low_watermark == 5

    assert client.call(fetch(topic, 4), 12).responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert read_all(client, topic, 5)[-1] == 11
    until(lambda: part.known is not None and part.known.log_start == 5, "the manifest begins there")
    assert part.known is not None
    assert before is not None
    assert len(part.known.segments) < len(before.segments)


def test_retention_counts_what_is_in_the_store(tiered: Broker, client: RawClient, topic: str) -> None:
    create(client, topic, local_retention_ms="1", retention_bytes="900", **TIERED)
    fill(client, topic, 40)

    until(lambda: list_offset(client, topic, -2)[0] > 20, "the oldest records went")

    until(lambda: local_start(tiered, topic) > list_offset(client, topic, -2)[0], "what is in the store counts, and is kept")


def test_records_of_aborted_transactions_stay_aborted_in_the_store(tiered: Broker, client: RawClient, topic: str) -> None:
    create(client, topic, local_retention_ms="1", **TIERED)
    producer = Producer({"bootstrap.servers": tiered.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number * 100)
        producer.flush(30)
        producer.abort_transaction(30) if number % 2 else producer.commit_transaction(30)
    fill(client, topic, 2)
    until(lambda: local_start(tiered, topic) >= 12, "all transactions have left the disk")

    with Consumer(topic, bootstrap=tiered.bootstrap, isolation="read_committed") as consumer:
        values = [record.value for record in consumer.to_end()]

    assert [value[:1] for value in values if len(value) == 100] == [b"0", b"2", b"4"]
    assert len(values) == 5


def test_local_retention_by_size_leaves_the_newest_on_disk(tiered: Broker, client: RawClient, topic: str) -> None:
    create(client, topic, local_retention_bytes="800", **TIERED)
    fill(client, topic)

    until(lambda: part_of(tiered, topic).end_offset >= 11 and local_start(tiered, topic) > 0, "some have left the disk")

    assert local_start(tiered, topic) < 11
    assert read_all(client, topic) == list(range(12))


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({"cleanup_policy": "compact"}, "cleanup.policy=delete"),
        ({"headrace_ttl_enable": "true"}, "headrace.ttl.enable"),
    ],
)
def test_topics_that_cannot_be_tiered_are_refused_with_a_reason(
    client: RawClient, topic: str, configs: dict[str, str], why: str
) -> None:
    with pytest.raises(AssertionError, match=why):
        create(client, topic, remote_storage_enable="true", **configs)


def test_a_broker_without_a_store_refuses_tiered_topics(tmp_path: Path, topic: str) -> None:
    for arguments, why in (({"data": tmp_path}, "headrace.remote.url"), ({"memory": True}, "in memory")):
        with (
            Broker(**arguments) as broker,
            RawClient(broker.bootstrap) as raw,
            pytest.raises(AssertionError, match=why),
        ):
            create(raw, topic, remote_storage_enable="true")


def test_a_restart_finds_both_parts_again(tmp_path: Path, topic: str) -> None:
    settings: dict[str, Any] = settings_for(tmp_path / "store")
    broker = Broker(data=tmp_path / "data", settings=settings)
    broker.start()
    with RawClient(broker.bootstrap) as raw:
        create(raw, topic, local_retention_ms="1", **TIERED)
        fill(raw, topic)
        until(lambda: local_start(broker, topic) >= 11, "the older records have left the disk")
    for end in (broker.abandon, broker.stop):
        end()
        broker.start()
        with RawClient(broker.bootstrap) as raw:
            until(lambda: part_of(broker, topic).end_offset >= 10, "the manifest was read")
            assert log_start(raw, topic) == 0
            assert read_all(raw, topic) == list(range(12))
    broker.stop()
