"""DescribeGroups: the state and members of classic groups."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, binary, boolean, int16, int32, string

DESCRIBE_GROUPS = Api(key=15, versions=range(7), flexible_from=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsRequest:
    """Asks about groups.  v3 may ask for allowed operations; v5 is the first flexible version."""

    api: ClassVar[Api] = DESCRIBE_GROUPS
    groups: Annotated[tuple[str, ...], array(string)]
    include_authorized_operations: Annotated[bool, boolean, Since(3)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroupMember:
    """A member, its subscription and its assignment."""

    member_id: Annotated[str, string]
    group_instance_id: Annotated[str | None, string, Since(4)] = None
    client_id: Annotated[str, string]
    client_host: Annotated[str, string]
    member_metadata: Annotated[bytes, binary]
    member_assignment: Annotated[bytes, binary]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group and its members."""

    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string, Since(6)] = None
    group_id: Annotated[str, string]
    group_state: Annotated[str, string]
    protocol_type: Annotated[str, string]
    protocol_data: Annotated[str, string]
    members: Annotated[tuple[DescribedGroupMember, ...], array(DescribedGroupMember)]
    authorized_operations: Annotated[int, int32, Since(3)] = -(2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsResponse:
    """The groups.  v1 adds the throttle time, v3 allowed operations, v4 static members, v6 messages and GROUP_ID_NOT_FOUND."""

    api: ClassVar[Api] = DESCRIBE_GROUPS
    throttle_time_ms: Annotated[int, int32, Since(1)] = 0
    groups: Annotated[tuple[DescribedGroup, ...], array(DescribedGroup)]
