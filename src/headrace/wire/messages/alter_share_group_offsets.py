"""AlterShareGroupOffsets: moves where a share group without members goes on (KIP-932)."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, int16, int32, int64, string, uuid

ALTER_SHARE_GROUP_OFFSETS = Api(key=91, versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsRequestPartition:
    """Where the group is to go on in one partition."""

    partition_index: Annotated[int, int32]
    start_offset: Annotated[int, int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsRequestTopic:
    """The partitions of one topic."""

    topic_name: Annotated[str, string]
    partitions: Annotated[tuple[AlterShareGroupOffsetsRequestPartition, ...], array(AlterShareGroupOffsetsRequestPartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsRequest:
    """The group, and where it is to go on."""

    api: ClassVar[Api] = ALTER_SHARE_GROUP_OFFSETS
    group_id: Annotated[str, string]
    topics: Annotated[tuple[AlterShareGroupOffsetsRequestTopic, ...], array(AlterShareGroupOffsetsRequestTopic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsResponsePartition:
    """How it went for one partition."""

    partition_index: Annotated[int, int32]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsResponseTopic:
    """The answers for one topic."""

    topic_name: Annotated[str, string]
    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[AlterShareGroupOffsetsResponsePartition, ...], array(AlterShareGroupOffsetsResponsePartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsResponse:
    """What was moved."""

    api: ClassVar[Api] = ALTER_SHARE_GROUP_OFFSETS
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    responses: Annotated[tuple[AlterShareGroupOffsetsResponseTopic, ...], array(AlterShareGroupOffsetsResponseTopic)]
