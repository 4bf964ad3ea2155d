"""The transaction coordinator of this broker: one shard for each partition of `__transaction_state` that it leads.

Follows leadership, brings each request to the shard of its transactional id, and has markers written once their decision is
committed.  Requests raise RequestError when the transactional id is looked after elsewhere or is being loaded.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from headrace.broker.coordinators.partition_log import LedPartition
from headrace.broker.coordinators.placement import coordinating_partition
from headrace.broker.coordinators.runtime import CoordinatorRuntime
from headrace.broker.coordinators.transactions.entries import TransactionEntryCodec
from headrace.broker.coordinators.transactions.markers import MarkerSender
from headrace.broker.partitions.partition import Partition
from headrace.coordination.decision import Decision, Reply, Token
from headrace.coordination.moment import Moment
from headrace.coordination.transaction.producer_ids import BLOCK_IDS, ProducerIds
from headrace.coordination.transaction.requests import (
    Added,
    AddPartitions,
    Description,
    EndTransaction,
    Identified,
    InitProducerId,
    Listed,
    ListFilter,
    TransactionSettings,
    Verified,
    VerifyPartitions,
)
from headrace.coordination.transaction.shard import TransactionShard
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import ErrorCode
from headrace.model.names import TRANSACTION_STATE

if TYPE_CHECKING:
    from headrace.broker.app import Broker

logger = logging.getLogger(__name__)

# How long a request waits for the markers of the transaction before it.  Clients wait longer between their own attempts.
MARKER_PATIENCE_S = 0.1


class _Answered(Protocol):
    @property
    def error(self) -> ErrorCode: ...


Answer = TypeVar("Answer", bound=_Answered)
Decide = Callable[[TransactionShard, Token, Moment], Decision]


def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=config["transaction.max.timeout.ms"],
        transactional_id_expiration_ms=config["transactional.id.expiration.ms"],
        two_phase_commit_enable=config["transaction.two.phase.commit.enable"],
    )


class TransactionCoordinator:
    """Make one before the replicas start, so that it hears of each role they take; `close` it before they stop."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._settings = transaction_settings(broker.config)
        self._producer_ids = ProducerIds()
        self._claiming: asyncio.Future[None] | None = None
        self._logs: dict[int, LedPartition] = {}
        self._terms: dict[int, int] = {}
        # Requests that wait for a transaction's markers, by partition and transactional id.
        self._waiting: dict[tuple[int, str], list[asyncio.Future[None]]] = {}
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            topic=TRANSACTION_STATE,
            codec=TransactionEntryCodec(),
            make_shard=lambda index: TransactionShard(self._settings, self._producer_ids),
            clock=broker.clock,
            scope=broker.supervisor.scope("transactions"),
            write_timeout_s=broker.config["request.timeout.ms"] / 1000,
            on_committed=self._on_committed,
        )
        self.sender = MarkerSender(broker, self.runtime, on_noted=self._let_through)

    def start(self) -> None:
        self._broker.replicas.on_role.append(self._on_role)
        self._broker.replicas.on_removed.append(self._on_removed)

    def close(self) -> None:
        self.sender.close()
        self.runtime.close()

    # --- following the cluster --------------------------------------------------------------------------------------------

    def _on_role(self, partition: Partition) -> None:
        if partition.identity.topic != TRANSACTION_STATE:
            return
        index = partition.identity.partition
        if not partition.is_leader or partition.failure is not None:
            self._resign(index)
            return
        # A new term as leader is a new coordinator: its epoch goes into the markers, and others may have written in between.
        if not self.runtime.leads(index) or self._terms.get(index) != partition.leader_epoch:
            partition.when_failed(self._on_removed)
            self._terms[index] = partition.leader_epoch
            self._logs[index] = led = LedPartition(partition, self._broker.loop, self._broker.host.disk)
            self.runtime.lead(index, led)

    def _on_removed(self, partition: Partition) -> None:
        if partition.identity.topic == TRANSACTION_STATE:
            self._resign(partition.identity.partition)

    def _resign(self, index: int) -> None:
        self._logs.pop(index, None)
        self.runtime.resign(index)

    def _on_committed(self, index: int, shard: TransactionShard) -> None:
        log = self._logs.get(index)
        if log is None:
            return
        self.sender.send_due(index, shard, log)
        self._let_through(index, shard)

    def _let_through(self, index: int, shard: TransactionShard) -> None:
        """Requests that waited for markers may go on.  Their answers wait until everything before them is committed anyway."""
        for (of_partition, transactional_id), futures in list(self._waiting.items()):
            found = shard.get(transactional_id)
            if of_partition == index and (found is None or not found.prepared):
                del self._waiting[of_partition, transactional_id]
                for future in futures:
                    if not future.done():
                        future.set_result(None)

    # --- finding the shard ------------------------------------------------------------------------------------------------

    def partition_of(self, transactional_id: str) -> int:
        return coordinating_partition(self._broker.image, TRANSACTION_STATE, transactional_id)

    async def _ask(self, transactional_id: str, decide: Decide) -> _Answered:
        """Let the shard decide; while the markers of the transaction before are on their way, wait for them and ask again."""
        index = self.partition_of(transactional_id)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + MARKER_PATIENCE_S
        while True:
            answer = cast(_Answered, await self.runtime.ask(index, decide))
            patience_s = deadline - loop.time()
            if answer.error is not ErrorCode.CONCURRENT_TRANSACTIONS or patience_s <= 0:
                return answer
            await self._completion(index, transactional_id, patience_s)

    async def _completion(self, index: int, transactional_id: str, patience_s: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        futures = self._waiting.setdefault((index, transactional_id), [])
        futures.append(future)
        await asyncio.wait([future], timeout=patience_s)
        if not future.done():
            futures.remove(future)
            if not futures:
                self._waiting.pop((index, transactional_id), None)

    # --- requests ---------------------------------------------------------------------------------------------------------

    async def init_producer_id(self, request: InitProducerId) -> Identified:
        """An identity for a transactional producer."""
        self.partition_of(request.transactional_id)
        await self._have_producer_ids()
        answer = await self._ask(request.transactional_id, lambda shard, token, now: shard.init_producer_id(token, request, now))
        return cast(Identified, answer)

    async def new_producer_id(self) -> int:
        """An identity for an idempotent producer; any broker gives it."""
        await self._have_producer_ids()
        return self._producer_ids.take()

    async def add_partitions(self, request: AddPartitions) -> ErrorCode:
        """Begin a transaction, or let it grow."""
        answer = await self._ask(request.transactional_id, lambda shard, token, now: shard.add_partitions(token, request, now))
        return cast(Added, answer).error

    async def verify_partitions(self, request: VerifyPartitions) -> Verified:
        """Whether the partitions are in the producer's open transaction."""
        index = self.partition_of(request.transactional_id)
        answer = await self.runtime.ask(index, lambda shard, token, now: shard.verify_partitions(token, request, now))
        return cast(Verified, answer)

    async def end(self, request: EndTransaction) -> Identified:
        """Commit or abort; the answer means that the outcome is decided for good."""
        answer = await self._ask(request.transactional_id, lambda shard, token, now: shard.end(token, request, now))
        return cast(Identified, answer)

    async def describe(self, transactional_id: str) -> Description:
        index = self.partition_of(transactional_id)
        answer = await self.runtime.ask(index, lambda shard, token, now: shard.describe(token, transactional_id))
        return cast(Description, answer)

    async def list(self, filtered: ListFilter) -> list[Listed]:
        """The transactions of all shards here; raises while one of them is being loaded."""
        found: list[Listed] = []
        for index in self.runtime.led_partitions():
            found += await self.runtime.ask(
                index, lambda shard, token, now: Decision((), (Reply(token, tuple(shard.list(filtered, now))),))
            )
        return found

    # --- producer ids -----------------------------------------------------------------------------------------------------

    async def _have_producer_ids(self) -> None:
        """Claim the next block in good time; wait for it only when the last id is gone."""
        if self._producer_ids.wants_block and self._claiming is None:
            self._claiming = self._broker.loop.create_future()
            self._broker.spawn(self._claim(self._claiming))
        if not self._producer_ids.available and self._claiming is not None:
            await asyncio.wait([self._claiming])

    async def _claim(self, claimed: asyncio.Future[None]) -> None:
        try:
            self._producer_ids.add(await self._broker.cluster.allocate_producer_ids(BLOCK_IDS))
        except Exception as error:
            # Whoever needs an id is asked to come back, and then the next attempt is made.
            logger.warning("no producer ids could be claimed: %s", error)
        finally:
            self._claiming = None
            claimed.set_result(None)
