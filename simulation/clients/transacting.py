"""A transactional producer: writes to several partitions, moves a group's offset, and commits or aborts it all as one.

It speaks either generation of the protocol: version 1 names partitions beforehand and keeps its epoch, version 2 (KIP-890) does
neither.  What it cannot know (a commit was asked for and no answer came) it records as unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.model.errors import RETRIABLE, ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headrace.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from simulation.clients.client import GROUP, TRANSACTION, ClusterClient, Unavailable
from simulation.clients.producing import Identity, produce_batch
from simulation.clients.working import PacedWorker
from simulation.rules.history import Acknowledged, Ended, OffsetCommitted, OffsetCommitting, Sent

INIT_PRODUCER_ID_VERSION = 4
ADD_PARTITIONS_VERSION = 3
ADD_OFFSETS_VERSION = 3
PRODUCE_VERSIONS = {1: 11, 2: 12}
END_VERSIONS = {1: 4, 2: 5}
OFFSET_COMMIT_VERSIONS = {1: 3, 2: 5}
TIMEOUT_MS = 6000
PARTITIONS_MAX = 2
COMMITS_OF_TEN = 8

# What to ask again, the same way, of whoever coordinates now.
WAIT_FOR_COORDINATOR = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


class TransactionFailed(Exception):
    """This transaction cannot be committed; a new identity aborts what there is of it."""


@dataclass(slots=True)
class _Open:
    """A transaction under way."""

    name: str
    commits: bool
    group_offset: int
    values: dict[TopicPartition, list[str]] = field(default_factory=dict)
    ending: bool = False  # the coordinator was asked to end it


class TransactionalProducer(PacedWorker):
    """One transaction at a time.  Two with one transactional id fence each other, and each begins anew."""

    def __init__(self, client: ClusterClient, transactional_id: str, *, version: int, pause_s: tuple[float, float]) -> None:
        super().__init__(client, pause_s=pause_s)
        self._id = transactional_id
        self.group = f"group-{client.name}"
        self._version = version
        self._identity = Identity(-1, -1)
        self._begun = 0

    async def run(self, partitions: Sequence[TopicPartition]) -> None:
        await self._initialize()
        await super().run(partitions)

    async def _act(self, partitions: Sequence[TopicPartition]) -> None:
        chance, name = self._client.chance, self._client.name
        self._begun += 1
        transaction = _Open(f"{name}.{self._begun}", chance.randrange(10) < COMMITS_OF_TEN, group_offset=self._begun)
        for partition in chance.sample(list(partitions), min(PARTITIONS_MAX, len(partitions))):
            count = chance.randrange(2) + 1
            transaction.values[partition] = [f"{name}/{self._begun}.{n}.{partition.partition}" for n in range(count)]
        await self._carry_out(transaction, partitions[0])

    async def _carry_out(self, transaction: _Open, group_partition: TopicPartition) -> None:
        record = self._client.history.record
        try:
            await self._write(transaction)
            if transaction.commits:
                await self._commit_offset(transaction, group_partition)
            transaction.ending = True
            await self._end(transaction.commits)
        except TransactionFailed as error:
            self._client.history.tell(f"transaction {transaction.name} failed: {error}")
            await self._initialize()
            # A new identity aborts what is open; but what was asked to commit may have done so before.
            unknown = transaction.ending and transaction.commits
            record(Ended(transaction=transaction.name, outcome="unknown" if unknown else "aborted"))
            return
        record(Ended(transaction=transaction.name, outcome="committed" if transaction.commits else "aborted"))
        if transaction.commits:
            record(OffsetCommitted(group=self.group, partition=group_partition, offset=transaction.group_offset))

    # -- steps

    async def _initialize(self) -> None:
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=TIMEOUT_MS)
        while True:
            try:
                response: InitProducerIdResponse = await self._client.call_coordinator(
                    TRANSACTION, self._id, request, INIT_PRODUCER_ID_VERSION
                )
                if response.error_code == ErrorCode.NONE:
                    self._identity = Identity(response.producer_id, response.producer_epoch)
                    return
                self._client.forget_coordinator(TRANSACTION, self._id)
            except Unavailable:
                pass
            await self._client.back_off()

    async def _write(self, transaction: _Open) -> None:
        for partition, values in transaction.values.items():
            if self._version == 1:
                await self._add_partition(partition)
            for value in values:
                sent = Sent(producer=self._client.name, partition=partition, value=value, transaction=transaction.name)
                self._client.history.record(sent)
            await self._send(partition, values)

    async def _send(self, partition: TopicPartition, values: list[str]) -> None:
        client, identity = self._client, self._identity
        while True:
            try:
                error, offset, broker = await produce_batch(
                    client,
                    partition,
                    values,
                    identity,
                    identity.sequences.get(partition, 0),
                    transactional_id=self._id,
                    version=PRODUCE_VERSIONS[self._version],
                )
            except Unavailable:
                await client.back_off()
                continue
            if error is ErrorCode.NONE:
                for position, value in enumerate(values):
                    client.history.record(
                        Acknowledged(
                            producer=client.name, partition=partition, value=value, offset=offset + position, broker=broker
                        )
                    )
                identity.sequences[partition] = identity.sequences.get(partition, 0) + len(values)
                return
            if error not in RETRIABLE and error not in WAIT_FOR_COORDINATOR:
                raise TransactionFailed(f"{partition} answers {error.name}")
            client.forget_leader(partition)
            await client.back_off()

    async def _add_partition(self, partition: TopicPartition) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=partition.topic, partitions=(partition.partition,)),),
        )
        while True:
            response = await self._ask(TRANSACTION, self._id, request, ADD_PARTITIONS_VERSION)
            code = response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            if await self._is_done(TRANSACTION, self._id, ErrorCode(code)):
                return

    async def _commit_offset(self, transaction: _Open, partition: TopicPartition) -> None:
        committing = OffsetCommitting(
            group=self.group, partition=partition, offset=transaction.group_offset, transaction=transaction.name
        )
        self._client.history.record(committing)
        if self._version == 1:
            await self._add_offsets()
        wanted = TxnOffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=transaction.group_offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=self.group,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            topics=(TxnOffsetCommitRequestTopic(name=partition.topic, partitions=(wanted,)),),
        )
        while True:
            response: TxnOffsetCommitResponse = await self._ask(GROUP, self.group, request, OFFSET_COMMIT_VERSIONS[self._version])
            if await self._is_done(GROUP, self.group, ErrorCode(response.topics[0].partitions[0].error_code)):
                return

    async def _add_offsets(self) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            group_id=self.group,
        )
        while True:
            response = await self._ask(TRANSACTION, self._id, request, ADD_OFFSETS_VERSION)
            if await self._is_done(TRANSACTION, self._id, ErrorCode(response.error_code)):
                return

    async def _end(self, commits: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            committed=commits,
        )
        while True:
            response: EndTxnResponse = await self._ask(TRANSACTION, self._id, request, END_VERSIONS[self._version])
            if await self._is_done(TRANSACTION, self._id, ErrorCode(response.error_code)):
                break
        if self._version == 2:
            self._identity = Identity(response.producer_id, response.producer_epoch)

    # -- asking

    async def _ask(self, kind: int, key: str, request: Any, version: int) -> Any:
        while True:
            try:
                return await self._client.call_coordinator(kind, key, request, version)
            except Unavailable:
                await self._client.back_off()

    async def _is_done(self, kind: int, key: str, error: ErrorCode) -> bool:
        """False when the same is to be asked again, after a while."""
        if error is ErrorCode.NONE:
            return True
        if error not in WAIT_FOR_COORDINATOR and error not in RETRIABLE:
            raise TransactionFailed(error.name)
        self._client.forget_coordinator(kind, key)
        await self._client.back_off()
        return False
