"""DeleteRecords: moves the start of partitions forward."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, int16, int32, int64, string

DELETE_RECORDS = Api(key=21, versions=range(3), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsPartition:
    """The new start of one partition."""

    partition_index: Annotated[int, int32]
    offset: Annotated[int, int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsTopic:
    """The partitions of one topic."""

    name: Annotated[str, string]
    partitions: Annotated[tuple[DeleteRecordsPartition, ...], array(DeleteRecordsPartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsRequest:
    """The offset before which records go; -1 stands for the high watermark.  v2 is the first flexible version."""

    api: ClassVar[Api] = DELETE_RECORDS
    topics: Annotated[tuple[DeleteRecordsTopic, ...], array(DeleteRecordsTopic)]
    timeout_ms: Annotated[int, int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsPartitionResult:
    """The start of one partition as it now is."""

    partition_index: Annotated[int, int32]
    low_watermark: Annotated[int, int64]
    error_code: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsTopicResult:
    """The answers for one topic."""

    name: Annotated[str, string]
    partitions: Annotated[tuple[DeleteRecordsPartitionResult, ...], array(DeleteRecordsPartitionResult)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsResponse:
    """For each partition its new start."""

    api: ClassVar[Api] = DELETE_RECORDS
    throttle_time_ms: Annotated[int, int32] = 0
    topics: Annotated[tuple[DeleteRecordsTopicResult, ...], array(DeleteRecordsTopicResult)]
