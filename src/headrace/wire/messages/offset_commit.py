"""OffsetCommit: how far a group has come."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import ZERO_UUID, Api, Since, Until, array, int16, int32, int64, string, uuid

OFFSET_COMMIT = Api(key=8, versions=range(11), flexible_from=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestPartition:
    """The offset of one partition, and a note that comes back with it."""

    partition_index: Annotated[int, int32]
    committed_offset: Annotated[int, int64]
    committed_leader_epoch: Annotated[int, int32, Since(6)] = -1
    commit_timestamp: Annotated[int, int64, Since(1), Until(1)] = -1
    committed_metadata: Annotated[str | None, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestTopic:
    """The partitions of one topic."""

    name: Annotated[str, string, Until(9)] = ""
    topic_id: Annotated[UUID, uuid, Since(10)] = ZERO_UUID
    partitions: Annotated[tuple[OffsetCommitRequestPartition, ...], array(OffsetCommitRequestPartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    """Offsets to keep.

    v1 adds membership, v2 to v4 a retention time, v6 leader epochs, v7 static members, v8 is the first flexible version, v9
    carries member epochs of new-style groups, v10 names topics by id.
    """

    api: ClassVar[Api] = OFFSET_COMMIT
    group_id: Annotated[str, string]
    generation_id_or_member_epoch: Annotated[int, int32, Since(1)] = -1
    member_id: Annotated[str, string, Since(1)] = ""
    group_instance_id: Annotated[str | None, string, Since(7)] = None
    retention_time_ms: Annotated[int, int64, Since(2), Until(4)] = -1
    topics: Annotated[tuple[OffsetCommitRequestTopic, ...], array(OffsetCommitRequestTopic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponsePartition:
    """What became of one partition."""

    partition_index: Annotated[int, int32]
    error_code: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponseTopic:
    """The answers for one topic."""

    name: Annotated[str, string, Until(9)] = ""
    topic_id: Annotated[UUID, uuid, Since(10)] = ZERO_UUID
    partitions: Annotated[tuple[OffsetCommitResponsePartition, ...], array(OffsetCommitResponsePartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    """For each partition, whether it was kept.  v3 adds the throttle time, v10 topic ids."""

    api: ClassVar[Api] = OFFSET_COMMIT
    throttle_time_ms: Annotated[int, int32, Since(3)] = 0
    topics: Annotated[tuple[OffsetCommitResponseTopic, ...], array(OffsetCommitResponseTopic)]
