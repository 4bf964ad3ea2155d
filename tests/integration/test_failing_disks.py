"""A disk that fails: the partition goes offline with a clear error, the rest serves, and a restart recovers."""

import errno
import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.handlers.list_offsets import MAX_TIMESTAMP
from headrace.broker.parts import Host
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.testing.disk import SimulatedDisk
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.integration.test_fetch_and_produce import append, base_offsets, create, fetch
from tests.support.raw import RawClient, batch, produce


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(random.Random(3))


@pytest.fixture
def broker(disk: SimulatedDisk, tmp_path: Path) -> Iterator[Broker]:
    # The metadata's file is a real one: only the logs are on the simulated disk.
    (tmp_path / "data").mkdir()
    with Broker(data=tmp_path / "data", host=Host(disk=disk, worker_processes=False)) as running:
        with RawClient(running.bootstrap) as client:
            for topic in ("sick", "well"):
                create(client, topic)
                append(client, topic, b"before", b"the", b"fault")
        yield running


def error_of_append(client: RawClient, topic: str) -> int:
    return int(client.call(produce(topic, batch(b"new")), 9).responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize(("action", "number"), [("write", errno.EIO), ("sync", errno.EIO), ("sync", errno.ENOSPC)])
def test_a_failed_write_or_flush_takes_its_partition_offline_and_nothing_else(
    broker: Broker, disk: SimulatedDisk, caplog: pytest.LogCaptureFixture, action: str, number: int
) -> None:
    disk.fail(action, lambda path: "sick-0" in str(path), error=number)  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR), RawClient(broker.bootstrap) as client:
        assert error_of_append(client, "sick") == ErrorCode.KAFKA_STORAGE_ERROR
        assert error_of_append(client, "sick") == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.call(fetch("sick"), 12).responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert error_of_append(client, "well") == ErrorCode.NONE
        assert base_offsets(client.call(fetch("well"), 12).responses[0].partitions[0]) == [0, 3]

    offline = [record.getMessage() for record in caplog.records if "offline" in record.getMessage()]
    assert len(offline) == 1
    assert "sick-0" in offline[0]

    disk.heal()
    broker.restart()
    with RawClient(broker.bootstrap) as client:
        data = client.call(fetch("sick"), 12).responses[0].partitions[0]
        assert base_offsets(data)[0] == 0
        assert data.high_watermark >= 3
        assert error_of_append(client, "sick") == ErrorCode.NONE


def test_a_failed_read_is_told_and_costs_nobody_else_anything(broker: Broker, disk: SimulatedDisk) -> None:
    disk.fail("read", lambda path: "sick-0" in str(path) and path.suffix == ".log", error=errno.EIO)
    with RawClient(broker.bootstrap) as client:
        assert client.call(fetch("sick"), 12).responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert base_offsets(client.call(fetch("well"), 12).responses[0].partitions[0]) == [0]

        disk.heal()
        assert base_offsets(client.call(fetch("sick"), 12).responses[0].partitions[0]) == [0]


@pytest.mark.parametrize("timestamp", [0, MAX_TIMESTAMP])
def test_an_offset_that_cannot_be_looked_for_is_told_and_costs_nobody_else_anything(
    broker: Broker, disk: SimulatedDisk, timestamp: int
) -> None:
    with RawClient(broker.bootstrap) as client:
        disk.fail("read", lambda path: "sick-0" in str(path), error=errno.EIO)
        assert offsets_at(client, timestamp) == {"well": (ErrorCode.NONE, 0), "sick": (ErrorCode.KAFKA_STORAGE_ERROR, -1)}

        disk.heal()
        assert offsets_at(client, timestamp) == {"well": (ErrorCode.NONE, 0), "sick": (ErrorCode.NONE, 0)}

        disk.flip_bit(next(path for path in disk.files() if "sick-0" in str(path) and path.suffix == ".log"), 70)
        assert offsets_at(client, timestamp) == {"well": (ErrorCode.NONE, 0), "sick": (ErrorCode.CORRUPT_MESSAGE, -1)}


def offsets_at(client: RawClient, timestamp: int) -> dict[str, tuple[int, int]]:
    """What is answered about both topics in one request: the error, and the offset."""
    wanted = (ListOffsetsPartition(partition_index=0, timestamp=timestamp),)
    topics = tuple(ListOffsetsTopic(name=name, partitions=wanted) for name in ("well", "sick"))
    answers = client.call(ListOffsetsRequest(replica_id=-1, topics=topics), 7).topics
    return {topic.name: (topic.partitions[0].error_code, topic.partitions[0].offset) for topic in answers}


def test_a_flipped_bit_is_never_served(broker: Broker, disk: SimulatedDisk) -> None:
    path = next(path for path in disk.files() if "sick-0" in str(path) and path.suffix == ".log")
    disk.flip_bit(path, 70)
    broker.restart()
    with RawClient(broker.bootstrap) as client:
        data = client.call(fetch("sick"), 12).responses[0].partitions[0]

        assert not data.records
        assert base_offsets(client.call(fetch("well"), 12).responses[0].partitions[0]) == [0]


def test_what_was_acknowledged_survives_a_power_failure_at_any_moment(tmp_path: Path) -> None:
    for seed in range(20):
        disk = SimulatedDisk(random.Random(seed))
        (tmp_path / str(seed)).mkdir()
        broker = Broker(data=tmp_path / str(seed), host=Host(disk=disk, worker_processes=False))
        broker.start()
        with RawClient(broker.bootstrap) as client:
            create(client, "t", internal_segment_bytes="300")
            count = 1 + seed % 7
            for _ in range(count):
                append(client, "t", b"x" * 50)
            client.send_request(produce("t", batch(b"never acknowledged")), 9)
        broker.abandon()
        disk.crash()

        broker.start()
        with RawClient(broker.bootstrap) as client:
            assert all_offsets(client, "t")[:count] == list(range(count)), f"seed {seed}"
        broker.stop()


def all_offsets(client: RawClient, topic: str) -> list[int]:
    """A read ends with a segment, so go on until nothing comes."""
    offsets: list[int] = []
    while more := base_offsets(client.call(fetch(topic, len(offsets)), 12).responses[0].partitions[0]):
        offsets += more
    return offsets
