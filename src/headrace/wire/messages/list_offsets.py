"""ListOffsets: the offset that belongs to a point in time, or to either end of a partition."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, Until, array, int8, int16, int32, int64, string

LIST_OFFSETS = Api(key=2, versions=range(12), flexible_from=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartition:
    """The time asked for in one partition."""

    partition_index: Annotated[int, int32]
    current_leader_epoch: Annotated[int, int32, Since(4)] = -1
    timestamp: Annotated[int, int64]
    max_num_offsets: Annotated[int, int32, Until(0)] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopic:
    """The partitions of one topic."""

    name: Annotated[str, string]
    partitions: Annotated[tuple[ListOffsetsPartition, ...], array(ListOffsetsPartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsRequest:
    """Asks by timestamp; -1 is the end, -2 the start, -3 (v7) the record with the largest timestamp, -4 (v8) and below
    concern tiered storage.

    v0 could ask for several offsets; v2 adds isolation, v4 leader epochs, v6 is the first flexible version, v10 adds a
    time-out.
    """

    api: ClassVar[Api] = LIST_OFFSETS
    replica_id: Annotated[int, int32]
    isolation_level: Annotated[int, int8, Since(2)] = 0  # 0 read uncommitted, 1 read committed
    topics: Annotated[tuple[ListOffsetsTopic, ...], array(ListOffsetsTopic)]
    timeout_ms: Annotated[int, int32, Since(10)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartitionResponse:
    """The offset found in one partition."""

    partition_index: Annotated[int, int32]
    error_code: Annotated[int, int16]
    old_style_offsets: Annotated[tuple[int, ...], array(int64), Until(0)] = ()
    timestamp: Annotated[int, int64, Since(1)] = -1
    offset: Annotated[int, int64, Since(1)] = -1
    leader_epoch: Annotated[int, int32, Since(4)] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopicResponse:
    """The answers for one topic."""

    name: Annotated[str, string]
    partitions: Annotated[tuple[ListOffsetsPartitionResponse, ...], array(ListOffsetsPartitionResponse)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsResponse:
    """Timestamp and offset of the first record at or after the time asked for, or -1.

    v0 gives a list of offsets; v2 adds the throttle time, v4 leader epochs.
    """

    api: ClassVar[Api] = LIST_OFFSETS
    throttle_time_ms: Annotated[int, int32, Since(2)] = 0
    topics: Annotated[tuple[ListOffsetsTopicResponse, ...], array(ListOffsetsTopicResponse)]
