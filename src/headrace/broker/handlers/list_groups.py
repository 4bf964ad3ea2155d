"""ListGroups: the groups that this broker looks after."""

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import RequestContext
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from headrace.broker.app import Broker


async def handle(broker: "Broker", request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    try:
        listed = await broker.groups.list_groups(request.states_filter, request.types_filter)
    except RequestError as error:
        return ListGroupsResponse(error_code=error.code, groups=())
    groups = tuple(
        ListedGroup(group_id=group.group_id, protocol_type=group.protocol_type, group_state=group.state, group_type=group.kind)
        for group in listed
    )
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups)
