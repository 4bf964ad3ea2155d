"""Fetch: records from partitions, to consumers and to followers.  Not frozen, since it is built for every poll.

Records are never copied: `pieces.pieces_of` has them go from the log's pages to the socket as they are, and a follower reads them
as views of the frame.
"""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import (
    ZERO_UUID,
    Api,
    Buffer,
    Since,
    Tagged,
    Until,
    array,
    batches,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)

FETCH = Api(key=1, versions=range(19), flexible_from=12)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """The follower that asks; -1 for a consumer."""

    replica_id: Annotated[int, int32] = -1
    replica_epoch: Annotated[int, int64] = -1


@dataclass(slots=True, kw_only=True)
class FetchPartition:
    """Where to read in one partition, and how much at most."""

    partition: Annotated[int, int32]
    current_leader_epoch: Annotated[int, int32, Since(9)] = -1
    fetch_offset: Annotated[int, int64]
    last_fetched_epoch: Annotated[int, int32, Since(12)] = -1  # -1 for a consumer that does not check
    log_start_offset: Annotated[int, int64, Since(5)] = -1
    partition_max_bytes: Annotated[int, int32]
    replica_directory_id: Annotated[UUID, uuid, Since(17), Tagged(0)] = ZERO_UUID
    high_watermark: Annotated[int, int64, Since(18), Tagged(1)] = 2**63 - 1


@dataclass(slots=True, kw_only=True)
class FetchTopic:
    """The partitions of one topic."""

    topic: Annotated[str, string, Until(12)] = ""
    topic_id: Annotated[UUID, uuid, Since(13)] = ZERO_UUID
    partitions: Annotated[tuple[FetchPartition, ...], array(FetchPartition)]


@dataclass(slots=True, kw_only=True)
class ForgottenTopic:
    """Partitions to take out of the session."""

    topic: Annotated[str, string, Until(12)] = ""
    topic_id: Annotated[UUID, uuid, Since(13)] = ZERO_UUID
    partitions: Annotated[tuple[int, ...], array(int32)]


@dataclass(slots=True, kw_only=True)
class FetchRequest:
    """Asks for records from given offsets, and to wait for them.

    v3 adds a limit for the whole, v4 isolation, v5 the follower's log start, v7 sessions, v9 and v12 epochs, v11 racks, v12
    is the first flexible version, v13 names topics by id, v15 moves the follower's identity into a tagged field, v17 adds
    its directory, v18 its high watermark.
    """

    api: ClassVar[Api] = FETCH
    cluster_id: Annotated[str | None, string, Since(12), Tagged(0)] = None
    replica_id: Annotated[int, int32, Until(14)] = -1
    replica_state: Annotated[ReplicaState, ReplicaState, Since(15), Tagged(1)] = ReplicaState()
    max_wait_ms: Annotated[int, int32]
    min_bytes: Annotated[int, int32]
    max_bytes: Annotated[int, int32, Since(3)] = 2**31 - 1
    isolation_level: Annotated[int, int8, Since(4)] = 0  # 0 read uncommitted, 1 read committed
    session_id: Annotated[int, int32, Since(7)] = 0
    session_epoch: Annotated[int, int32, Since(7)] = -1  # -1: no session; 0: a new one
    topics: Annotated[tuple[FetchTopic, ...], array(FetchTopic)]
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], array(ForgottenTopic), Since(7)] = ()
    rack_id: Annotated[str, string, Since(11)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndOffset:
    """Where the asker's history leaves ours: the last epoch in common and its end."""

    epoch: Annotated[int, int32] = -1
    end_offset: Annotated[int, int64] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIdAndEpoch:
    """Who leads the partition now; -1 where it need not be told."""

    leader_id: Annotated[int, int32] = -1
    leader_epoch: Annotated[int, int32] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotId:
    """A snapshot to fetch first; only metadata logs have them."""

    end_offset: Annotated[int, int64] = -1
    epoch: Annotated[int, int32] = -1


@dataclass(slots=True, kw_only=True)
class AbortedTransaction:
    """A transaction that ended in abort, by producer and first offset: `read_committed` readers drop its records."""

    producer_id: Annotated[int, int64]
    first_offset: Annotated[int, int64]


@dataclass(slots=True, kw_only=True)
class PartitionData:
    """What was read from one partition.  The records may be handed over in several pieces."""

    partition_index: Annotated[int, int32]
    error_code: Annotated[int, int16]
    high_watermark: Annotated[int, int64] = -1
    last_stable_offset: Annotated[int, int64, Since(4)] = -1
    log_start_offset: Annotated[int, int64, Since(5)] = -1
    diverging_epoch: Annotated[EpochEndOffset, EpochEndOffset, Since(12), Tagged(0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, LeaderIdAndEpoch, Since(12), Tagged(1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, SnapshotId, Since(12), Tagged(2)] = SnapshotId()
    aborted_transactions: Annotated[tuple[AbortedTransaction, ...] | None, array(AbortedTransaction), Since(4)] = ()
    preferred_read_replica: Annotated[int, int32, Since(11)] = -1
    records: Annotated[Buffer | list[Buffer] | None, batches] = b""


@dataclass(slots=True, kw_only=True)
class FetchableTopicResponse:
    """The answers for one topic."""

    topic: Annotated[str, string, Until(12)] = ""
    topic_id: Annotated[UUID, uuid, Since(13)] = ZERO_UUID
    partitions: Annotated[tuple[PartitionData, ...], array(PartitionData)]


@dataclass(slots=True, kw_only=True)
class NodeEndpoint:
    """Where to reach a broker that was named as a leader."""

    node_id: Annotated[int, int32]
    host: Annotated[str, string]
    port: Annotated[int, int32]
    rack: Annotated[str | None, string] = None


@dataclass(slots=True, kw_only=True)
class FetchResponse:
    """Records as they lie in the log.

    v1 adds the throttle time, v4 the last stable offset and aborted transactions, v5 the log start, v7 sessions, v11 the
    replica to read from, v12 divergence and the new leader, v13 topic ids, v16 leaders' addresses.
    """

    api: ClassVar[Api] = FETCH
    throttle_time_ms: Annotated[int, int32, Since(1)] = 0
    error_code: Annotated[int, int16, Since(7)] = 0
    session_id: Annotated[int, int32, Since(7)] = 0
    responses: Annotated[tuple[FetchableTopicResponse, ...], array(FetchableTopicResponse)]
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], array(NodeEndpoint), Since(16), Tagged(0)] = ()
