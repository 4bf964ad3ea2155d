"""ReadShareGroupState: a partition's leader asks for the state of its share-partitions, and fences its predecessors (KIP-932)."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, int8, int16, int32, int64, string, uuid

READ_SHARE_GROUP_STATE = Api(key=84, versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBatch:
    """A range of records in one state: 0 available, 2 acknowledged, 4 archived."""

    first_offset: Annotated[int, int64]
    last_offset: Annotated[int, int64]
    delivery_state: Annotated[int, int8]
    delivery_count: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """One partition, and the epoch in which the asking broker leads it."""

    partition: Annotated[int, int32]
    leader_epoch: Annotated[int, int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStateData:
    """The partitions of one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[PartitionData, ...], array(PartitionData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShareGroupStateRequest:
    """Asks for the state of these partitions."""

    api: ClassVar[Api] = READ_SHARE_GROUP_STATE
    group_id: Annotated[str, string]
    topics: Annotated[tuple[ReadStateData, ...], array(ReadStateData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """How it went for one partition."""

    partition: Annotated[int, int32]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    state_epoch: Annotated[int, int32]
    start_offset: Annotated[int, int64]
    state_batches: Annotated[tuple[StateBatch, ...], array(StateBatch)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStateResult:
    """The answers for one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[PartitionResult, ...], array(PartitionResult)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShareGroupStateResponse:
    """The states."""

    api: ClassVar[Api] = READ_SHARE_GROUP_STATE
    results: Annotated[tuple[ReadStateResult, ...], array(ReadStateResult)]
