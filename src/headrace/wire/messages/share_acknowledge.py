"""ShareAcknowledge: word of records that are done, without asking for more (KIP-932)."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from headrace.wire.messages.share_fetch import REASONS_TAG, AcknowledgementBatch, Reason
from headrace.wire.schema import Api, Since, Tagged, array, boolean, int16, int32, string, uuid

SHARE_ACKNOWLEDGE = Api(key=79, versions=range(1, 3), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgePartition:
    """Word of the records of one partition."""

    partition_index: Annotated[int, int32]
    acknowledgement_batches: Annotated[tuple[AcknowledgementBatch, ...], array(AcknowledgementBatch)]
    reasons: Annotated[tuple[Reason, ...], array(Reason), Tagged(REASONS_TAG)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeTopic:
    """The partitions of one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[AcknowledgePartition, ...], array(AcknowledgePartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledgeRequest:
    """The records and what became of them.  v2 may renew locks."""

    api: ClassVar[Api] = SHARE_ACKNOWLEDGE
    group_id: Annotated[str | None, string] = None
    member_id: Annotated[str | None, string]
    share_session_epoch: Annotated[int, int32]
    is_renew_ack: Annotated[bool, boolean, Since(2)] = False
    topics: Annotated[tuple[AcknowledgeTopic, ...], array(AcknowledgeTopic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """What became of one partition."""

    partition_index: Annotated[int, int32]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    current_leader: Annotated[LeaderIdAndEpoch, LeaderIdAndEpoch]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledgeTopicResponse:
    """The answers for one topic."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[PartitionData, ...], array(PartitionData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledgeResponse:
    """For each partition, whether it was noted.  v2 adds how long a lock lasts."""

    api: ClassVar[Api] = SHARE_ACKNOWLEDGE
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    acquisition_lock_timeout_ms: Annotated[int, int32, Since(2)] = 0
    responses: Annotated[tuple[ShareAcknowledgeTopicResponse, ...], array(ShareAcknowledgeTopicResponse)]
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], array(NodeEndpoint)]
