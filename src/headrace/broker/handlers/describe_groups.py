"""DescribeGroups: state and members of classic groups."""

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.group.requests import DescribedClassicGroup
from headrace.coordination.group.shard import GroupShard
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.security.authorization.guard import NOT_ASKED
from headrace.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

FIRST_VERSION_WITH_ERRORS = 6


async def handle(request: DescribeGroupsRequest, context: RequestContext, groups: GroupShards) -> DescribeGroupsResponse:
    tells_error = context.api_version >= FIRST_VERSION_WITH_ERRORS
    described = []
    for group_id in request.groups:
        operations = context.authorized_operations(ResourceType.GROUP, group_id, asked=request.include_authorized_operations)
        described.append(await _describe(groups, group_id, operations, context, tells_error=tells_error))
    return DescribeGroupsResponse(groups=tuple(described))


async def _describe(
    groups: GroupShards, group_id: str, operations: int, context: RequestContext, *, tells_error: bool
) -> DescribedGroup:
    try:
        context.require(Operation.DESCRIBE, ResourceType.GROUP, group_id)
        group = await groups.look(group_id, GroupShard.describe_classic, group_id, tells_error=tells_error)
    except RequestError as error:
        group = DescribedClassicGroup(group_id=group_id, state="", error=error.code, error_message=error.message)
    members = tuple(
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata,
            member_assignment=member.assignment,
        )
        for member in group.members
    )
    return DescribedGroup(
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=members,
        authorized_operations=operations if group.error is ErrorCode.NONE else NOT_ASKED,
    )
