"""SyncGroup: a member asks for its assignment, and the leader brings everybody's."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, binary, int16, int32, string

SYNC_GROUP = Api(key=14, versions=range(6), flexible_from=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequestAssignment:
    """The assignment of one member."""

    member_id: Annotated[str, string]
    assignment: Annotated[bytes, binary]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequest:
    """From the leader with assignments, from the others without.

    v3 adds static members, v4 is the first flexible version, v5 checks the protocol.
    """

    api: ClassVar[Api] = SYNC_GROUP
    group_id: Annotated[str, string]
    generation_id: Annotated[int, int32]
    member_id: Annotated[str, string]
    group_instance_id: Annotated[str | None, string, Since(3)] = None
    protocol_type: Annotated[str | None, string, Since(5)] = None
    protocol_name: Annotated[str | None, string, Since(5)] = None
    assignments: Annotated[tuple[SyncGroupRequestAssignment, ...], array(SyncGroupRequestAssignment)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResponse:
    """The member's assignment, in the client's own format.  v1 adds the throttle time, v5 the protocol."""

    api: ClassVar[Api] = SYNC_GROUP
    throttle_time_ms: Annotated[int, int32, Since(1)] = 0
    error_code: Annotated[int, int16]
    protocol_type: Annotated[str | None, string, Since(5)] = None
    protocol_name: Annotated[str | None, string, Since(5)] = None
    assignment: Annotated[bytes, binary]
