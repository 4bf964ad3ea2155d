"""Nothing on the event loop waits for a disk, whatever the disk is asked for meanwhile."""

import asyncio
import contextlib
import random
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from headrace.broker.handlers import delete_records
from headrace.broker.handlers.list_offsets import MAX_TIMESTAMP
from headrace.broker.partitions import replica_changes
from headrace.broker.partitions.page_cache import WrittenLately
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.storage import Opened
from headrace.log.interface import PartitionLog
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.testing.disk import PAGE_BYTES, SimulatedDisk, WatchedDisk
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.fetch import EpochEndOffset, PartitionData
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.integration.memory_cluster import MemoryCluster, play
from tests.integration.test_deleted_records import deletion

SLOW_S = 0.5
SETTINGS = {"log.index.interval.bytes": "100", "replica.fetch.wait.max.ms": "50"}
CONFIGS = {"internal.segment.bytes": "400", "retention.bytes": "3000"}


def watched(sync_seconds: float = 0.0) -> dict[int, WatchedDisk]:
    disks = {index: WatchedDisk(SimulatedDisk(random.Random(index)), sync_seconds=sync_seconds) for index in (1, 2)}
    for disk in disks.values():
        disk.forbidden_thread = threading.get_ident()
    return disks


class Stage:
    """A partition with a leader and a follower, and all that can be done with it."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster

    async def set_up(self) -> None:
        configs = tuple(CreatableTopicConfig(name=name, value=value) for name, value in CONFIGS.items())
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=2, assignments=(), configs=configs)
        await self.cluster.call(1, CreateTopicsRequest(topics=(topic,), timeout_ms=30_000), 5)
        await self.cluster.until(lambda: all("t" in broker.image.topics for broker in self.cluster.brokers.values()))
        self.leader = self.cluster.image.topics["t"].partitions[0].leader
        await self.cluster.until(lambda: self._is_open())

    def _is_open(self) -> bool:
        return all(any(each.identity.topic == "t" for each in broker.parts.replicas) for broker in self.cluster.brokers.values())

    @property
    def leading(self) -> Partition:
        return self.cluster.brokers[self.leader].parts.replicas.find("t", 0)

    @property
    def following(self) -> Partition:
        return self.cluster.brokers[3 - self.leader].parts.replicas.find("t", 0)

    async def produce(self) -> None:
        for number in range(6):
            answer = await self.cluster.produce(self.leader, "t", f"{number}" * 90)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    async def fetch(self) -> None:
        await self.cluster.fetch(self.leader, "t", self.leading.log.start_offset)

    async def look_for_times(self) -> None:
        for timestamp in (0, MAX_TIMESTAMP):
            wanted = ListOffsetsTopic(name="t", partitions=(ListOffsetsPartition(partition_index=0, timestamp=timestamp),))
            answer = await self.cluster.call(self.leader, ListOffsetsRequest(replica_id=-1, topics=(wanted,)), 7)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
            assert answer.topics[0].partitions[0].offset >= 0

    async def checkpoint(self) -> None:
        for broker in self.cluster.brokers.values():
            await broker.parts.housekeeping.checkpoint()

    async def delete_records(self) -> None:
        answer = await self.cluster.call(self.leader, deletion("t", self.leading.log.start_offset + 1), 2)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    async def truncate(self) -> None:
        """The follower hears that its log parted from its leader's, gives up what it has, and fetches it again."""
        end = max(0, self.following.log.end_offset - 4)
        parted = EpochEndOffset(epoch=self.leading.leader_epoch, end_offset=end)
        await self._answer_once(PartitionData(partition_index=0, error_code=0, diverging_epoch=parted))

    async def start_over(self) -> None:
        await self._answer_once(PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))

    async def _answer_once(self, answer: PartitionData) -> None:
        """Let the follower take this for what its leader says next, and then catch up again."""
        fetcher = self.cluster.brokers[3 - self.leader].parts.participation.fetchers._fetchers[self.leader]
        take, cuts = fetcher._take, asyncio.Event()

        async def take_instead(partition: Partition, data: PartitionData) -> bool:
            if partition is not self.following or cuts.is_set():
                return await take(partition, data)
            cuts.set()
            return await take(partition, answer)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fetcher, "_take", take_instead)
            await self.cluster.produce(self.leader, "t", "x" * 90)
            assert cuts.is_set()
        end = self.leading.log.end_offset
        await self.cluster.until(lambda: self.following.log.end_offset >= end)

    async def change_roles(self) -> None:
        for broker in self.cluster.brokers.values():
            broker.parts.replica_changes.reconsider_roles()
            await broker.parts.replica_changes.settled()

    async def create_and_delete_topics(self) -> None:
        await self.cluster.create_topic("other", partitions=3, factor=2)
        await self.cluster.produce(self.leader_of("other"), "other", "a")
        await self.cluster.call(1, DeleteTopicsRequest(topic_names=("other",), timeout_ms=30_000), 5)
        for broker in self.cluster.brokers.values():
            await broker.parts.replica_changes.settled()

    def leader_of(self, topic: str) -> int:
        return self.cluster.image.topics[topic].partitions[0].leader

    async def housekeep(self) -> None:
        for broker in self.cluster.brokers.values():
            await broker.parts.housekeeping.apply_retention()
            await broker.parts.housekeeping.cleaner.clean_all()

    def acts(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.produce,
            self.fetch,
            self.checkpoint,
            self.truncate,
            self.delete_records,
            self.start_over,
            self.change_roles,
            self.create_and_delete_topics,
            self.housekeep,
            self.produce,
            self.checkpoint,
            self.truncate,
        ]


