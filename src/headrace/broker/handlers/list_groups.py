"""ListGroups: the groups that this broker looks after."""

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.group.shard import GroupShard
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


async def handle(request: ListGroupsRequest, context: RequestContext, groups: GroupShards) -> ListGroupsResponse:
    try:
        found = await groups.look_everywhere(GroupShard.list_groups, request.states_filter, request.types_filter)
    except RequestError as error:
        return ListGroupsResponse(error_code=error.code, groups=())
    sees_all = context.may(Operation.DESCRIBE, ResourceType.CLUSTER)
    listed = tuple(
        ListedGroup(group_id=group.group_id, protocol_type=group.protocol_type, group_state=group.state, group_type=group.kind)
        for group in found
        if sees_all or context.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
    )
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=listed)
