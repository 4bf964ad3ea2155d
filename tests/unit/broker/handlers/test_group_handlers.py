"""Handlers of group APIs need the groups' shards, and nothing else of a broker."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.coordinators.groups.entries import GroupEntryCodec
from headrace.broker.coordinators.led_shard import ShardContext
from headrace.broker.coordinators.shards import Shards
from headrace.broker.handlers import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from headrace.broker.supervision.supervision import Supervisor
from headrace.coordination.group.entries import CommittedOffset
from headrace.coordination.group.requests import Commit, OffsetToCommit
from headrace.coordination.group.settings import GroupSettings
from headrace.coordination.group.shard import GroupShard
from headrace.host.clock import SystemClock
from headrace.host.entropy import SystemEntropy
from headrace.model.errors import ErrorCode
from headrace.wire.messages.delete_groups import DeleteGroupsRequest
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headrace.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from headrace.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from headrace.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.broker.handlers.replicas_in_memory import HERE, TOPIC_ID, image_of
from tests.unit.broker.handlers.requests import context_of
from tests.unit.broker.test_coordinator_shards import ListLog

CONTEXT = context_of(DescribeGroupsRequest, 6)
ELSEWHERE = "elsewhere"
UNTOUCHED: Any = None


def run(story: Callable[[GroupShards], Awaitable[None]]) -> None:
    async def told() -> None:
        context = ShardContext(
            topic="__consumer_offsets",
            codec=GroupEntryCodec(),
            make_shard=lambda: GroupShard(GroupSettings(initial_rebalance_delay_ms=0)),
            clock=SystemClock(),
            scope=Supervisor(SystemClock()),
            write_timeout_s=5.0,
        )
        groups: GroupShards = Shards(context, partition_of=lambda group_id: 1 if group_id == ELSEWHERE else 0)
        groups.lead(0, ListLog())
        await groups.wait_loaded(0)
        async with asyncio.timeout(5):
            await story(groups)
        groups.close()

    asyncio.run(told())


async def commit(groups: GroupShards, group_id: str) -> None:
    offset = OffsetToCommit("t", 0, CommittedOffset(offset=1, leader_epoch=-1, metadata=""))
    request = Commit(group_id=group_id, member_id="", instance_id=None, generation=-1, offsets=(offset,))
    assert await groups.ask(group_id, GroupShard.commit, request) == (ErrorCode.NONE,)


def test_groups_are_deleted_each_with_its_own_outcome_in_the_order_of_asking() -> None:
    async def story(groups: GroupShards) -> None:
        await commit(groups, "a")
        names = ("nobody", "a", ELSEWHERE, "a")
        reply = await delete_groups.handle(DeleteGroupsRequest(groups_names=names), CONTEXT, groups, share_states=UNTOUCHED)

        assert [(result.group_id, result.error_code) for result in reply.results] == [
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
            ("a", ErrorCode.NONE),
            (ELSEWHERE, ErrorCode.NOT_COORDINATOR),
        ]

    run(story)


def test_what_is_listed_and_described_are_the_groups_of_the_shards() -> None:
    async def story(groups: GroupShards) -> None:
        await commit(groups, "a")
        listed = await list_groups.handle(ListGroupsRequest(states_filter=(), types_filter=()), CONTEXT, groups)
        request = DescribeGroupsRequest(groups=("a", ELSEWHERE), include_authorized_operations=False)
        described = await describe_groups.handle(request, CONTEXT, groups)

        assert [group.group_id for group in listed.groups] == ["a"]
        assert [group.error_code for group in described.groups] == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]

    run(story)


def test_a_heartbeat_while_a_shard_is_loaded_asks_nothing_of_the_member() -> None:
    async def story(groups: GroupShards) -> None:
        log = ListLog()
        await commit(groups, "a")
        log.reading.clear()
        log.end_offset = 1
        groups.lead(0, log)
        beat = HeartbeatRequest(group_id="a", generation_id=1, member_id="m")

        assert (await heartbeat.handle(beat, CONTEXT, groups)).error_code == ErrorCode.NONE

    run(story)


async def committed(groups: GroupShards, group_id: str, *indexes: int, offset: int = 5) -> list[ErrorCode]:
    """Of one topic with a single partition, by its id."""
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="m") for index in indexes
    )
    topic = OffsetCommitRequestTopic(topic_id=TOPIC_ID, partitions=partitions)
    request = OffsetCommitRequest(group_id=group_id, topics=(topic,))
    reply = await offset_commit.handle(request, context_of(request, 10), lambda: image_of(HERE), groups)
    return [ErrorCode(each.error_code) for each in reply.topics[0].partitions]


async def fetched(groups: GroupShards, group_id: str) -> tuple[ErrorCode, list[int]]:
    topic = OffsetFetchRequestTopics(topic_id=TOPIC_ID, partition_indexes=(0,))
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group_id, topics=(topic,)),))
    reply = await offset_fetch.handle(request, context_of(request, 10), lambda: image_of(HERE), groups)
    group = reply.groups[0]
    return ErrorCode(group.error_code), [each.committed_offset for topic in group.topics for each in topic.partitions]


def test_offsets_are_committed_fetched_and_deleted_where_their_partition_exists() -> None:
    async def story(groups: GroupShards) -> None:
        assert await committed(groups, "a", 0, 7) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await fetched(groups, "a") == (ErrorCode.NONE, [5])
        assert await fetched(groups, "nobody") == (ErrorCode.NONE, [-1])

        partition = OffsetDeleteRequestPartition(partition_index=0)
        request = OffsetDeleteRequest(group_id="a", topics=(OffsetDeleteRequestTopic(name="t", partitions=(partition,)),))
        reply = await offset_delete.handle(request, context_of(request, 0), lambda: image_of(HERE), groups)
        assert (reply.error_code, reply.topics[0].partitions[0].error_code) == (ErrorCode.NONE, ErrorCode.NONE)
        assert await fetched(groups, "a") == (ErrorCode.NONE, [-1])

    run(story)


def test_offsets_of_a_group_that_is_looked_after_elsewhere_are_not_touched() -> None:
    async def story(groups: GroupShards) -> None:
        assert await committed(groups, ELSEWHERE, 0) == [ErrorCode.NOT_COORDINATOR]
        assert (await fetched(groups, ELSEWHERE))[0] is ErrorCode.NOT_COORDINATOR

    run(story)


async def joined(groups: GroupShards, member_id: str = "") -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id="a",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b"what I read"),),
    )
    return await join_group.handle(request, context_of(request, 9), groups, SystemEntropy())


def test_a_member_joins_under_the_id_it_is_given_gets_its_assignment_and_leaves() -> None:
    async def story(groups: GroupShards) -> None:
        first = await joined(groups)
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        member = await joined(groups, first.member_id)
        assert (member.error_code, member.leader, member.generation_id) == (ErrorCode.NONE, first.member_id, 1)
        assert [each.metadata for each in member.members] == [b"what I read"]

        sync = SyncGroupRequest(
            group_id="a",
            generation_id=1,
            member_id=member.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=(SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"all of it"),),
        )
        assert (await sync_group.handle(sync, context_of(sync, 5), groups)).assignment == b"all of it"

        leave = LeaveGroupRequest(group_id="a", members=(MemberIdentity(member_id=member.member_id),))
        left = await leave_group.handle(leave, context_of(leave, 5), groups)
        assert [each.error_code for each in left.members] == [ErrorCode.NONE]
        beat = HeartbeatRequest(group_id="a", generation_id=1, member_id=member.member_id)
        assert (await heartbeat.handle(beat, context_of(beat, 4), groups)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run(story)
