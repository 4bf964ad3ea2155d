"""A group's coordinator moves with its partition's leader, and the group with it: members, generation and offsets."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from headrace.model.errors import ErrorCode
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.integration.memory_cluster import MemoryCluster, play
from tests.support.waiting import until_async

SETTINGS = {"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}
GROUP = "readers"
NOT_YET = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def coordinator(cluster: MemoryCluster, asked: int) -> int:
    """The coordinator by one broker's account, once there is one."""

    async def find() -> Any:
        found = await cluster.call(asked, FindCoordinatorRequest(key=GROUP), 3)
        return found if found.error_code == ErrorCode.NONE and found.node_id in cluster.brokers else None

    return int((await until_async(find, "there is a coordinator")).node_id)


async def ask(cluster: MemoryCluster, request: Any, version: int) -> Any:
    """Ask as a client does: find the coordinator, and look again when it has moved or is loading."""

    async def ask_once() -> Any:
        reply = await cluster.call(await coordinator(cluster, next(iter(cluster.brokers))), request, version)
        code = reply.groups[0].error_code if hasattr(reply, "groups") else getattr(reply, "error_code", None)
        if code is None:
            code = reply.topics[0].partitions[0].error_code
        return None if code in NOT_YET else reply

    return await until_async(ask_once, "the group's coordinator answers")


def commit(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    return OffsetCommitRequest(group_id="alone", topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),))


async def stop(cluster: MemoryCluster, broker_id: int) -> None:
    await cluster.brokers.pop(broker_id).stop()


async def join(cluster: MemoryCluster) -> tuple[str, int]:
    """A stable group of one; its member and generation."""
    protocols = (JoinGroupRequestProtocol(name="any", metadata=b""),)
    request: dict[str, Any] = {"group_id": GROUP, "session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000}
    asked = JoinGroupRequest(**request, member_id="", protocol_type="test", protocols=protocols)
    member_id = (await ask(cluster, asked, 9)).member_id
    joined = await ask(cluster, JoinGroupRequest(**request, member_id=member_id, protocol_type="test", protocols=protocols), 9)
    assignments = (SyncGroupRequestAssignment(member_id=member_id, assignment=b"all"),)
    synced = await ask(
        cluster,
        SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=member_id,
            protocol_type="test",
            protocol_name="any",
            assignments=assignments,
        ),
        5,
    )
    assert synced.assignment == b"all"
    return member_id, joined.generation_id


def test_a_classic_group_goes_on_with_another_coordinator_and_its_members_need_not_join_again() -> None:
    async def story() -> None:
        async with MemoryCluster(3, SETTINGS) as cluster:
            member_id, generation = await join(cluster)
            first = await coordinator(cluster, 1)
            await stop(cluster, first)

            beat = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
            reply = await ask(cluster, beat, 4)

            assert reply.error_code == ErrorCode.NONE
            assert await coordinator(cluster, next(iter(cluster.brokers))) != first

    play(story)


def test_a_consumer_group_goes_on_with_another_coordinator() -> None:
    async def story() -> None:
        async with MemoryCluster(3, SETTINGS) as cluster:
            await cluster.create_topic("t", partitions=4)
            joining = ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id="me",
                member_epoch=0,
                rebalance_timeout_ms=1000,
                subscribed_topic_names=("t",),
                topic_partitions=(),
            )
            joined = await ask(cluster, joining, 1)
            assert len(joined.assignment.topic_partitions[0].partitions) == 4
            await stop(cluster, await coordinator(cluster, 1))

            beat = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="me", member_epoch=joined.member_epoch)
            reply = await ask(cluster, beat, 1)

            assert (reply.error_code, reply.member_epoch) == (ErrorCode.NONE, joined.member_epoch)

    play(story)


def test_committed_offsets_are_there_whoever_coordinates() -> None:
    async def story() -> None:
        async with MemoryCluster(3, SETTINGS) as cluster:
            await cluster.create_topic("t")
            everything = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="alone", topics=None),))
            for offset in (1, 2):
                found = await cluster.call(next(iter(cluster.brokers)), FindCoordinatorRequest(key="alone"), 3)
                reply = await cluster.call(found.node_id, commit(offset), 9)
                assert reply.topics[0].partitions[0].error_code == ErrorCode.NONE
                if offset == 1:
                    await stop(cluster, found.node_id)
                    await cluster.until(
                        lambda: all(
                            state.leader in cluster.brokers for state in cluster.image.topics["__consumer_offsets"].partitions
                        )
                    )
                    found = await cluster.call(next(iter(cluster.brokers)), FindCoordinatorRequest(key="alone"), 3)
                    fetched = await cluster.call(found.node_id, everything, 9)
                    assert fetched.groups[0].topics[0].partitions[0].committed_offset == 1

    play(story)


def test_a_broker_that_does_not_coordinate_a_group_says_so() -> None:
    async def story() -> None:
        async with MemoryCluster(3, SETTINGS) as cluster:
            member_id, generation = await join(cluster)
            home = await coordinator(cluster, 1)
            beat = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
            for broker_id in cluster.brokers:
                reply = await cluster.call(broker_id, beat, 4)
                listed = await cluster.call(broker_id, ListGroupsRequest(), 5)

                assert reply.error_code == (ErrorCode.NONE if broker_id == home else ErrorCode.NOT_COORDINATOR)
                assert (GROUP in {group.group_id for group in listed.groups}) == (broker_id == home)

    play(story)
