"""AlterReplicaLogDirs: moves replicas between the data directories of one broker."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, int16, int32, string

ALTER_REPLICA_LOG_DIRS = Api(key=34, versions=range(3), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirTopic:
    """The partitions of one topic."""

    name: Annotated[str, string]
    partitions: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDir:
    """A directory and what shall be in it."""

    path: Annotated[str, string]
    topics: Annotated[tuple[AlterReplicaLogDirTopic, ...], array(AlterReplicaLogDirTopic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirsRequest:
    """For each directory, the partitions it shall hold.  v2 is the first flexible version."""

    api: ClassVar[Api] = ALTER_REPLICA_LOG_DIRS
    dirs: Annotated[tuple[AlterReplicaLogDir, ...], array(AlterReplicaLogDir)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirPartitionResult:
    """What became of one partition."""

    partition_index: Annotated[int, int32]
    error_code: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirTopicResult:
    """The answers for one topic."""

    topic_name: Annotated[str, string]
    partitions: Annotated[tuple[AlterReplicaLogDirPartitionResult, ...], array(AlterReplicaLogDirPartitionResult)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirsResponse:
    """For each partition, whether the move began."""

    api: ClassVar[Api] = ALTER_REPLICA_LOG_DIRS
    throttle_time_ms: Annotated[int, int32] = 0
    results: Annotated[tuple[AlterReplicaLogDirTopicResult, ...], array(AlterReplicaLogDirTopicResult)]
