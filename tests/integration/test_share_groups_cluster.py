"""A share group among three brokers: its state is kept on one, its records on another, and each may go."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from headrace.broker.coordinators.placement import partition_for
from headrace.broker.coordinators.share_state.coordinator import name_of
from headrace.coordination.share.entries import ShareKey
from headrace.model.errors import ErrorCode
from headrace.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.integration.memory_cluster import MemoryCluster, play
from tests.support import share_requests
from tests.support.share_requests import ACCEPT, HEARTBEAT_VERSION, VERSION, acquired
from tests.support.waiting import until_async

STATES = 5
SETTINGS = {"offsets.topic.num.partitions": "1", "share.coordinator.state.topic.num.partitions": str(STATES)}
NOT_YET = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


class Worker:
    """A member that finds its way: to the group's coordinator, and to the leader of the only partition."""

    def __init__(self, cluster: MemoryCluster, group: str) -> None:
        self.cluster = cluster
        self.group = group
        self.member_epoch = 0
        self.session_epoch = 0
        self.topic_id = cluster.image.topics["jobs"].topic_id

    @property
    def leader(self) -> int:
        return self.cluster.image.topics["jobs"].partitions[0].leader

    @property
    def share_coordinator(self) -> int:
        index = partition_for(name_of(ShareKey(self.group, self.topic_id, 0)), STATES)
        return self.cluster.image.topics["__share_group_state"].partitions[index].leader

    async def of_group(self, request: Any, version: int) -> Any:
        """Asked of the group's coordinator, once there is one."""

        async def ask() -> Any:
            found = await self.cluster.call(
                next(iter(self.cluster.brokers)), FindCoordinatorRequest(key_type=0, coordinator_keys=(self.group,)), 4
            )
            coordinator = found.coordinators[0]
            if coordinator.error_code or coordinator.node_id not in self.cluster.brokers:
                return None
            reply = await self.cluster.call(coordinator.node_id, request, version)
            code = reply.groups[0].error_code if hasattr(reply, "groups") else reply.error_code
            return None if code in NOT_YET else reply

        return await until_async(ask, "the group's coordinator answers")

    async def join(self) -> None:
        async def is_assigned() -> bool:
            request = share_requests.heartbeat(self.group, "ann", self.member_epoch, "jobs")
            reply = await self.of_group(request, HEARTBEAT_VERSION)
            assert reply.error_code == ErrorCode.NONE, reply
            return bool(reply.assignment is not None and reply.assignment.topic_partitions)

        await until_async(is_assigned, "the member has its partition")

    async def take(self, count: int) -> list[tuple[int, int]]:
        """Ranges, once there are so many records."""
        taken: list[tuple[int, int]] = []

        async def has_all() -> bool:
            indexes = (0,) if self.session_epoch == 0 else ()
            request = share_requests.fetch(self.group, "ann", self.session_epoch, self.topic_id, indexes, max_wait_ms=100)
            reply = await self.cluster.call(self.leader, request, VERSION)
            self.session_epoch = self.session_epoch + 1 if reply.error_code == ErrorCode.NONE else 0
            taken.extend((first, last) for first, last, _ in acquired(reply))
            return sum(last - first + 1 for first, last in taken) >= count

        await until_async(has_all, f"there are {count} records")
        return taken

    async def accept(self, first: int, last: int) -> ErrorCode:
        return await self.say(first, last, ACCEPT)

    async def say(self, first: int, last: int, word: int) -> ErrorCode:
        request = share_requests.acknowledge(self.group, "ann", self.session_epoch, self.topic_id, first, last, word)
        reply = await self.cluster.call(self.leader, request, VERSION)
        self.session_epoch += 1
        assert reply.error_code == ErrorCode.NONE, reply
        return ErrorCode(reply.responses[0].partitions[0].error_code)

    async def lag(self) -> tuple[int, int]:
        request = DescribeShareGroupOffsetsRequest(
            groups=(DescribeShareGroupOffsetsRequestGroup(group_id=self.group, topics=None),)
        )
        (partition,) = (await self.of_group(request, 1)).groups[0].topics[0].partitions
        return partition.start_offset, partition.lag


async def begin_early(cluster: MemoryCluster, group: str) -> None:
    early = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(resource_type=32, resource_name=group, configs=(early,))
    await cluster.call(1, IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1)


async def begun(cluster: MemoryCluster) -> Worker:
    """A worker whose state is kept on another broker than the one that has its records; five of ten are accepted."""
    await cluster.create_topic("jobs")
    for number in range(20):
        worker = Worker(cluster, f"workers-{number}")
        await begin_early(cluster, worker.group)
        await worker.join()
        if worker.share_coordinator != worker.leader:
            break
    assert worker.share_coordinator != worker.leader
    await cluster.produce(worker.leader, "jobs", *(str(number) for number in range(10)))
    assert await worker.take(10) == [(0, 9)]
    assert await worker.accept(0, 4) == ErrorCode.NONE
    return worker


def test_state_is_kept_on_another_broker_and_survives_the_loss_of_the_partitions_leader() -> None:
    async def story() -> None:
        async with MemoryCluster(3, SETTINGS) as cluster:
            worker = await begun(cluster)
            assert await worker.lag() == (5, 5)
            first = worker.leader
            await cluster.brokers.pop(first).stop()
            await cluster.until(lambda: worker.leader != first)
            worker.session_epoch = 0

            assert await worker.take(5) == [(5, 9)]
            assert await worker.accept(5, 9) == ErrorCode.NONE
            assert await worker.lag() == (10, 0)

    play(story)


def test_state_moves_with_its_coordinator_and_nothing_accepted_comes_again() -> None:
    async def story() -> None:
        async with MemoryCluster(3, SETTINGS) as cluster:
            worker = await begun(cluster)
            keeper = worker.share_coordinator
            await cluster.brokers.pop(keeper).stop()
            await cluster.until(lambda: worker.share_coordinator != keeper)

            async def is_accepted() -> bool:
                code = await worker.accept(5, 9)
                if code == ErrorCode.INVALID_RECORD_STATE:
                    await worker.take(5)  # what could not be written meanwhile is given out again
                return code == ErrorCode.NONE

            await until_async(is_accepted, "the new coordinator keeps it")
            assert await worker.lag() == (10, 0)

    play(story)


def test_word_that_the_replicas_do_not_confirm_is_refused_in_time() -> None:
    given = {"share.coordinator.write.timeout.ms": "300", "share.coordinator.state.topic.min.isr": "3"}

    async def story() -> None:
        async with MemoryCluster(3, SETTINGS | given) as cluster:
            worker = await begun(cluster)
            other = next(each for each in cluster.brokers if each not in (worker.leader, worker.share_coordinator))
            await cluster.brokers.pop(other).stop()

            assert await worker.accept(5, 9) == ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(story)
