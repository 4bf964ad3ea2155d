"""DescribeLogDirs: how much the data directories of a broker hold."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, boolean, int16, int32, int64, string

DESCRIBE_LOG_DIRS = Api(key=35, versions=range(6), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribableLogDirTopic:
    """The partitions of one topic."""

    topic: Annotated[str, string]
    partitions: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsRequest:
    """Asks about topics; null means all.  v2 is the first flexible version."""

    api: ClassVar[Api] = DESCRIBE_LOG_DIRS
    topics: Annotated[tuple[DescribableLogDirTopic, ...] | None, array(DescribableLogDirTopic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsPartition:
    """The size of one partition."""

    partition_index: Annotated[int, int32]
    partition_size: Annotated[int, int64]
    offset_lag: Annotated[int, int64]
    is_future_key: Annotated[bool, boolean]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsTopic:
    """The partitions of one topic."""

    name: Annotated[str, string]
    partitions: Annotated[tuple[DescribeLogDirsPartition, ...], array(DescribeLogDirsPartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsResult:
    """One data directory and what it holds."""

    error_code: Annotated[int, int16]
    log_dir: Annotated[str, string]
    topics: Annotated[tuple[DescribeLogDirsTopic, ...], array(DescribeLogDirsTopic)]
    total_bytes: Annotated[int, int64, Since(4)] = -1
    usable_bytes: Annotated[int, int64, Since(4)] = -1
    is_cordoned: Annotated[bool, boolean, Since(5)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsResponse:
    """The directories of this broker.  v3 adds an error for the whole, v4 the size of the volume, v5 whether it is cordoned."""

    api: ClassVar[Api] = DESCRIBE_LOG_DIRS
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16, Since(3)] = 0
    results: Annotated[tuple[DescribeLogDirsResult, ...], array(DescribeLogDirsResult)]
