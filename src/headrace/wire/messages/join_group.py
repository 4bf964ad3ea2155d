"""JoinGroup: a member enters a classic group, or enters it again when the group rebalances."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, NullableSince, Since, array, binary, boolean, int16, int32, string

JOIN_GROUP = Api(key=11, versions=range(10), flexible_from=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequestProtocol:
    """A protocol (an assignor) that the member knows, and its subscription."""

    name: Annotated[str, string]
    metadata: Annotated[bytes, binary]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest:
    """Asks to be a member.

    v1 adds the rebalance time-out, v4 asks new members to come back with the id that they are given (KIP-394), v5 adds
    static members, v6 is the first flexible version, v8 adds a reason.
    """

    api: ClassVar[Api] = JOIN_GROUP
    group_id: Annotated[str, string]
    session_timeout_ms: Annotated[int, int32]
    rebalance_timeout_ms: Annotated[int, int32, Since(1)] = -1
    member_id: Annotated[str, string]
    group_instance_id: Annotated[str | None, string, Since(5)] = None
    protocol_type: Annotated[str, string]
    protocols: Annotated[tuple[JoinGroupRequestProtocol, ...], array(JoinGroupRequestProtocol)]
    reason: Annotated[str | None, string, Since(8)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponseMember:
    """A member and its subscription under the chosen protocol."""

    member_id: Annotated[str, string]
    group_instance_id: Annotated[str | None, string, Since(5)] = None
    metadata: Annotated[bytes, binary]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponse:
    """The generation; for the leader also the members.

    v2 adds the throttle time, v5 static members, v7 the protocol type, v9 may tell the leader to skip the assignment.
    """

    api: ClassVar[Api] = JOIN_GROUP
    throttle_time_ms: Annotated[int, int32, Since(2)] = 0
    error_code: Annotated[int, int16]
    generation_id: Annotated[int, int32] = -1
    protocol_type: Annotated[str | None, string, Since(7)] = None
    protocol_name: Annotated[str | None, string, NullableSince(7)]
    leader: Annotated[str, string]
    skip_assignment: Annotated[bool, boolean, Since(9)] = False
    member_id: Annotated[str, string]
    members: Annotated[tuple[JoinGroupResponseMember, ...], array(JoinGroupResponseMember)]
