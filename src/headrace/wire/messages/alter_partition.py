"""AlterPartition: a leader asks the controller to change its in-sync set."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import ZERO_UUID, Api, Since, Until, array, int8, int16, int32, int64, string, uuid

ALTER_PARTITION = Api(key=56, versions=range(4), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """A member of the in-sync set, and the epoch in which the leader saw it."""

    broker_id: Annotated[int, int32]
    broker_epoch: Annotated[int, int64] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """The in-sync set that the leader of one partition asks for."""

    partition_index: Annotated[int, int32]
    leader_epoch: Annotated[int, int32]
    new_isr: Annotated[tuple[int, ...], array(int32), Until(2)] = ()
    new_isr_with_epochs: Annotated[tuple[BrokerState, ...], array(BrokerState), Since(3)] = ()
    leader_recovery_state: Annotated[int, int8, Since(1)] = 0
    partition_epoch: Annotated[int, int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicData:
    """The partitions of one topic."""

    topic_name: Annotated[str, string, Until(1)] = ""
    topic_id: Annotated[UUID, uuid, Since(2)] = ZERO_UUID
    partitions: Annotated[tuple[PartitionData, ...], array(PartitionData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionRequest:
    """The new in-sync sets.  v1 adds the recovery state, v2 names topics by id, v3 gives each member's broker epoch."""

    api: ClassVar[Api] = ALTER_PARTITION
    broker_id: Annotated[int, int32]
    broker_epoch: Annotated[int, int64] = -1
    topics: Annotated[tuple[TopicData, ...], array(TopicData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResponsePartitionData:
    """The state of one partition."""

    partition_index: Annotated[int, int32]
    error_code: Annotated[int, int16]
    leader_id: Annotated[int, int32]
    leader_epoch: Annotated[int, int32]
    isr: Annotated[tuple[int, ...], array(int32)]
    leader_recovery_state: Annotated[int, int8, Since(1)] = 0
    partition_epoch: Annotated[int, int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResponseTopicData:
    """The answers for one topic."""

    topic_name: Annotated[str, string, Until(1)] = ""
    topic_id: Annotated[UUID, uuid, Since(2)] = ZERO_UUID
    partitions: Annotated[tuple[AlterPartitionResponsePartitionData, ...], array(AlterPartitionResponsePartitionData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResponse:
    """The state of each partition as the controller has it."""

    api: ClassVar[Api] = ALTER_PARTITION
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    topics: Annotated[tuple[AlterPartitionResponseTopicData, ...], array(AlterPartitionResponseTopicData)]
