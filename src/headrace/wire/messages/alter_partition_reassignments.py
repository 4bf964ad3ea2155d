"""AlterPartitionReassignments: moves partitions to other brokers."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, boolean, int16, int32, string

ALTER_PARTITION_REASSIGNMENTS = Api(key=45, versions=range(2), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignablePartition:
    """The replicas that one partition shall have."""

    partition_index: Annotated[int, int32]
    replicas: Annotated[tuple[int, ...] | None, array(int32)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignableTopic:
    """The partitions of one topic."""

    name: Annotated[str, string]
    partitions: Annotated[tuple[ReassignablePartition, ...], array(ReassignablePartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest:
    """The replicas that partitions shall have; null cancels a move.  v1 may forbid a change of the number of replicas."""

    api: ClassVar[Api] = ALTER_PARTITION_REASSIGNMENTS
    timeout_ms: Annotated[int, int32] = 60000
    allow_replication_factor_change: Annotated[bool, boolean, Since(1)] = True
    topics: Annotated[tuple[ReassignableTopic, ...], array(ReassignableTopic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignablePartitionResponse:
    """What became of one partition."""

    partition_index: Annotated[int, int32]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignableTopicResponse:
    """The answers for one topic."""

    name: Annotated[str, string]
    partitions: Annotated[tuple[ReassignablePartitionResponse, ...], array(ReassignablePartitionResponse)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse:
    """For each partition, whether the move began."""

    api: ClassVar[Api] = ALTER_PARTITION_REASSIGNMENTS
    throttle_time_ms: Annotated[int, int32] = 0
    allow_replication_factor_change: Annotated[bool, boolean, Since(1)] = True
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    responses: Annotated[tuple[ReassignableTopicResponse, ...], array(ReassignableTopicResponse)]
