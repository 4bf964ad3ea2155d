"""Metadata: brokers, topics, partitions and their leaders.

What there are thousands of in one reply is not frozen: that takes three times as long.
"""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import ZERO_UUID, Api, NullableSince, Since, Until, array, boolean, int16, int32, string, uuid

METADATA = Api(key=3, versions=range(14), flexible_from=9)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequestTopic:
    """A topic by name or, with a null name, by id."""

    topic_id: Annotated[UUID, uuid, Since(10)] = ZERO_UUID
    name: Annotated[str | None, string, NullableSince(10)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest:
    """Asks about topics.

    Null means all of them (in v0 an empty list does).  v4 may decline auto-creation, v10 knows topic ids, v12 may ask by id
    alone.
    """

    api: ClassVar[Api] = METADATA
    topics: Annotated[tuple[MetadataRequestTopic, ...] | None, array(MetadataRequestTopic), NullableSince(1)]
    allow_auto_topic_creation: Annotated[bool, boolean, Since(4)] = True
    include_cluster_authorized_operations: Annotated[bool, boolean, Since(8), Until(10)] = False
    include_topic_authorized_operations: Annotated[bool, boolean, Since(8)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponseBroker:
    """A broker and where clients reach it."""

    node_id: Annotated[int, int32]
    host: Annotated[str, string]
    port: Annotated[int, int32]
    rack: Annotated[str | None, string, Since(1)] = None


@dataclass(slots=True, kw_only=True)
class MetadataResponsePartition:
    """A partition, its leader and its replicas."""

    error_code: Annotated[int, int16]
    partition_index: Annotated[int, int32]
    leader_id: Annotated[int, int32]
    leader_epoch: Annotated[int, int32, Since(7)] = -1
    replica_nodes: Annotated[tuple[int, ...], array(int32)]
    isr_nodes: Annotated[tuple[int, ...], array(int32)]
    offline_replicas: Annotated[tuple[int, ...], array(int32), Since(5)] = ()


@dataclass(slots=True, kw_only=True)
class MetadataResponseTopic:
    """A topic and its partitions."""

    error_code: Annotated[int, int16]
    name: Annotated[str | None, string, NullableSince(12)]
    topic_id: Annotated[UUID, uuid, Since(10)] = ZERO_UUID
    is_internal: Annotated[bool, boolean, Since(1)] = False
    partitions: Annotated[tuple[MetadataResponsePartition, ...], array(MetadataResponsePartition)]
    topic_authorized_operations: Annotated[int, int32, Since(8)] = -(2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse:
    """The cluster as this broker sees it.

    v1 adds racks and the controller, v2 the cluster id, v3 the throttle time, v5 offline replicas, v7 leader epochs, v8
    allowed operations, v10 topic ids, v13 an error for the whole.
    """

    api: ClassVar[Api] = METADATA
    throttle_time_ms: Annotated[int, int32, Since(3)] = 0
    brokers: Annotated[tuple[MetadataResponseBroker, ...], array(MetadataResponseBroker)]
    cluster_id: Annotated[str | None, string, Since(2)] = None
    controller_id: Annotated[int, int32, Since(1)] = -1
    topics: Annotated[tuple[MetadataResponseTopic, ...], array(MetadataResponseTopic)]
    cluster_authorized_operations: Annotated[int, int32, Since(8), Until(10)] = -(2**31)
    error_code: Annotated[int, int16, Since(13)] = 0
