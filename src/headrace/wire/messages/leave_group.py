"""LeaveGroup: members leave a group at once, instead of timing out."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, Until, array, int16, int32, string

LEAVE_GROUP = Api(key=13, versions=range(6), flexible_from=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdentity:
    """A member that leaves, by its id or by its static identity."""

    member_id: Annotated[str, string]
    group_instance_id: Annotated[str | None, string] = None
    reason: Annotated[str | None, string, Since(5)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupRequest:
    """Who leaves: one member, or many from v3 on.  v4 is the first flexible version, v5 adds a reason."""

    api: ClassVar[Api] = LEAVE_GROUP
    group_id: Annotated[str, string]
    member_id: Annotated[str, string, Until(2)] = ""
    members: Annotated[tuple[MemberIdentity, ...], array(MemberIdentity), Since(3)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberResponse:
    """What became of one member."""

    member_id: Annotated[str, string]
    group_instance_id: Annotated[str | None, string]
    error_code: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResponse:
    """Whether they left.  v1 adds the throttle time, v3 an answer for each member."""

    api: ClassVar[Api] = LEAVE_GROUP
    throttle_time_ms: Annotated[int, int32, Since(1)] = 0
    error_code: Annotated[int, int16]
    members: Annotated[tuple[MemberResponse, ...], array(MemberResponse), Since(3)] = ()
