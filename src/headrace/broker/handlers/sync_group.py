"""SyncGroup: parked until the leader has assigned."""

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.group.requests import Sync, SyncReply
from headrace.coordination.group.shard import GroupShard
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_VERSION_WITH_PROTOCOL = 5


async def handle(request: SyncGroupRequest, context: RequestContext, groups: GroupShards) -> SyncGroupResponse:
    try:
        if context.api_version >= FIRST_VERSION_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name):
            raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        reply = await groups.ask(request.group_id, GroupShard.sync, _sync(request))
    except RequestError as error:
        reply = SyncReply(error=error.code)
    return SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol,
        assignment=reply.assignment,
    )


def _sync(request: SyncGroupRequest) -> Sync:
    return Sync(
        group_id=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments={each.member_id: each.assignment for each in request.assignments},
    )
