"""ListPartitionReassignments: the moves that are under way."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, int16, int32, string

LIST_PARTITION_REASSIGNMENTS = Api(key=46, versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsTopics:
    """The partitions of one topic."""

    name: Annotated[str, string]
    partition_indexes: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsRequest:
    """Asks about topics; null means all."""

    api: ClassVar[Api] = LIST_PARTITION_REASSIGNMENTS
    timeout_ms: Annotated[int, int32] = 60000
    topics: Annotated[tuple[ListPartitionReassignmentsTopics, ...] | None, array(ListPartitionReassignmentsTopics)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingPartitionReassignment:
    """The replicas of one partition that moves."""

    partition_index: Annotated[int, int32]
    replicas: Annotated[tuple[int, ...], array(int32)]
    adding_replicas: Annotated[tuple[int, ...], array(int32)]
    removing_replicas: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingTopicReassignment:
    """The moving partitions of one topic."""

    name: Annotated[str, string]
    partitions: Annotated[tuple[OngoingPartitionReassignment, ...], array(OngoingPartitionReassignment)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsResponse:
    """The moves."""

    api: ClassVar[Api] = LIST_PARTITION_REASSIGNMENTS
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    topics: Annotated[tuple[OngoingTopicReassignment, ...], array(OngoingTopicReassignment)]
