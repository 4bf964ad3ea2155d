"""DescribeShareGroupOffsets: how far share groups are in their partitions (KIP-932)."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, Tagged, array, boolean, int16, int32, int64, string, uuid

DESCRIBE_SHARE_GROUP_OFFSETS = Api(key=90, versions=range(2), flexible_from=0)
# Headrace's own: far above what Kafka gives to its own tags, which others pass over where they do not know them.
OWN_TAG = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsRequestTopic:
    """The partitions of one topic."""

    topic_name: Annotated[str, string]
    partitions: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsRequestGroup:
    """One group; null asks for all partitions that it has a state of."""

    group_id: Annotated[str, string]
    topics: Annotated[tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None, array(DescribeShareGroupOffsetsRequestTopic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsRequest:
    """Asks how far groups are; with `at_work`, what they do just now on the partitions that the broker leads itself."""

    api: ClassVar[Api] = DESCRIBE_SHARE_GROUP_OFFSETS
    groups: Annotated[tuple[DescribeShareGroupOffsetsRequestGroup, ...], array(DescribeShareGroupOffsetsRequestGroup)]
    at_work: Annotated[bool, boolean, Tagged(OWN_TAG)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsResponsePartition:
    """The first record that is not done, and how many there are; -1 where that is not known."""

    partition_index: Annotated[int, int32]
    start_offset: Annotated[int, int64]
    leader_epoch: Annotated[int, int32]
    lag: Annotated[int, int64, Since(1)] = -1
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    in_flight: Annotated[int, int64, Tagged(OWN_TAG)] = 0
    resting: Annotated[int, int64, Tagged(OWN_TAG + 1)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsResponseTopic:
    """The answers for one topic, and how many records wait for their time under this broker before they come to it."""

    topic_name: Annotated[str, string]
    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[
        tuple[DescribeShareGroupOffsetsResponsePartition, ...], array(DescribeShareGroupOffsetsResponsePartition)
    ]
    delayed: Annotated[int, int64, Tagged(OWN_TAG)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsResponseGroup:
    """The answers for one group, and why this broker delivers nothing to it where that is so."""

    group_id: Annotated[str, string]
    topics: Annotated[tuple[DescribeShareGroupOffsetsResponseTopic, ...], array(DescribeShareGroupOffsetsResponseTopic)]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    paused: Annotated[str, string, Tagged(OWN_TAG)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsResponse:
    """How far the groups are.  v1 adds the lag."""

    api: ClassVar[Api] = DESCRIBE_SHARE_GROUP_OFFSETS
    throttle_time_ms: Annotated[int, int32] = 0
    groups: Annotated[tuple[DescribeShareGroupOffsetsResponseGroup, ...], array(DescribeShareGroupOffsetsResponseGroup)]
