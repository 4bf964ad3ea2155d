"""DeleteGroups: removes empty groups with their offsets."""

from headrace.broker.coordinators.groups.shell import GroupCoordinator
from headrace.broker.network.dispatch import RequestContext
from headrace.model.errors import ErrorCode
from headrace.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

REASONS = {
    ErrorCode.NON_EMPTY_GROUP: "The group has members.",
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such group.",
}


async def handle(request: DeleteGroupsRequest, context: RequestContext, groups: GroupCoordinator) -> DeleteGroupsResponse:
    errors = await groups.delete_groups(request.groups_names)
    results = tuple(
        DeletableGroupResult(group_id=group_id, error_code=code, error_message=REASONS.get(code))
        for group_id, code in errors.items()
    )
    return DeleteGroupsResponse(results=results)
