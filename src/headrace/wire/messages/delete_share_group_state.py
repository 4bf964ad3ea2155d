"""DeleteShareGroupState: the group coordinator has the state of share-partitions forgotten (KIP-932)."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, int16, int32, string, uuid

DELETE_SHARE_GROUP_STATE = Api(key=86, versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """One partition."""

    partition: Annotated[int, int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteStateData:
    """The partitions of one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[PartitionData, ...], array(PartitionData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupStateRequest:
    """Forgets the state of these partitions."""

    api: ClassVar[Api] = DELETE_SHARE_GROUP_STATE
    group_id: Annotated[str, string]
    topics: Annotated[tuple[DeleteStateData, ...], array(DeleteStateData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """How it went for one partition."""

    partition: Annotated[int, int32]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteStateResult:
    """The answers for one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[PartitionResult, ...], array(PartitionResult)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupStateResponse:
    """What was forgotten."""

    api: ClassVar[Api] = DELETE_SHARE_GROUP_STATE
    results: Annotated[tuple[DeleteStateResult, ...], array(DeleteStateResult)]
