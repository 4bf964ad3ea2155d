"""WriteTxnMarkers: a transaction coordinator has the end of transactions written into their partitions."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, boolean, int8, int16, int32, int64, string

WRITE_TXN_MARKERS = Api(key=27, versions=range(3), flexible_from=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerTopic:
    """The partitions of one topic."""

    name: Annotated[str, string]
    partition_indexes: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarker:
    """The end of one transaction."""

    producer_id: Annotated[int, int64]
    producer_epoch: Annotated[int, int16]
    transaction_result: Annotated[bool, boolean]
    topics: Annotated[tuple[WritableTxnMarkerTopic, ...], array(WritableTxnMarkerTopic)]
    coordinator_epoch: Annotated[int, int32]
    transaction_version: Annotated[int, int8, Since(2)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersRequest:
    """The markers to write.  v1 is the first flexible version; v2 tells the transaction version."""

    api: ClassVar[Api] = WRITE_TXN_MARKERS
    markers: Annotated[tuple[WritableTxnMarker, ...], array(WritableTxnMarker)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerPartitionResult:
    """What became of one partition."""

    partition_index: Annotated[int, int32]
    error_code: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerTopicResult:
    """The answers for one topic."""

    name: Annotated[str, string]
    partitions: Annotated[tuple[WritableTxnMarkerPartitionResult, ...], array(WritableTxnMarkerPartitionResult)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerResult:
    """The answers for one transaction."""

    producer_id: Annotated[int, int64]
    topics: Annotated[tuple[WritableTxnMarkerTopicResult, ...], array(WritableTxnMarkerTopicResult)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersResponse:
    """For each partition, whether the marker is in its log."""

    api: ClassVar[Api] = WRITE_TXN_MARKERS
    markers: Annotated[tuple[WritableTxnMarkerResult, ...], array(WritableTxnMarkerResult)]
