"""CreatePartitions: more partitions for topics that exist."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, boolean, int16, int32, string

CREATE_PARTITIONS = Api(key=37, versions=range(4), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsAssignment:
    """The replicas of one new partition, chosen by hand."""

    broker_ids: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsTopic:
    """A topic and the number of partitions it shall have."""

    name: Annotated[str, string]
    count: Annotated[int, int32]
    assignments: Annotated[tuple[CreatePartitionsAssignment, ...] | None, array(CreatePartitionsAssignment)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsRequest:
    """The new number of partitions of each topic.  v2 is the first flexible version."""

    api: ClassVar[Api] = CREATE_PARTITIONS
    topics: Annotated[tuple[CreatePartitionsTopic, ...], array(CreatePartitionsTopic)]
    timeout_ms: Annotated[int, int32]
    validate_only: Annotated[bool, boolean]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsTopicResult:
    """What became of one topic."""

    name: Annotated[str, string]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsResponse:
    """For each topic, whether it grew."""

    api: ClassVar[Api] = CREATE_PARTITIONS
    throttle_time_ms: Annotated[int, int32] = 0
    results: Annotated[tuple[CreatePartitionsTopicResult, ...], array(CreatePartitionsTopicResult)]
