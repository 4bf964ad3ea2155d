"""DescribeGroups: state and members of classic groups."""

from typing import TYPE_CHECKING

from headrace.broker.administration.authorized_operations import NOT_ASKED, ON_GROUP
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.group.requests import DescribedClassicGroup
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.app import Broker

FIRST_VERSION_WITH_ERRORS = 6


async def handle(broker: "Broker", request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    tells_error = context.api_version >= FIRST_VERSION_WITH_ERRORS
    operations = ON_GROUP if request.include_authorized_operations else NOT_ASKED
    groups = [await _describe(broker, group_id, operations, tells_error=tells_error) for group_id in request.groups]
    return DescribeGroupsResponse(groups=tuple(groups))


async def _describe(broker: "Broker", group_id: str, operations: int, *, tells_error: bool) -> DescribedGroup:
    try:
        group = await broker.groups.describe_classic(group_id, tells_error=tells_error)
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
