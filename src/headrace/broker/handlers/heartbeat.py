"""Heartbeat: a member of a classic group is alive, and learns whether it must join again."""

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.group.requests import Heartbeat
from headrace.coordination.group.shard import GroupShard
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


async def handle(request: HeartbeatRequest, context: RequestContext, groups: GroupShards) -> HeartbeatResponse:
    beat = Heartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
    )
    try:
        code = await groups.ask(request.group_id, GroupShard.heartbeat, beat)
    except RequestError as error:
        # While a shard is being loaded nobody's session runs: there is nothing a member should do about it.
        code = ErrorCode.NONE if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error.code
    return HeartbeatResponse(error_code=code)
