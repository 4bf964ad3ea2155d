"""ConsumerGroupHeartbeat: all that a member of a new-style group ever says (KIP-848)."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, int16, int32, string, uuid

CONSUMER_GROUP_HEARTBEAT = Api(key=68, versions=range(2), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """The partitions of one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatRequest:
    """Joins (epoch 0), keeps alive, acknowledges an assignment, leaves (epoch -1; -2 for a static member that will be back).

    Null means unchanged.  v1 adds the regular expression.
    """

    api: ClassVar[Api] = CONSUMER_GROUP_HEARTBEAT
    group_id: Annotated[str, string]
    member_id: Annotated[str, string]
    member_epoch: Annotated[int, int32]
    instance_id: Annotated[str | None, string] = None
    rack_id: Annotated[str | None, string] = None
    rebalance_timeout_ms: Annotated[int, int32] = -1
    subscribed_topic_names: Annotated[tuple[str, ...] | None, array(string)] = None
    subscribed_topic_regex: Annotated[str | None, string, Since(1)] = None
    server_assignor: Annotated[str | None, string] = None
    topic_partitions: Annotated[tuple[TopicPartitions, ...] | None, array(TopicPartitions)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What the member shall own."""

    topic_partitions: Annotated[tuple[TopicPartitions, ...], array(TopicPartitions)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponse:
    """The member's epoch and, when it changed, its assignment."""

    api: ClassVar[Api] = CONSUMER_GROUP_HEARTBEAT
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    member_id: Annotated[str | None, string] = None
    member_epoch: Annotated[int, int32]
    heartbeat_interval_ms: Annotated[int, int32]
    assignment: Annotated[Assignment | None, Assignment] = None
