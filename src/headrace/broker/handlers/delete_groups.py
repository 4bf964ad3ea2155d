"""DeleteGroups: removes empty groups with their offsets."""

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import RequestContext
from headrace.model.errors import ErrorCode
from headrace.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from headrace.broker.app import Broker

REASONS = {
    ErrorCode.NON_EMPTY_GROUP: "The group has members.",
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such group.",
}


async def handle(broker: "Broker", request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    errors = await broker.groups.delete_groups(request.groups_names)
    results = tuple(
        DeletableGroupResult(group_id=group_id, error_code=code, error_message=REASONS.get(code))
        for group_id, code in errors.items()
    )
    return DeleteGroupsResponse(results=results)
