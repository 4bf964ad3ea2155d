"""The transaction coordinator of this broker: one shard for each partition of `__transaction_state` that it leads.

Has markers written once their decision is committed.
"""

import asyncio
from collections import defaultdict

from headrace.broker.cluster.peers import Peers
from headrace.broker.coordinators.led_shard import LedShard, ShardContext
from headrace.broker.coordinators.placement import coordinating_partition
from headrace.broker.coordinators.roles import RoleFollower
from headrace.broker.coordinators.shards import Shards
from headrace.broker.coordinators.transactions.entries import TransactionEntryCodec
from headrace.broker.coordinators.transactions.marker_writes import MarkerWriter
from headrace.broker.coordinators.transactions.markers import MarkerSender
from headrace.broker.coordinators.transactions.producer_ids import ProducerIdClaims
from headrace.broker.coordinators.transactions.requests import TransactionRequests, TransactionShards
from headrace.broker.coordinators.waiting import MarkersOf, Waiting
from headrace.broker.partitions.replica_changes import ReplicaChanges
from headrace.broker.supervision.supervision import Scope, Spawn
from headrace.coordination.transaction.requests import TransactionSettings
from headrace.coordination.transaction.shard import TransactionShard
from headrace.coordination.transaction.state import TransactionState
from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.broker_settings import BrokerConfig
from headrace.model.names import TRANSACTION_STATE


def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=config["transaction.max.timeout.ms"],
        transactional_id_expiration_ms=config["transactional.id.expiration.ms"],
        two_phase_commit_enable=config["transaction.two.phase.commit.enable"],
    )


# How a transaction ended, in a word.
ENDINGS = {TransactionState.COMPLETE_COMMIT: "committed", TransactionState.COMPLETE_ABORT: "aborted"}


class TransactionCoordinator:
    """Make one before the replicas start, so that it hears of each role they take; `close` it before they stop."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        cluster: ClusterMetadata,
        replica_changes: ReplicaChanges,
        peers: Peers,
        marker_writer: MarkerWriter,
        clock: Clock,
        disk: Disk,
        loop: asyncio.AbstractEventLoop,
        scope: Scope,
        spawn: Spawn,
        ended: "defaultdict[str, int] | None" = None,
    ) -> None:
        """`spawn` runs what is done once; in `ended` transactions are counted by how they ended."""
        self._ended = ended if ended is not None else defaultdict(int)
        self._cluster = cluster
        self._settings = transaction_settings(config)
        # Replies, markers, verifications, producer ids: all who wait for anything in a transaction.
        self.waiting = Waiting()
        self.producer_ids = ProducerIdClaims(cluster, self.waiting, spawn)
        context = ShardContext(
            topic=TRANSACTION_STATE,
            codec=TransactionEntryCodec(),
            make_shard=self._make_shard,
            clock=clock,
            scope=scope,
            write_timeout_s=config["request.timeout.ms"] / 1000,
            waiting=self.waiting,
            on_committed=self._on_committed,
        )
        self.shards: TransactionShards = Shards(context, self._partition_of)
        self.requests = TransactionRequests(self.shards, self.waiting)
        self.sender = MarkerSender(
            config["node.id"], cluster, self.shards, peers, marker_writer, spawn, on_written=self._on_markers_written
        )
        RoleFollower(TRANSACTION_STATE, self.shards, replica_changes, disk, loop)

    def close(self) -> None:
        self.sender.close()
        self.shards.close()

    def _make_shard(self) -> TransactionShard:
        return TransactionShard(self._settings, self.producer_ids.at_hand)

    def _partition_of(self, transactional_id: str) -> int:
        return coordinating_partition(self._cluster.image, TRANSACTION_STATE, transactional_id)

    # --- markers ----------------------------------------------------------------------------------------------------------

    def _on_committed(self, led: LedShard[TransactionShard]) -> None:
        self.sender.send_due(led)

    def _on_markers_written(self, led: LedShard[TransactionShard], transactional_id: str) -> None:
        """Requests that waited for them may go on.  Their answers wait until everything before them is committed anyway."""
        found = led.shard.get(transactional_id)
        if found is not None and found.state in ENDINGS:
            self._ended[ENDINGS[found.state]] += 1
        if found is None or not found.prepared:
            self.waiting.answer(MarkersOf(led.index, transactional_id), None)
