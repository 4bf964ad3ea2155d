"""The transaction coordinator of this broker: one shard for each partition of `__transaction_state` that it leads.

Has markers written once their decision is committed, and requests wait a little for them.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar

from headrace.broker.cluster.peers import Peers
from headrace.broker.coordinators.led_shard import LedShard, Request, ShardContext
from headrace.broker.coordinators.placement import coordinating_partition
from headrace.broker.coordinators.roles import RoleFollower
from headrace.broker.coordinators.shards import Shards
from headrace.broker.coordinators.transactions.entries import TransactionEntryCodec
from headrace.broker.coordinators.transactions.marker_writes import MarkerWriter
from headrace.broker.coordinators.transactions.markers import MarkerSender
from headrace.broker.coordinators.transactions.producer_ids import ProducerIdClaims
from headrace.broker.coordinators.waiting import MarkersOf, Waiting
from headrace.broker.partitions.replica_changes import ReplicaChanges
from headrace.broker.supervision.supervision import Scope, Spawn
from headrace.coordination.decision import Decision, Token
from headrace.coordination.moment import Moment
from headrace.coordination.transaction.requests import TransactionSettings
from headrace.coordination.transaction.shard import TransactionShard
from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.names import TRANSACTION_STATE

# How long a request waits for the markers of the transaction before it.  Clients wait longer between their own attempts.
MARKER_PATIENCE_S = 0.1


class _Answered(Protocol):
    @property
    def error(self) -> ErrorCode: ...


Answered = TypeVar("Answered", bound=_Answered)


def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=config["transaction.max.timeout.ms"],
        transactional_id_expiration_ms=config["transactional.id.expiration.ms"],
        two_phase_commit_enable=config["transaction.two.phase.commit.enable"],
    )


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
    ) -> None:
        """`spawn` runs what is done once."""
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
        self.shards: Shards[TransactionShard] = Shards(context, self._partition_of)
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

    # --- requests ---------------------------------------------------------------------------------------------------------

    async def ask(
        self,
        transactional_id: str,
        decide: Callable[[TransactionShard, Request, Token, Moment], Decision[Answered]],
        request: Request,
    ) -> Answered:
        """Have the shard decide; while the markers of the transaction before are on their way, wait for them and ask again."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + MARKER_PATIENCE_S
        while True:
            answer = await self.shards.ask(transactional_id, decide, request)
            patience_s = deadline - loop.time()
            if answer.error is not ErrorCode.CONCURRENT_TRANSACTIONS or patience_s <= 0:
                return answer
            # Late, or the shard has moved: whichever it is, the next answer says it.
            with suppress(RequestError):
                await self._wait_for_markers(transactional_id, patience_s)

    async def _wait_for_markers(self, transactional_id: str, patience_s: float) -> None:
        led = self.shards.serving(self._partition_of(transactional_id))
        found = led.shard.get(transactional_id)
        if found is not None and found.prepared:
            await self.waiting.wait(MarkersOf(led.index, transactional_id), patience_s)

    # --- markers ----------------------------------------------------------------------------------------------------------

    def _on_committed(self, led: LedShard[TransactionShard]) -> None:
        self.sender.send_due(led)

    def _on_markers_written(self, led: LedShard[TransactionShard], transactional_id: str) -> None:
        """Requests that waited for them may go on.  Their answers wait until everything before them is committed anyway."""
        found = led.shard.get(transactional_id)
        if found is None or not found.prepared:
            self.waiting.answer(MarkersOf(led.index, transactional_id), None)
