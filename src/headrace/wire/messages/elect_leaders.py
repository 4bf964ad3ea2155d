"""ElectLeaders: has leaders chosen anew."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, int8, int16, int32, string

ELECT_LEADERS = Api(key=43, versions=range(3), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """The partitions of one topic."""

    topic: Annotated[str, string]
    partitions: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersRequest:
    """Partitions, null for all.  v1 adds the kind of election (0 preferred, 1 unclean); v2 is the first flexible version."""

    api: ClassVar[Api] = ELECT_LEADERS
    election_type: Annotated[int, int8, Since(1)] = 0
    topic_partitions: Annotated[tuple[TopicPartitions, ...] | None, array(TopicPartitions)]
    timeout_ms: Annotated[int, int32] = 60000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """What became of one partition."""

    partition_id: Annotated[int, int32]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaElectionResult:
    """The answers for one topic."""

    topic: Annotated[str, string]
    partition_result: Annotated[tuple[PartitionResult, ...], array(PartitionResult)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponse:
    """For each partition, whether it has a new leader.  v1 adds an error for the whole."""

    api: ClassVar[Api] = ELECT_LEADERS
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16, Since(1)] = 0
    replica_election_results: Annotated[tuple[ReplicaElectionResult, ...], array(ReplicaElectionResult)]
