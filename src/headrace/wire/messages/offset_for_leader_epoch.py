"""OffsetForLeaderEpoch: where an epoch ends in a leader's log, for truncation and for the detection of lost records."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, int16, int32, int64, string

OFFSET_FOR_LEADER_EPOCH = Api(key=23, versions=range(5), flexible_from=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderPartition:
    """The epoch asked for in one partition."""

    partition: Annotated[int, int32]
    current_leader_epoch: Annotated[int, int32, Since(2)] = -1
    leader_epoch: Annotated[int, int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderTopic:
    """The partitions of one topic."""

    topic: Annotated[str, string]
    partitions: Annotated[tuple[OffsetForLeaderPartition, ...], array(OffsetForLeaderPartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochRequest:
    """Asks for the end of epochs.

    v2 adds the epoch that the asker holds current, v3 the replica, v4 is the first flexible version.
    """

    api: ClassVar[Api] = OFFSET_FOR_LEADER_EPOCH
    replica_id: Annotated[int, int32, Since(3)] = -2
    topics: Annotated[tuple[OffsetForLeaderTopic, ...], array(OffsetForLeaderTopic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndOffset:
    """The end of an epoch in one partition, or -1."""

    error_code: Annotated[int, int16]
    partition: Annotated[int, int32]
    leader_epoch: Annotated[int, int32, Since(1)] = -1
    end_offset: Annotated[int, int64] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderTopicResult:
    """The answers for one topic."""

    topic: Annotated[str, string]
    partitions: Annotated[tuple[EpochEndOffset, ...], array(EpochEndOffset)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochResponse:
    """The end offset of the largest epoch that is not above the one asked for.  v1 adds that epoch, v2 the throttle time."""

    api: ClassVar[Api] = OFFSET_FOR_LEADER_EPOCH
    throttle_time_ms: Annotated[int, int32, Since(2)] = 0
    topics: Annotated[tuple[OffsetForLeaderTopicResult, ...], array(OffsetForLeaderTopicResult)]
