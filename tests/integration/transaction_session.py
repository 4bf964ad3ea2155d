"""A transactional producer over the simulated network: it asks until it is answered, as real clients do."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.model.errors import RETRIABLE, ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headrace.wire.messages.end_txn import EndTxnRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from headrace.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from simulation.clients.client import GROUP, TRANSACTION, ClusterClient, Unavailable
from simulation.clients.producing import Identity, produce_batch

TRANSACTION_TIMEOUT_MS = 20_000
# Answers that send a client to another broker.
MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Refused(Exception):
    """The broker will not have it, however often it is asked."""


class Session:
    """One transactional id.  Version 2 leaves it to Produce and TxnOffsetCommit to add partitions (KIP-890)."""

    def __init__(self, client: ClusterClient, transactional_id: str, version: int) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.version = version
        self.identity = Identity(-1, -1)

    async def begin_life(self) -> None:
        """InitProducerId."""
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
        response = await self._of_coordinator(TRANSACTION, self.transactional_id, request, 5, lambda found: found.error_code)
        self.identity = Identity(response.producer_id, response.producer_epoch)

    async def write(self, partition: TopicPartition, value: str) -> None:
        if self.version < 2:
            await self._add_partition(partition)

        async def once() -> ErrorCode:
            error, _, _ = await produce_batch(
                self.client,
                partition,
                [value],
                self.identity,
                self.identity.sequences.get(partition, 0),
                transactional_id=self.transactional_id,
                version=12 if self.version == 2 else 11,
            )
            if error is not ErrorCode.NONE:
                self.client.forget_leader(partition)
            return error

        await self._until_done(once)
        self.identity.sequences[partition] = self.identity.sequences.get(partition, 0) + 1

    async def _add_partition(self, partition: TopicPartition) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=partition.topic, partitions=(partition.partition,)),),
        )
        await self._of_coordinator(
            TRANSACTION,
            self.transactional_id,
            request,
            3,
            lambda found: found.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )

    async def commit_offset(self, group: str, partition: TopicPartition, offset: int) -> None:
        if self.version < 2:
            add = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                group_id=group,
            )
            await self._of_coordinator(TRANSACTION, self.transactional_id, add, 3, lambda found: found.error_code)
        committed = TxnOffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=offset, committed_metadata=None
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            topics=(TxnOffsetCommitRequestTopic(name=partition.topic, partitions=(committed,)),),
        )
        await self._of_coordinator(
            GROUP, group, request, 5 if self.version == 2 else 3, lambda found: found.topics[0].partitions[0].error_code
        )

    async def end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=committed,
        )
        version = 5 if self.version == 2 else 3
        response = await self._of_coordinator(
            TRANSACTION, self.transactional_id, request, version, lambda found: found.error_code
        )
        if self.version == 2:
            self.identity = Identity(response.producer_id, response.producer_epoch)

    async def committed_offset(self, group: str, partition: TopicPartition) -> int:
        """What a consumer of the group would start from; waits until no transaction is open over it."""
        request = OffsetFetchRequest(
            group_id=group,
            topics=(OffsetFetchRequestTopic(name=partition.topic, partition_indexes=(partition.partition,)),),
            require_stable=True,
        )
        response = await self._of_coordinator(
            GROUP, group, request, 7, lambda found: found.error_code or found.topics[0].partitions[0].error_code
        )
        return int(response.topics[0].partitions[0].committed_offset)

    # --- asking until there is an answer

    async def _of_coordinator(self, kind: int, key: str, request: Any, version: int, error_of: Callable[[Any], int]) -> Any:
        answers = []

        async def once() -> ErrorCode:
            response = await self.client.call_coordinator(kind, key, request, version)
            answers.append(response)
            error = ErrorCode(error_of(response))
            if error in MOVED:
                self.client.forget_coordinator(kind, key)
            return error

        await self._until_done(once)
        return answers[-1]

    async def _until_done(self, once: Callable[[], Awaitable[ErrorCode]]) -> None:
        while True:
            try:
                error = await once()
            except Unavailable:
                error = ErrorCode.NETWORK_EXCEPTION
            if error is ErrorCode.NONE:
                return
            if error not in RETRIABLE:
                raise Refused(error.name)
            await asyncio.sleep(0.02)
