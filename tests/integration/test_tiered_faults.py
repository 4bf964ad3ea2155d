"""The object store fails, at every step: nothing is lost, nothing that is named is deleted, and all of it is done in the end."""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from headrace.broker.parts import Host
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from tests.integration.test_fetch_and_produce import append, fetch
from tests.integration.test_fetch_and_produce import create as create_topic
from tests.integration.test_tiered_storage import SETTINGS, TIERED, create, fill, local_start, part_of, read_all
from tests.support.faulty_objects import Fault, MemoryObjects
from tests.support.raw import RawClient
from tests.support.waiting import until

# The manifest is read, claimed, read back; both objects are written and looked at; it is written again and read back; and so on.
STEPS = 10


class FaultyObjects(MemoryObjects):
    """One call for each topic's folder fails: the first, the second, and so on, as planned."""

    def __init__(self) -> None:
        super().__init__()
        self.planned: dict[str, tuple[int, Fault]] = {}
        self.timeout_s = 0.0
        self.happened: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self.fault = self._fault_of

    def opened(self, url: str, timeout_s: float) -> "FaultyObjects":
        self.timeout_s = timeout_s
        return self

    def _fault_of(self, call: str, key: str) -> Fault:
        topic_id = key.split("/")[1] if key.count("/") > 1 else ""
        at, fault = self.planned.get(topic_id, (-1, Fault.NONE))
        self._calls[topic_id] += 1
        if self._calls[topic_id] - 1 != at:
            return Fault.NONE
        self.happened[call] += 1
        return fault


@pytest.fixture
def objects() -> FaultyObjects:
    return FaultyObjects()


FAST = {
    **SETTINGS,
    "headrace.remote.url": "file:///not/used",
    "headrace.remote.timeout.ms": "4000",
    "headrace.remote.sweep.grace.ms": "0",
    "headrace.remote.sweep.interval.ms": "500",
    "headrace.remote.cache.bytes": "4194304",
    "remote.fetch.max.wait.ms": "50",
}


@pytest.fixture
def broker(objects: FaultyObjects, tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path, settings=FAST, host=Host(open_objects=objects.opened)) as running:
        yield running


def test_one_failure_at_any_step_of_an_upload_costs_nothing(broker: Broker, objects: FaultyObjects) -> None:
    topics = [f"{fault.name.lower()}-{step}" for fault in (Fault.BEFORE, Fault.AFTER) for step in range(STEPS)]
    with RawClient(broker.bootstrap) as client:
        for number, topic in enumerate(topics):
            fault = Fault.BEFORE if number < STEPS else Fault.AFTER
            topic_id = create(client, topic, local_retention_ms="1", **TIERED)
            objects.planned[str(topic_id)] = number % STEPS, fault
            fill(client, topic, 4)
        for topic in topics:
            until(lambda topic=topic: local_start(broker, topic) >= 3, f"{topic} is in the store", 60)
            assert read_all(client, topic, end=4) == list(range(4)), topic

    assert objects.broken_rules == []
    assert objects.happened["upload"] > 0
    assert objects.happened["replace"] > 0
    named = {key for topic in topics for key in part_of(broker, topic).known.objects}  # type: ignore[union-attr]
    until(lambda: {key for key in objects.objects if key.endswith((".log", ".rest"))} == named, "leftovers are swept")


def test_while_the_store_is_away_writes_go_on_and_nothing_leaves_the_disk(broker: Broker, objects: FaultyObjects) -> None:
    objects.is_away = True
    with RawClient(broker.bootstrap) as client:
        create(client, "t", local_retention_ms="1", **TIERED)
        fill(client, "t")
        until(lambda: part_of(broker, "t").failure is not None, "an upload failed")
        assert part_of(broker, "t").behind_bytes > 0
        assert local_start(broker, "t") == 0
        assert read_all(client, "t") == list(range(12))

        objects.is_away = False
        until(lambda: local_start(broker, "t") >= 11, "all is uploaded")
        assert part_of(broker, "t").behind_bytes == 0

        objects.is_away = True
        assert append(client, "t", b"more") == 12
        answer = client.call(fetch("t", 0, max_wait_ms=2000), 12).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR, "which clients try again"
        objects.is_away = False
        assert read_all(client, "t", end=13) == list(range(13))
    assert objects.broken_rules == []


def test_the_store_has_the_time_that_is_set(broker: Broker, objects: FaultyObjects) -> None:
    assert objects.timeout_s == 4.0


def test_a_fetch_does_not_wait_for_the_store_longer_than_is_set(broker: Broker, objects: FaultyObjects) -> None:
    with RawClient(broker.bootstrap) as client:
        create(client, "t", local_retention_ms="1", **TIERED)
        fill(client, "t")
        until(lambda: local_start(broker, "t") >= 11, "all is uploaded")
        objects.hold()

        answer = client.call(fetch("t", 0, max_wait_ms=20_000), 12).responses[0].partitions[0]

        assert answer.error_code == ErrorCode.NONE
        assert not answer.records
        assert answer.high_watermark == 12
        broker.run(lambda real: objects.go_on())
        assert read_all(client, "t") == list(range(12))


def test_what_is_here_does_not_wait_for_what_is_in_the_store(broker: Broker, objects: FaultyObjects) -> None:
    with RawClient(broker.bootstrap) as client:
        create_topic(client, "t", 2, local_retention_ms="1", **TIERED)
        fill(client, "t")
        append(client, "t", b"here", partition=1)
        until(lambda: local_start(broker, "t") >= 11, "all is uploaded")
        objects.hold()

        both = client.call(fetch("t", 0, partitions=2, max_wait_ms=20_000), 12).responses[0].partitions

        assert [bool(each.records) for each in both] == [False, True]
        broker.run(lambda real: objects.go_on())


def test_the_cache_takes_no_more_of_the_disk_than_is_set(broker: Broker, objects: FaultyObjects) -> None:
    with RawClient(broker.bootstrap) as client:
        create(client, "t", **{**TIERED, "internal_segment_bytes": "1000000", "local_retention_ms": "1"})
        for _ in range(8):
            append(client, "t", b"x" * 900_000)
        until(lambda: local_start(broker, "t") >= 7, "all is uploaded")
        assert read_all(client, "t", end=8) == list(range(8))

        tiering = broker.run(lambda real: real.parts.tiering)
        assert tiering is not None
        assert 0 < tiering.cache.size_bytes <= 4 * 2**20


def test_uploads_are_no_faster_than_is_set(objects: FaultyObjects, tmp_path: Path) -> None:
    slow = {**FAST, "headrace.remote.upload.bytes.per.second": "1200"}
    host = Host(open_objects=objects.opened)
    with Broker(data=tmp_path, settings=slow, host=host) as broker, RawClient(broker.bootstrap) as client:
        create(client, "t", **TIERED)
        began = time.monotonic()
        fill(client, "t")
        until(lambda: part_of(broker, "t").end_offset >= 11, "all is uploaded")

        assert time.monotonic() - began > 1.0


def test_the_objects_of_a_deleted_topic_go(broker: Broker, objects: FaultyObjects) -> None:
    with RawClient(broker.bootstrap) as client:
        topic_id = str(create(client, "t", local_retention_ms="1", **TIERED))
        fill(client, "t")
        until(lambda: local_start(broker, "t") >= 11, "all is uploaded")
        broker.run(lambda real: real.spawn(_delete(real, "t")))

    until(lambda: not any(topic_id in key for key in objects.objects), "nothing is left of it")


async def _delete(real: object, topic: str) -> None:
    await real.parts.topics.delete(topic, None)  # type: ignore[attr-defined]
