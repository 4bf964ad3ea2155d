"""Asks the coordinator about writes inside transactions before they reach a log (KIP-890).

A producer of transactions version 2 adds a partition to its transaction by writing to it: the coordinator is told first.  An
older one has added it by itself: the coordinator is asked whether that is so.  Either way the log holds a guard from before the
question until the write, and a marker that comes between takes it away: no write is left behind in a transaction that ended.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import field
from typing import NamedTuple

from headrace.broker.cluster.peers import Peers, PeerUnreachable
from headrace.broker.coordinators.transactions.entries import by_topic
from headrace.broker.coordinators.transactions.requests import TransactionRequests
from headrace.broker.partitions.partition import Partition
from headrace.broker.supervision.supervision import Spawn
from headrace.coordination.transaction.requests import AddPartitions, VerifyPartitions
from headrace.coordination.transaction.shard import TransactionShard
from headrace.declaring import dataclass
from headrace.host.disk import Buffer
from headrace.log.interface import TRUSTED, VerificationGuard
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_BROKER, ProducerIdentity, TopicPartition
from headrace.model.names import TRANSACTION_STATE
from headrace.records.header import HEADER_BYTES, LOW_ATTRIBUTES_POSITION, TRANSACTIONAL_BIT, producer_of
from headrace.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

PRODUCE_ADDS_FROM = 12
PRODUCE_KNOWS_ABORTABLE_FROM = 11
OFFSET_COMMIT_ADDS_FROM = 5
OFFSET_COMMIT_KNOWS_ABORTABLE_FROM = 4
ADD_PARTITIONS_VERSION = 5
REMOTE_TIMEOUT_S = 10.0
EPOCH_BUMP_VERSION = 2

# The coordinator could not be asked.  Clients do not expect these words about a partition.
UNASKED = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class _Question(NamedTuple):
    """What is asked in one go: one transaction, to add partitions to it or to verify them."""

    transactional_id: str
    producer: ProducerIdentity
    adds: bool


@dataclass(slots=True, eq=False)
class _Gathering:
    """Partitions of one transaction that came up in the same step of the event loop: they are asked about together."""

    question: _Question
    partitions: set[TopicPartition] = field(default_factory=set)


class _InOrder(NamedTuple):
    """One batch after the other of one producer in one partition."""

    partition: TopicPartition
    producer_id: int


Errors = dict[TopicPartition, ErrorCode]


class TransactionVerification:
    """Satisfies the partitions' Verification."""

    def __init__(
        self,
        broker_id: int,
        transactions: TransactionRequests,
        *,
        cluster: ClusterMetadata,
        peers: Peers,
        spawn: Spawn,
        is_enabled: Callable[[], bool],
    ) -> None:
        """`is_enabled` answers whether writes of producers that add partitions by themselves are verified."""
        self._broker_id = broker_id
        self._transactions = transactions
        self._cluster = cluster
        self._peers = peers
        self._spawn = spawn
        self._is_enabled = is_enabled
        self._waiting = transactions.waiting
        self._gathering: dict[_Question, _Gathering] = {}

    # --- Produce ----------------------------------------------------------------------------------------------------------

    def is_needed(self, partition: Partition, records: Buffer, transactional_id: str | None) -> bool:
        if len(records) < HEADER_BYTES or not records[LOW_ATTRIBUTES_POSITION] & TRANSACTIONAL_BIT:
            return False
        if not transactional_id:
            return True  # and will be refused
        producer_id, epoch, _ = producer_of(records)
        if _InOrder(partition.identity, producer_id) in self._waiting:
            return True
        return not partition.log.producers.has_open_transaction(producer_id, epoch)

    @asynccontextmanager
    async def admitted(
        self, partition: Partition, records: Buffer, transactional_id: str | None, produce_version: int
    ) -> AsyncIterator[VerificationGuard | None]:
        producer_id, epoch, sequence = producer_of(records)
        async with self._waiting.turn(_InOrder(partition.identity, producer_id)):
            yield await self._guard(partition, ProducerIdentity(producer_id, epoch), sequence, transactional_id, produce_version)

    async def _guard(
        self, partition: Partition, producer: ProducerIdentity, sequence: int, transactional_id: str | None, version: int
    ) -> VerificationGuard | None:
        if not transactional_id:
            raise RequestError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "A transactional batch comes with a transactional id."
            )
        adds = version >= PRODUCE_ADDS_FROM
        if not adds and not self._is_enabled():
            return TRUSTED
        guard = self._begin(partition, producer, sequence, adds=adds)
        if guard is not None:
            error = await self._ask(_Question(transactional_id, producer, adds), partition.identity)
            if error is not ErrorCode.NONE:
                raise RequestError(_as_produce_error(error, version), f"{transactional_id} may not write: {error.name}")
        return guard

    # --- TxnOffsetCommit --------------------------------------------------------------------------------------------------

    async def admit_offsets(
        self, offsets_partition: Partition, producer: ProducerIdentity, transactional_id: str, version: int
    ) -> None:
        """Return when offsets may be committed in the transaction, to be followed by the commit without a pause."""
        adds = version >= OFFSET_COMMIT_ADDS_FROM
        if not adds and not self._is_enabled():
            return
        guard = self._begin(offsets_partition, producer, -1, adds=adds)
        if guard is None:
            return
        error = await self._ask(_Question(transactional_id, producer, adds), offsets_partition.identity)
        if error is ErrorCode.NONE and self._begin(offsets_partition, producer, -1, adds=adds) not in (guard, None):
            error = ErrorCode.INVALID_TXN_STATE  # the transaction ended while we asked
        if error is not ErrorCode.NONE:
            raise RequestError(_as_offset_commit_error(error, version), f"{transactional_id} may not commit: {error.name}")

    def _begin(self, partition: Partition, producer: ProducerIdentity, sequence: int, *, adds: bool) -> VerificationGuard | None:
        return partition.log.producers.begin_verification(
            producer.producer_id,
            producer.epoch,
            sequence,
            supports_epoch_bump=adds,
        )

    # --- the coordinator --------------------------------------------------------------------------------------------------

    async def _ask(self, question: _Question, partition: TopicPartition) -> ErrorCode:
        gathering = self._gathering.get(question)
        if gathering is None:
            gathering = self._gathering[question] = _Gathering(question)
            asyncio.get_running_loop().call_soon(self._put, gathering)
        gathering.partitions.add(partition)
        # The coordinator answers in time, here as elsewhere.
        errors: Errors = await self._waiting.wait(gathering)
        return errors.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _put(self, gathering: _Gathering) -> None:
        del self._gathering[gathering.question]
        self._spawn(self._answer(gathering))

    async def _answer(self, gathering: _Gathering) -> None:
        partitions = frozenset(gathering.partitions)
        try:
            errors = await self._put_to_coordinator(gathering.question, partitions)
        except RequestError as error:
            errors = dict.fromkeys(partitions, error.code)
        except PeerUnreachable:
            errors = dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
        except BaseException:
            self._waiting.refuse(gathering, RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            raise
        self._waiting.answer(gathering, errors)

    async def _put_to_coordinator(self, question: _Question, partitions: frozenset[TopicPartition]) -> Errors:
        transactional_id, producer = question.transactional_id, question.producer
        shards = self._transactions.shards
        state = self._cluster.image.partition(TRANSACTION_STATE, shards.partition_of(transactional_id))
        if state is None or state.leader == NO_BROKER:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if state.leader != self._broker_id:
            return await self._put_remotely(state.leader, question, partitions)
        if not question.adds:
            verify = VerifyPartitions(transactional_id=transactional_id, producer=producer, partitions=partitions)
            return await shards.look(transactional_id, TransactionShard.verify_partitions, verify)
        add = AddPartitions(
            transactional_id=transactional_id, producer=producer, partitions=partitions, client_version=EPOCH_BUMP_VERSION
        )
        added = await self._transactions.ask(transactional_id, TransactionShard.add_partitions, add)
        return dict.fromkeys(partitions, added.error)

    async def _put_remotely(self, broker_id: int, question: _Question, partitions: frozenset[TopicPartition]) -> Errors:
        topics = tuple(
            AddPartitionsToTxnTopic(name=topic.topic, partitions=topic.partition_ids) for topic in by_topic(partitions)
        )
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=question.transactional_id,
            producer_id=question.producer.producer_id,
            producer_epoch=question.producer.epoch,
            verify_only=not question.adds,
            topics=topics,
        )
        response: AddPartitionsToTxnResponse = await self._peers.call(
            broker_id,
            AddPartitionsToTxnRequest(transactions=(transaction,)),
            ADD_PARTITIONS_VERSION,
            timeout=REMOTE_TIMEOUT_S,
            # Behind a shard that waits for its replicas, only the questions to that shard wait.
            purpose=f"verification {self._transactions.shards.partition_of(question.transactional_id)}",
        )
        if response.error_code:
            raise RequestError(ErrorCode(response.error_code))
        return {
            TopicPartition(topic.name, result.partition_index): ErrorCode(result.partition_error_code)
            for answered in response.results_by_transaction
            for topic in answered.topic_results
            for result in topic.results_by_partition
        }


def _as_produce_error(error: ErrorCode, version: int) -> ErrorCode:
    """In the words that a producer of this version understands.  NOT_ENOUGH_REPLICAS is what every one of them retries without
    asking for metadata anew."""
    if error in UNASKED or (error is ErrorCode.CONCURRENT_TRANSACTIONS and version < PRODUCE_ADDS_FROM):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < PRODUCE_KNOWS_ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return error


def _as_offset_commit_error(error: ErrorCode, version: int) -> ErrorCode:
    """COORDINATOR_LOAD_IN_PROGRESS makes a client try again at the same coordinator, which is the right one for its group."""
    if error in UNASKED or (error is ErrorCode.CONCURRENT_TRANSACTIONS and version < OFFSET_COMMIT_ADDS_FROM):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < OFFSET_COMMIT_KNOWS_ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return error
