"""InitializeShareGroupState: the group coordinator has the state of share-partitions begin, or begin anew (KIP-932)."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, int16, int32, int64, string, uuid

INITIALIZE_SHARE_GROUP_STATE = Api(key=83, versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """Where one partition begins; -1 leaves that to its leader."""

    partition: Annotated[int, int32]
    state_epoch: Annotated[int, int32]
    start_offset: Annotated[int, int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeStateData:
    """The partitions of one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[PartitionData, ...], array(PartitionData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeShareGroupStateRequest:
    """Begins the state of these partitions."""

    api: ClassVar[Api] = INITIALIZE_SHARE_GROUP_STATE
    group_id: Annotated[str, string]
    topics: Annotated[tuple[InitializeStateData, ...], array(InitializeStateData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """How it went for one partition."""

    partition: Annotated[int, int32]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeStateResult:
    """The answers for one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[PartitionResult, ...], array(PartitionResult)]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeShareGroupStateResponse:
    """Which partitions have begun."""

    api: ClassVar[Api] = INITIALIZE_SHARE_GROUP_STATE
    results: Annotated[tuple[InitializeStateResult, ...], array(InitializeStateResult)]
