"""DescribeQuorum: who keeps the cluster's metadata, who leads, and how far the others are behind."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, int16, int32, int64, string, uint16, uuid

DESCRIBE_QUORUM = Api(key=55, versions=range(3), flexible_from=0)
NO_DIRECTORY = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumRequestPartition:
    """A partition."""

    partition_index: Annotated[int, int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumRequestTopic:
    """The partitions of one topic."""

    topic_name: Annotated[str, string]
    partitions: Annotated[tuple[DescribeQuorumRequestPartition, ...], array(DescribeQuorumRequestPartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumRequest:
    """Asks about partition 0 of the metadata's topic.  v1 and v2 change only the answer."""

    api: ClassVar[Api] = DESCRIBE_QUORUM
    topics: Annotated[tuple[DescribeQuorumRequestTopic, ...], array(DescribeQuorumRequestTopic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """How far one of them has got.  -1 stands for what is not known."""

    replica_id: Annotated[int, int32]
    replica_directory_id: Annotated[UUID, uuid, Since(2)] = NO_DIRECTORY
    log_end_offset: Annotated[int, int64]
    last_fetch_timestamp: Annotated[int, int64, Since(1)] = -1
    last_caught_up_timestamp: Annotated[int, int64, Since(1)] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponsePartition:
    """The leader and those who follow it."""

    partition_index: Annotated[int, int32]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string, Since(2)] = None
    leader_id: Annotated[int, int32] = -1
    leader_epoch: Annotated[int, int32] = -1
    high_watermark: Annotated[int, int64] = -1
    current_voters: Annotated[tuple[ReplicaState, ...], array(ReplicaState)] = ()
    observers: Annotated[tuple[ReplicaState, ...], array(ReplicaState)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponseTopic:
    """The partitions of one topic."""

    topic_name: Annotated[str, string]
    partitions: Annotated[tuple[DescribeQuorumResponsePartition, ...], array(DescribeQuorumResponsePartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumListener:
    """Where a node listens."""

    name: Annotated[str, string]
    host: Annotated[str, string]
    port: Annotated[int, uint16]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumNode:
    """A node of the quorum."""

    node_id: Annotated[int, int32]
    listeners: Annotated[tuple[DescribeQuorumListener, ...], array(DescribeQuorumListener)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponse:
    """The quorum.  v1 tells when the others were last heard of, v2 their directories and addresses."""

    api: ClassVar[Api] = DESCRIBE_QUORUM
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string, Since(2)] = None
    topics: Annotated[tuple[DescribeQuorumResponseTopic, ...], array(DescribeQuorumResponseTopic)]
    nodes: Annotated[tuple[DescribeQuorumNode, ...], array(DescribeQuorumNode), Since(2)] = ()
