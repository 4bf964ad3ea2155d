"""OffsetDelete: forgets committed offsets of topics that a group no longer reads."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, int16, int32, string

OFFSET_DELETE = Api(key=47, versions=range(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequestPartition:
    """A partition to forget."""

    partition_index: Annotated[int, int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequestTopic:
    """The partitions of one topic."""

    name: Annotated[str, string]
    partitions: Annotated[tuple[OffsetDeleteRequestPartition, ...], array(OffsetDeleteRequestPartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequest:
    """The partitions to forget."""

    api: ClassVar[Api] = OFFSET_DELETE
    group_id: Annotated[str, string]
    topics: Annotated[tuple[OffsetDeleteRequestTopic, ...], array(OffsetDeleteRequestTopic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponsePartition:
    """What became of one partition."""

    partition_index: Annotated[int, int32]
    error_code: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponseTopic:
    """The answers for one topic."""

    name: Annotated[str, string]
    partitions: Annotated[tuple[OffsetDeleteResponsePartition, ...], array(OffsetDeleteResponsePartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponse:
    """For each partition, whether it was forgotten."""

    api: ClassVar[Api] = OFFSET_DELETE
    error_code: Annotated[int, int16]
    throttle_time_ms: Annotated[int, int32] = 0
    topics: Annotated[tuple[OffsetDeleteResponseTopic, ...], array(OffsetDeleteResponseTopic)]
