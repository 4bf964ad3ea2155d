"""Heartbeat: a group member says it is alive."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, int16, int32, string

HEARTBEAT = Api(key=12, versions=range(5), flexible_from=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """A sign of life.  v3 adds static membership; v4 is the first flexible version."""

    api: ClassVar[Api] = HEARTBEAT
    group_id: Annotated[str, string]
    generation_id: Annotated[int, int32]
    member_id: Annotated[str, string]
    group_instance_id: Annotated[str | None, string, Since(3)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse:
    """Whether the member is still one, or the group is moving.  v1 adds the throttle time."""

    api: ClassVar[Api] = HEARTBEAT
    throttle_time_ms: Annotated[int, int32, Since(1)] = 0
    error_code: Annotated[int, int16]
