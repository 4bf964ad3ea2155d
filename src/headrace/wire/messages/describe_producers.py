"""DescribeProducers: the producers that a partition remembers."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, int16, int32, int64, string

DESCRIBE_PRODUCERS = Api(key=61, versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRequest:
    """The partitions of one topic."""

    name: Annotated[str, string]
    partition_indexes: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersRequest:
    """Asks about partitions."""

    api: ClassVar[Api] = DESCRIBE_PRODUCERS
    topics: Annotated[tuple[TopicRequest, ...], array(TopicRequest)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """A producer, its last sequence and its open transaction."""

    producer_id: Annotated[int, int64]
    producer_epoch: Annotated[int, int32]
    last_sequence: Annotated[int, int32] = -1
    last_timestamp: Annotated[int, int64] = -1
    coordinator_epoch: Annotated[int, int32]
    current_txn_start_offset: Annotated[int, int64] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResponse:
    """The producers of one partition."""

    partition_index: Annotated[int, int32]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    active_producers: Annotated[tuple[ProducerState, ...], array(ProducerState)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResponse:
    """The answers for one topic."""

    name: Annotated[str, string]
    partitions: Annotated[tuple[PartitionResponse, ...], array(PartitionResponse)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersResponse:
    """The producers of each partition."""

    api: ClassVar[Api] = DESCRIBE_PRODUCERS
    throttle_time_ms: Annotated[int, int32] = 0
    topics: Annotated[tuple[TopicResponse, ...], array(TopicResponse)]
