"""A partition acknowledges by the very rules that the scenarios prove: nothing of its own stands beside them."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.cluster.leadership import FollowedLeadership
from headrace.broker.following.fetcher import _flushed
from headrace.broker.partitions.flushing import Flusher
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.waiting import OffsetQueue
from headrace.controller.entries import PartitionState
from headrace.host.clock import SystemClock
from headrace.host.entropy import SystemEntropy
from headrace.log.memory.memory_log import MemoryLog
from headrace.model.errors import ErrorCode, RequestError, StorageError
from headrace.model.identity import TopicPartition
from headrace.model.topic_settings import LogConfig
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.replication.leader import LeaderState

LEADERSHIPS: Any = SimpleNamespace(
    may_act=lambda: True, now=lambda: 0.0, may_join=lambda broker, epoch: True, propose=lambda leadership: None
)
STATE = PartitionState(replicas=(1, 2), leader=1, leader_epoch=1, isr=(1, 2))


def led(minimum: int) -> tuple[Partition, LeaderState]:
    loop = asyncio.get_running_loop()
    log = MemoryLog(LogConfig(min_insync_replicas=minimum), SystemClock())
    partition = Partition(TopicPartition("t", 0), SystemEntropy().uuid(), log, flusher=Flusher(loop), loop=loop)
    leader = LeaderState.begin(
        1, STATE, end_offset=0, high_watermark=0, now=0.0, lag_time_max_s=10.0, min_insync_replicas=minimum
    )
    partition.lead(STATE, FollowedLeadership(partition, leader, LEADERSHIPS))
    partition.append(build_batch([Record(0, 0, b"k", b"v")]))
    return partition, leader


def run(story: Callable[[], None]) -> None:
    async def within() -> None:
        story()

    asyncio.run(within())


def test_a_duplicate_of_what_was_committed_hears_that_too_few_are_in_sync_by_now() -> None:
    def story() -> None:
        partition, leader = led(minimum=2)
        partition.leadership.on_fetch(2, 1, 0, -1)
        assert partition.when_durable(1, -1, lambda code: None)
        leader.on_state(STATE.changed(isr=(1,)), 1.0)

        with pytest.raises(RequestError) as refused:
            partition.when_durable(1, -1, lambda code: None)
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    run(story)


def test_a_write_begins_only_with_enough_in_sync_as_the_settings_are_now() -> None:
    def story() -> None:
        partition, leader = led(minimum=1)
        leader.on_state(STATE.changed(isr=(1,)), 1.0)
        partition.require_replicas()
        partition.log.reconfigure(LogConfig(min_insync_replicas=2))

        with pytest.raises(RequestError) as refused:
            partition.require_replicas()
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS

    run(story)


def test_who_waits_is_told_when_the_followers_have_it() -> None:
    def story() -> None:
        partition, _ = led(minimum=2)
        heard: list[ErrorCode] = []
        assert not partition.when_durable(1, -1, heard.append)
        assert heard == []

        partition.leadership.on_fetch(2, 1, 0, -1)

        assert heard == [ErrorCode.NONE]

    run(story)


def test_a_flush_that_finds_the_files_of_a_deleted_topic_gone_is_no_failure_of_the_disk() -> None:
    def story() -> None:
        partition, _ = led(minimum=1)
        partition.retire()

        partition.on_storage_failure(StorageError("t-0", "flushing"))

        assert partition.failure is None

    run(story)


class Somebody:
    """Whoever looks after a replica, and says so again with each change of its role."""

    def __init__(self) -> None:
        self.heard: list[Partition] = []

    def on_failure(self, partition: Partition) -> None:
        self.heard.append(partition)


def test_who_asks_again_with_each_role_hears_once_of_a_failure() -> None:
    def story() -> None:
        partition, _ = led(minimum=1)
        first, second = Somebody(), Somebody()
        for _ in range(1_000):
            partition.when_failed(first.on_failure)
            partition.when_failed(second.on_failure)
        partition.on_storage_failure(StorageError("t-0", "write"))

        assert (first.heard, second.heard) == ([partition], [partition])

    run(story)


def test_who_waits_for_a_flush_of_what_was_cut_is_told_so() -> None:
    def story() -> None:
        partition, _ = led(minimum=1)
        heard: list[ErrorCode] = []
        partition.flushed.wait(7, heard.append)
        partition.on_truncated()

        assert heard == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    run(story)


@pytest.mark.parametrize(
    "gone", [{"is_retired": True}, {"failure": StorageError("t-0", "reading")}], ids=lambda gone: next(iter(gone))
)
def test_a_follower_waits_for_no_flush_of_a_replica_that_has_gone_meanwhile(gone: dict[str, Any]) -> None:
    replica: Any = SimpleNamespace(
        **{"is_retired": False, "failure": None} | gone,
        config=LogConfig(flush="ack"),
        log=SimpleNamespace(flushed_offset=0, end_offset=1),
        flushed=OffsetQueue(),
    )

    asyncio.run(asyncio.wait_for(_flushed([replica]), 5))
