"""TxnOffsetCommit: offsets that count when their transaction commits."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import ZERO_UUID, Api, Since, Until, array, int16, int32, int64, string, uuid

TXN_OFFSET_COMMIT = Api(key=28, versions=range(7), flexible_from=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequestPartition:
    """The offset of one partition, and a note that comes back with it."""

    partition_index: Annotated[int, int32]
    committed_offset: Annotated[int, int64]
    committed_leader_epoch: Annotated[int, int32, Since(2)] = -1
    committed_metadata: Annotated[str | None, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequestTopic:
    """The partitions of one topic."""

    name: Annotated[str, string, Until(5)] = ""
    topic_id: Annotated[UUID, uuid, Since(6)] = ZERO_UUID
    partitions: Annotated[tuple[TxnOffsetCommitRequestPartition, ...], array(TxnOffsetCommitRequestPartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequest:
    """Offsets to keep.

    v2 adds leader epochs, v3 membership and is the first flexible version, v5 adds the group to the transaction by itself
    (KIP-890), v6 names topics by id.
    """

    api: ClassVar[Api] = TXN_OFFSET_COMMIT
    transactional_id: Annotated[str, string]
    group_id: Annotated[str, string]
    producer_id: Annotated[int, int64]
    producer_epoch: Annotated[int, int16]
    generation_id_or_member_epoch: Annotated[int, int32, Since(3)] = -1
    member_id: Annotated[str, string, Since(3)] = ""
    group_instance_id: Annotated[str | None, string, Since(3)] = None
    topics: Annotated[tuple[TxnOffsetCommitRequestTopic, ...], array(TxnOffsetCommitRequestTopic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponsePartition:
    """What became of one partition."""

    partition_index: Annotated[int, int32]
    error_code: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponseTopic:
    """The answers for one topic."""

    name: Annotated[str, string, Until(5)] = ""
    topic_id: Annotated[UUID, uuid, Since(6)] = ZERO_UUID
    partitions: Annotated[tuple[TxnOffsetCommitResponsePartition, ...], array(TxnOffsetCommitResponsePartition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponse:
    """For each partition, whether it was kept."""

    api: ClassVar[Api] = TXN_OFFSET_COMMIT
    throttle_time_ms: Annotated[int, int32] = 0
    topics: Annotated[tuple[TxnOffsetCommitResponseTopic, ...], array(TxnOffsetCommitResponseTopic)]
