"""Produce: records to append.  Not frozen, since it is built for every batch that passes.

Records are read as views of the frame: nothing is copied between the socket and the log.  The compiled codec reads a request of
one partition in about three microseconds, so there is no second, hand-written reader beside it.  Versions 0 to 2 carry the old
message sets; they are read like any other, and it is for the log to refuse what is in them.
"""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from headrace.wire.schema import ZERO_UUID, Api, Buffer, Since, Tagged, Until, array, batches, int16, int32, int64, string, uuid

PRODUCE = Api(key=0, versions=range(14), flexible_from=9)


@dataclass(slots=True, kw_only=True)
class PartitionProduceData:
    """The batches for one partition, opaque."""

    index: Annotated[int, int32]
    records: Annotated[Buffer | None, batches]


@dataclass(slots=True, kw_only=True)
class TopicProduceData:
    """The partitions of one topic."""

    name: Annotated[str, string, Until(12)] = ""
    topic_id: Annotated[UUID, uuid, Since(13)] = ZERO_UUID
    partition_data: Annotated[tuple[PartitionProduceData, ...], array(PartitionProduceData)]


@dataclass(slots=True, kw_only=True)
class ProduceRequest:
    """Record batches for partitions.

    v3 is the first to carry them in the present format and adds transactions; v9 is the first flexible version; v12 adds
    partitions to transactions by itself (KIP-890); v13 names topics by id.
    """

    api: ClassVar[Api] = PRODUCE
    transactional_id: Annotated[str | None, string, Since(3)] = None
    acks: Annotated[int, int16]  # 0 none, 1 the leader, -1 all in-sync replicas
    timeout_ms: Annotated[int, int32]
    topic_data: Annotated[tuple[TopicProduceData, ...], array(TopicProduceData)]


@dataclass(slots=True, kw_only=True)
class BatchIndexAndErrorMessage:
    """A record that was refused, by its place in the batch, and why."""

    batch_index: Annotated[int, int32]
    batch_index_error_message: Annotated[str | None, string] = None


@dataclass(slots=True, kw_only=True)
class PartitionProduceResponse:
    """The offset of the first record, or why there is none."""

    index: Annotated[int, int32]
    error_code: Annotated[int, int16]
    base_offset: Annotated[int, int64] = -1
    log_append_time_ms: Annotated[int, int64, Since(2)] = -1
    log_start_offset: Annotated[int, int64, Since(5)] = -1
    record_errors: Annotated[tuple[BatchIndexAndErrorMessage, ...], array(BatchIndexAndErrorMessage), Since(8)] = ()
    error_message: Annotated[str | None, string, Since(8)] = None
    current_leader: Annotated[LeaderIdAndEpoch, LeaderIdAndEpoch, Since(10), Tagged(0)] = LeaderIdAndEpoch()


@dataclass(slots=True, kw_only=True)
class TopicProduceResponse:
    """The answers for one topic."""

    name: Annotated[str, string, Until(12)] = ""
    topic_id: Annotated[UUID, uuid, Since(13)] = ZERO_UUID
    partition_responses: Annotated[tuple[PartitionProduceResponse, ...], array(PartitionProduceResponse)]


@dataclass(slots=True, kw_only=True)
class ProduceResponse:
    """Where the records went.

    v1 adds the throttle time, v2 log-append time, v5 the log start, v8 errors of single records, v10 the new leader for
    those who asked the wrong broker (KIP-951), v13 topic ids.
    """

    api: ClassVar[Api] = PRODUCE
    responses: Annotated[tuple[TopicProduceResponse, ...], array(TopicProduceResponse)]
    throttle_time_ms: Annotated[int, int32, Since(1)] = 0
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], array(NodeEndpoint), Since(10), Tagged(0)] = ()
