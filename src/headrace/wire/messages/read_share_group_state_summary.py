"""ReadShareGroupStateSummary: the group coordinator asks how far share-partitions are, for tools (KIP-932)."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, int16, int32, int64, string, uuid

READ_SHARE_GROUP_STATE_SUMMARY = Api(key=87, versions=range(2), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """One partition."""

    partition: Annotated[int, int32]
    leader_epoch: Annotated[int, int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStateSummaryData:
    """The partitions of one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[PartitionData, ...], array(PartitionData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShareGroupStateSummaryRequest:
    """Asks how far these partitions are."""

    api: ClassVar[Api] = READ_SHARE_GROUP_STATE_SUMMARY
    group_id: Annotated[str, string]
    topics: Annotated[tuple[ReadStateSummaryData, ...], array(ReadStateSummaryData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """How it went for one partition."""

    partition: Annotated[int, int32]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    state_epoch: Annotated[int, int32]
    leader_epoch: Annotated[int, int32]
    start_offset: Annotated[int, int64]
    delivery_complete_count: Annotated[int, int32, Since(1)] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStateSummaryResult:
    """The answers for one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[PartitionResult, ...], array(PartitionResult)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShareGroupStateSummaryResponse:
    """How far they are.  v1 adds how many records from the start on are done."""

    api: ClassVar[Api] = READ_SHARE_GROUP_STATE_SUMMARY
    results: Annotated[tuple[ReadStateSummaryResult, ...], array(ReadStateSummaryResult)]
