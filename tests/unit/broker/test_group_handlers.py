"""Handlers of group APIs need the groups' shards, and nothing else of a broker."""

import asyncio
from collections.abc import Awaitable, Callable

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.coordinators.groups.entries import GroupEntryCodec
from headrace.broker.coordinators.led_shard import ShardContext
from headrace.broker.coordinators.shards import Shards
from headrace.broker.handlers import delete_groups, describe_groups, heartbeat, list_groups
from headrace.broker.supervision.supervision import Supervisor
from headrace.coordination.group.entries import CommittedOffset
from headrace.coordination.group.requests import Commit, OffsetToCommit
from headrace.coordination.group.settings import GroupSettings
from headrace.coordination.group.shard import GroupShard
from headrace.host.clock import SystemClock
from headrace.model.errors import ErrorCode
from headrace.wire.messages.delete_groups import DeleteGroupsRequest
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.list_groups import ListGroupsRequest
from tests.unit.broker.handlers.requests import context_of
from tests.unit.broker.test_coordinator_shards import ListLog

CONTEXT = context_of(DescribeGroupsRequest, 6)
ELSEWHERE = "elsewhere"


def run(story: Callable[[GroupShards], Awaitable[None]]) -> None:
    async def told() -> None:
        context = ShardContext(
            topic="__consumer_offsets",
            codec=GroupEntryCodec(),
            make_shard=lambda: GroupShard(GroupSettings()),
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
        reply = await delete_groups.handle(DeleteGroupsRequest(groups_names=names), CONTEXT, groups)

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
