"""ShareGroupHeartbeat: all that a member of a share group says about its membership (KIP-932)."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, int16, int32, string, uuid

SHARE_GROUP_HEARTBEAT = Api(key=76, versions=range(1, 2), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupHeartbeatRequest:
    """Joins (epoch 0), keeps alive, leaves (epoch -1).  Null means unchanged."""

    api: ClassVar[Api] = SHARE_GROUP_HEARTBEAT
    group_id: Annotated[str, string]
    member_id: Annotated[str, string]
    member_epoch: Annotated[int, int32]
    rack_id: Annotated[str | None, string] = None
    subscribed_topic_names: Annotated[tuple[str, ...] | None, array(string)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """The partitions of one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What the member shall read from."""

    topic_partitions: Annotated[tuple[TopicPartitions, ...], array(TopicPartitions)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupHeartbeatResponse:
    """The member's epoch and, when it changed, its assignment."""

    api: ClassVar[Api] = SHARE_GROUP_HEARTBEAT
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    member_id: Annotated[str | None, string] = None
    member_epoch: Annotated[int, int32]
    heartbeat_interval_ms: Annotated[int, int32]
    assignment: Annotated[Assignment | None, Assignment] = None
