"""OffsetFetch: how far groups have come."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import ZERO_UUID, Api, NullableSince, Since, Until, array, boolean, int16, int32, int64, string, uuid

OFFSET_FETCH = Api(key=9, versions=range(11), flexible_from=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestTopic:
    """The partitions of one topic (until v7)."""

    name: Annotated[str, string]
    partition_indexes: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestTopics:
    """The partitions of one topic."""

    name: Annotated[str, string, Until(9)] = ""
    topic_id: Annotated[UUID, uuid, Since(10)] = ZERO_UUID
    partition_indexes: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestGroup:
    """A group and the topics asked for."""

    group_id: Annotated[str, string]
    member_id: Annotated[str | None, string, Since(9)] = None
    member_epoch: Annotated[int, int32, Since(9)] = -1
    topics: Annotated[tuple[OffsetFetchRequestTopics, ...] | None, array(OffsetFetchRequestTopics)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    """Asks for committed offsets; null topics mean all (from v2 on).

    v6 is the first flexible version, v7 may insist on stable offsets, v8 asks about many groups, v9 adds membership, v10
    names topics by id.
    """

    api: ClassVar[Api] = OFFSET_FETCH
    group_id: Annotated[str, string, Until(7)] = ""
    topics: Annotated[tuple[OffsetFetchRequestTopic, ...] | None, array(OffsetFetchRequestTopic), Until(7), NullableSince(2)] = ()
    groups: Annotated[tuple[OffsetFetchRequestGroup, ...], array(OffsetFetchRequestGroup), Since(8)] = ()
    require_stable: Annotated[bool, boolean, Since(7)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponsePartition:
    """The offset of one partition (until v7)."""

    partition_index: Annotated[int, int32]
    committed_offset: Annotated[int, int64]
    committed_leader_epoch: Annotated[int, int32, Since(5)] = -1
    metadata: Annotated[str | None, string]
    error_code: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseTopic:
    """The answers for one topic (until v7)."""

    name: Annotated[str, string]
    partitions: Annotated[tuple[OffsetFetchResponsePartition, ...], array(OffsetFetchResponsePartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponsePartitions:
    """The offset of one partition."""

    partition_index: Annotated[int, int32]
    committed_offset: Annotated[int, int64]
    committed_leader_epoch: Annotated[int, int32] = -1
    metadata: Annotated[str | None, string]
    error_code: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseTopics:
    """The answers for one topic."""

    name: Annotated[str, string, Until(9)] = ""
    topic_id: Annotated[UUID, uuid, Since(10)] = ZERO_UUID
    partitions: Annotated[tuple[OffsetFetchResponsePartitions, ...], array(OffsetFetchResponsePartitions)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseGroup:
    """The answers for one group."""

    group_id: Annotated[str, string]
    topics: Annotated[tuple[OffsetFetchResponseTopics, ...], array(OffsetFetchResponseTopics)]
    error_code: Annotated[int, int16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    """The offsets; -1 where there is none.

    v2 adds an error for the group, v3 the throttle time, v5 leader epochs, v8 answers for many groups, v10 topic ids.
    """

    api: ClassVar[Api] = OFFSET_FETCH
    throttle_time_ms: Annotated[int, int32, Since(3)] = 0
    topics: Annotated[tuple[OffsetFetchResponseTopic, ...], array(OffsetFetchResponseTopic), Until(7)] = ()
    error_code: Annotated[int, int16, Since(2), Until(7)] = 0
    groups: Annotated[tuple[OffsetFetchResponseGroup, ...], array(OffsetFetchResponseGroup), Since(8)] = ()