def test_no_call_that_waits_for_a_disk_is_made_on_the_event_loop() -> None:
    disks = watched()

    async def story() -> None:
        async with MemoryCluster(2, SETTINGS, disks=disks) as cluster:
            stage = Stage(cluster)
            await stage.set_up()
            for act in stage.acts():
                await act()

    play(story)

    found = [text for disk in disks.values() for text in disk.found]
    assert not found, f"{len(found)} times, first:\n{found[0]}"


@pytest.mark.parametrize("ask", [Stage.fetch, Stage.look_for_times])
def test_what_is_not_in_memory_is_not_read_on_the_event_loop(ask: Callable[[Stage], Awaitable[None]]) -> None:
    disks = watched()

    async def story() -> None:
        async with MemoryCluster(2, SETTINGS, disks=disks) as cluster:
            stage = Stage(cluster)
            await stage.set_up()
            for _ in range(3):
                await stage.produce()
            stage.leading.written_lately = cast(WrittenLately, LongAgo())
            disks[stage.leader].forget_pages()
            await ask(stage)

    play(story)

    found = [text for disk in disks.values() for text in disk.found]
    assert not found, f"{len(found)} times, first:\n{found[0]}"


class LongAgo:
    """Nothing of a partition was written lately."""

    def is_warm(self, offset: int) -> bool:
        return False

    def note(self, end_offset: int, size_bytes: int) -> None:
        return


def test_the_watched_disk_would_tell() -> None:
    disk = WatchedDisk(SimulatedDisk(random.Random(1)))
    disk.forbidden_thread = threading.get_ident()
    disk.open(Path("/file"), create=True).sync()

    assert [text.splitlines()[0] for text in disk.found] == ["sync /file"]


def test_the_watched_disk_tells_of_a_read_of_what_is_not_in_memory() -> None:
    disk = WatchedDisk(SimulatedDisk(random.Random(1)))
    disk.forbidden_thread = threading.get_ident()
    file = disk.open(Path("/file"), create=True)
    file.append([bytes(3 * PAGE_BYTES)])
    file.read_at(0, 1)
    disk.forget_pages()
    elsewhere = threading.Thread(target=file.read_at, args=(0, PAGE_BYTES))
    elsewhere.start()
    elsewhere.join()
    file.read_at(0, PAGE_BYTES)
    assert disk.found == []

    file.read_at(0, PAGE_BYTES + 1)
    assert [text.splitlines()[0] for text in disk.found] == ["read /file"]


class Gaps:
    """The longest time for which the loop did not turn."""

    def __init__(self) -> None:
        self.longest = 0.0

    @contextlib.asynccontextmanager
    async def measured(self) -> AsyncIterator[None]:
        watching = asyncio.ensure_future(self._watch())
        try:
            yield
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.005)
            now = time.monotonic()
            self.longest = max(self.longest, now - last)
            last = now


@pytest.mark.slow
def test_the_loop_turns_while_every_sync_takes_half_a_second() -> None:
    disks = watched()
    gaps = Gaps()

    async def story() -> None:
        async with MemoryCluster(2, SETTINGS, disks=disks) as cluster:
            stage = Stage(cluster)
            await stage.set_up()
            await stage.produce()
            for disk in disks.values():
                disk.sync_seconds = SLOW_S
            async with gaps.measured():
                await asyncio.gather(stage.checkpoint(), stage.truncate(), stage.fetch())
                await asyncio.gather(stage.delete_records(), stage.housekeep())
            for disk in disks.values():
                disk.sync_seconds = 0.0

    play(story)

    assert not [text for disk in disks.values() for text in disk.found]
    # A loop that waits for one sync, or for a lock that is held across one, stands still for as long as that takes.
    assert gaps.longest < SLOW_S * 0.9


def test_a_deletion_is_answered_in_time_although_the_disk_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delete_records, "WRITE_SECONDS_MIN", 0.1)
    disk_answers = threading.Event()

    async def story() -> None:
        async with MemoryCluster(1) as cluster:
            await cluster.create_topic("t", factor=1)
            await cluster.produce(1, "t", "a", "b")
            write = cluster.brokers[1].storage.write_log_starts

            def hangs(logs: Mapping[TopicPartition, PartitionLog]) -> dict[TopicPartition, int]:
                disk_answers.wait()
                return write(logs)

            monkeypatch.setattr(cluster.brokers[1].storage, "write_log_starts", hangs)
            try:
                late = await cluster.call(1, deletion("t", 2, timeout_ms=200), 2)
            finally:
                disk_answers.set()
            again = await cluster.call(1, deletion("t", 2), 2)

            assert late.topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT
            assert again.topics[0].partitions[0].error_code == ErrorCode.NONE
            assert again.topics[0].partitions[0].low_watermark == 2

    play(story)


def test_a_topic_is_made_and_its_maker_answered_although_its_files_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_changes, "SETTLED_SECONDS_MAX", 0.2)
    disk_answers = threading.Event()

    async def story() -> None:
        async with MemoryCluster(1) as cluster:
            storage = cluster.brokers[1].storage
            open_many = storage.open_many

            def hangs(*arguments: Any) -> list[Opened]:
                disk_answers.wait()
                return open_many(*arguments)

            monkeypatch.setattr(storage, "open_many", hangs)
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=(), configs=())
            try:
                made = await cluster.call(1, CreateTopicsRequest(topics=(topic,), timeout_ms=30_000), 5)
            finally:
                disk_answers.set()
            await cluster.until(lambda: any(each.identity.topic == "t" for each in cluster.brokers[1].parts.replicas))

            assert made.topics[0].error_code == ErrorCode.NONE

    play(story)
