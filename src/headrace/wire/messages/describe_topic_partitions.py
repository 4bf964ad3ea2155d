"""DescribeTopicPartitions: topics page by page, with the eligible leader replicas (KIP-966)."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, boolean, int16, int32, string, uuid

DESCRIBE_TOPIC_PARTITIONS = Api(key=75, versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRequest:
    """A topic by name."""

    name: Annotated[str, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The partition at which a page begins."""

    topic_name: Annotated[str, string]
    partition_index: Annotated[int, int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsRequest:
    """Asks for topics, and where to go on."""

    api: ClassVar[Api] = DESCRIBE_TOPIC_PARTITIONS
    topics: Annotated[tuple[TopicRequest, ...], array(TopicRequest)]
    response_partition_limit: Annotated[int, int32] = 2000
    cursor: Annotated[Cursor | None, Cursor] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsResponsePartition:
    """A partition, its leader and its replicas."""

    error_code: Annotated[int, int16]
    partition_index: Annotated[int, int32]
    leader_id: Annotated[int, int32]
    leader_epoch: Annotated[int, int32] = -1
    replica_nodes: Annotated[tuple[int, ...], array(int32)]
    isr_nodes: Annotated[tuple[int, ...], array(int32)]
    eligible_leader_replicas: Annotated[tuple[int, ...] | None, array(int32)] = None
    last_known_elr: Annotated[tuple[int, ...] | None, array(int32)] = None
    offline_replicas: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsResponseTopic:
    """A topic and its partitions."""

    error_code: Annotated[int, int16]
    name: Annotated[str | None, string]
    topic_id: Annotated[UUID, uuid]
    is_internal: Annotated[bool, boolean] = False
    partitions: Annotated[tuple[DescribeTopicPartitionsResponsePartition, ...], array(DescribeTopicPartitionsResponsePartition)]
    topic_authorized_operations: Annotated[int, int32] = -(2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsResponse:
    """A page of topics; `next_cursor` is null on the last one."""

    api: ClassVar[Api] = DESCRIBE_TOPIC_PARTITIONS
    throttle_time_ms: Annotated[int, int32] = 0
    topics: Annotated[tuple[DescribeTopicPartitionsResponseTopic, ...], array(DescribeTopicPartitionsResponseTopic)]
    next_cursor: Annotated[Cursor | None, Cursor] = None
