"""ShareFetch: records to work on, and word of those that are done (KIP-932)."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from headrace.wire.schema import Api, Buffer, Since, Tagged, array, batches, boolean, int8, int16, int32, int64, string, uuid

SHARE_FETCH = Api(key=78, versions=range(1, 3), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgementBatch:
    """What became of a range of records: 0 gap, 1 accepted, 2 released, 3 rejected, 4 renewed; one for all or one each."""

    first_offset: Annotated[int, int64]
    last_offset: Annotated[int, int64]
    acknowledge_types: Annotated[tuple[int, ...], array(int8)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a record was rejected, in words for its dead letter.  Headrace's own: others pass over tags that they do not know."""

    offset: Annotated[int, int64]
    text: Annotated[str, string]


# Far above what Kafka gives to its own tags.
REASONS_TAG = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPartition:
    """One partition, and word of records that it gave earlier."""

    partition_index: Annotated[int, int32]
    acknowledgement_batches: Annotated[tuple[AcknowledgementBatch, ...], array(AcknowledgementBatch)]
    reasons: Annotated[tuple[Reason, ...], array(Reason), Tagged(REASONS_TAG)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTopic:
    """The partitions of one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[FetchPartition, ...], array(FetchPartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenTopic:
    """Partitions to take out of the session."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchRequest:
    """Asks for records and acknowledges others.  v2 adds the way of acquiring and the renewal of locks."""

    api: ClassVar[Api] = SHARE_FETCH
    group_id: Annotated[str | None, string] = None
    member_id: Annotated[str | None, string]
    share_session_epoch: Annotated[int, int32]
    max_wait_ms: Annotated[int, int32]
    min_bytes: Annotated[int, int32]
    max_bytes: Annotated[int, int32] = 2**31 - 1
    max_records: Annotated[int, int32]
    batch_size: Annotated[int, int32]
    share_acquire_mode: Annotated[int, int8, Since(2)] = 0
    is_renew_ack: Annotated[bool, boolean, Since(2)] = False
    topics: Annotated[tuple[FetchTopic, ...], array(FetchTopic)]
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], array(ForgottenTopic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquiredRecords:
    """A range of records that is the member's for now, and how often it has been delivered."""

    first_offset: Annotated[int, int64]
    last_offset: Annotated[int, int64]
    delivery_count: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """What was read from one partition."""

    partition_index: Annotated[int, int32]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    acknowledge_error_code: Annotated[int, int16]
    acknowledge_error_message: Annotated[str | None, string] = None
    current_leader: Annotated[LeaderIdAndEpoch, LeaderIdAndEpoch]
    records: Annotated[Buffer | list[Buffer], batches] = b""
    acquired_records: Annotated[tuple[AcquiredRecords, ...], array(AcquiredRecords)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchableTopicResponse:
    """The answers for one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[PartitionData, ...], array(PartitionData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchResponse:
    """Records, and which of them are the member's for now."""

    api: ClassVar[Api] = SHARE_FETCH
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    acquisition_lock_timeout_ms: Annotated[int, int32]
    responses: Annotated[tuple[ShareFetchableTopicResponse, ...], array(ShareFetchableTopicResponse)]
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], array(NodeEndpoint)]
