"""LeaveGroup: one member until version 2, many from version 3 on."""

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.group.requests import Leave, Leaver
from headrace.coordination.group.shard import GroupShard
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

FIRST_VERSION_WITH_MANY = 3


async def handle(request: LeaveGroupRequest, context: RequestContext, groups: GroupShards) -> LeaveGroupResponse:
    is_single = context.api_version < FIRST_VERSION_WITH_MANY
    if is_single:
        leavers: tuple[Leaver, ...] = (Leaver(request.member_id),)
    else:
        leavers = tuple(Leaver(member.member_id, member.group_instance_id) for member in request.members)
    try:
        leave = Leave(group_id=request.group_id, members=leavers)
        left = await groups.ask(request.group_id, GroupShard.leave, leave)
    except RequestError as error:
        return LeaveGroupResponse(error_code=error.code)
    if is_single:
        return LeaveGroupResponse(error_code=left[0].error)
    members = tuple(
        MemberResponse(member_id=member.member_id, group_instance_id=member.instance_id, error_code=member.error)
        for member in left
    )
    return LeaveGroupResponse(error_code=ErrorCode.NONE, members=members)
