"""WriteShareGroupState: a partition's leader has what became of records kept, before anybody is told (KIP-932)."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, int8, int16, int32, int64, string, uuid

WRITE_SHARE_GROUP_STATE = Api(key=85, versions=range(2), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBatch:
    """A range of records in one state: 0 available, 2 acknowledged, 4 archived."""

    first_offset: Annotated[int, int64]
    last_offset: Annotated[int, int64]
    delivery_state: Annotated[int, int8]
    delivery_count: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """What has changed in one partition; a start offset of -1 leaves it where it is."""

    partition: Annotated[int, int32]
    state_epoch: Annotated[int, int32]
    leader_epoch: Annotated[int, int32]
    start_offset: Annotated[int, int64]
    delivery_complete_count: Annotated[int, int32, Since(1)] = -1
    state_batches: Annotated[tuple[StateBatch, ...], array(StateBatch)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStateData:
    """The partitions of one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[PartitionData, ...], array(PartitionData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteShareGroupStateRequest:
    """Keeps what has changed in these partitions.  v1 adds how many are done."""

    api: ClassVar[Api] = WRITE_SHARE_GROUP_STATE
    group_id: Annotated[str, string]
    topics: Annotated[tuple[WriteStateData, ...], array(WriteStateData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """How it went for one partition."""

    partition: Annotated[int, int32]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStateResult:
    """The answers for one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[PartitionResult, ...], array(PartitionResult)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteShareGroupStateResponse:
    """What was kept."""

    api: ClassVar[Api] = WRITE_SHARE_GROUP_STATE
    results: Annotated[tuple[WriteStateResult, ...], array(WriteStateResult)]
