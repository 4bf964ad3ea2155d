"""Handlers of transactions, each called with just what it touches: shards over a log in memory, and ids at hand."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.broker.coordinators.led_shard import ShardContext
from headrace.broker.coordinators.shards import Shards
from headrace.broker.coordinators.transactions.entries import TransactionEntryCodec
from headrace.broker.coordinators.transactions.producer_ids import ProducerIdClaims
from headrace.broker.coordinators.transactions.requests import TransactionRequests, TransactionShards
from headrace.broker.coordinators.waiting import Waiting
from headrace.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
)
from headrace.broker.supervision.supervision import Supervisor
from headrace.coordination.transaction.requests import TransactionSettings
from headrace.coordination.transaction.shard import TransactionShard
from headrace.host.clock import SystemClock
from headrace.model.errors import ErrorCode
from headrace.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headrace.wire.messages.describe_transactions import DescribeTransactionsRequest
from headrace.wire.messages.end_txn import EndTxnRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.wire.messages.list_transactions import ListTransactionsRequest
from headrace.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.broker.handlers.replicas_in_memory import HERE, TOPIC_ID, image_of
from tests.unit.broker.handlers.requests import context_of
from tests.unit.broker.test_coordinator_shards import ListLog

UNTOUCHED: Any = None
ELSEWHERE = "elsewhere"


class Desk:
    """A shard of transactions that is led here, and what requests about them need beside it."""

    def __init__(self) -> None:
        waiting = Waiting()
        self.producer_ids = ProducerIdClaims(UNTOUCHED, waiting, spawn=UNTOUCHED)
        self.producer_ids.at_hand.add(range(100, 1100))
        context = ShardContext(
            topic="__transaction_state",
            codec=TransactionEntryCodec(),
            make_shard=lambda: TransactionShard(TransactionSettings(), self.producer_ids.at_hand),
            clock=SystemClock(),
            scope=Supervisor(SystemClock()),
            write_timeout_s=5.0,
            waiting=waiting,
        )
        self.shards: TransactionShards = Shards(context, partition_of=lambda name: 1 if name == ELSEWHERE else 0)
        self.transactions = TransactionRequests(self.shards, waiting)

    async def init(self, transactional_id: str | None, version: int = 5) -> InitProducerIdResponse:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        return await init_producer_id.handle(request, context_of(request, version), self.transactions, self.producer_ids)

    async def add(self, producer: InitProducerIdResponse, *indexes: int, epoch: int = 0) -> list[ErrorCode]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name="t", partitions=indexes),),
        )
        reply = await add_partitions_to_txn.handle(
            request, context_of(request, 3), lambda: image_of(HERE, HERE), self.transactions
        )
        results = reply.results_by_topic_v3_and_below[0].results_by_partition
        return [ErrorCode(each.partition_error_code) for each in results]

    async def end(self, producer: InitProducerIdResponse, *, committed: bool = True) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id="x",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=committed,
        )
        return ErrorCode((await end_txn.handle(request, context_of(request, 3), self.transactions)).error_code)

    async def state(self, transactional_id: str = "x") -> tuple[ErrorCode, str]:
        request = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
        reply = await describe_transactions.handle(request, context_of(request, 0), self.shards)
        found = reply.transaction_states[0]
        return ErrorCode(found.error_code), found.transaction_state


def run(story: Callable[[Desk], Awaitable[None]]) -> None:
    async def within() -> None:
        desk = Desk()
        desk.shards.lead(0, ListLog())
        await desk.shards.wait_loaded(0)
        async with asyncio.timeout(5):
            await story(desk)
        desk.shards.close()

    asyncio.run(within())


def test_any_broker_gives_ids_and_only_the_coordinator_gives_those_of_transactions() -> None:
    async def story(desk: Desk) -> None:
        alone, mine, others = await desk.init(None), await desk.init("x"), await desk.init(ELSEWHERE)

        assert (alone.error_code, alone.producer_id, alone.producer_epoch) == (ErrorCode.NONE, 100, 0)
        assert (mine.error_code, mine.producer_id, mine.producer_epoch) == (ErrorCode.NONE, 101, 0)
        assert (others.error_code, others.producer_id) == (ErrorCode.NOT_COORDINATOR, -1)

    run(story)


def test_a_transaction_begins_with_its_first_partition_and_holds_others_off_until_its_markers_are_written() -> None:
    async def story(desk: Desk) -> None:
        producer = await desk.init("x")
        assert await desk.state() == (ErrorCode.NONE, "Empty")
        assert await desk.add(producer, 0, 1) == [ErrorCode.NONE, ErrorCode.NONE]
        assert await desk.state() == (ErrorCode.NONE, "Ongoing")
        assert await desk.end(producer) is ErrorCode.NONE
        assert await desk.state() == (ErrorCode.NONE, "PrepareCommit")
        assert await desk.add(producer, 0) == [ErrorCode.CONCURRENT_TRANSACTIONS]

    run(story)


def test_one_partition_that_does_not_exist_keeps_all_of_them_out() -> None:
    async def story(desk: Desk) -> None:
        producer = await desk.init("x")

        assert await desk.add(producer, 0, 9) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await desk.state() == (ErrorCode.NONE, "Empty")

    run(story)


def test_a_producer_of_an_older_epoch_is_fenced_in_the_words_of_its_version() -> None:
    async def story(desk: Desk) -> None:
        before = await desk.init("x")
        after = await desk.init("x")

        assert (after.producer_id, after.producer_epoch) == (before.producer_id, 1)
        assert await desk.add(before, 0) == [ErrorCode.PRODUCER_FENCED]

    run(story)


def test_transactions_are_listed_with_those_who_hold_them() -> None:
    async def story(desk: Desk) -> None:
        producer = await desk.init("x")
        request = ListTransactionsRequest(state_filters=("Empty", "Odd"), producer_id_filters=())
        reply = await list_transactions.handle(request, context_of(request, 0), desk.shards)

        assert reply.unknown_state_filters == ("Odd",)
        assert [(each.transactional_id, each.producer_id) for each in reply.transaction_states] == [("x", producer.producer_id)]

    run(story)


def test_offsets_join_a_transaction_through_the_partition_of_their_group() -> None:
    class Made:
        async def ensure(self, name: str) -> None:
            return

    class Groups:
        def partition_of(self, group_id: str) -> int:
            return 7

    async def story(desk: Desk) -> None:
        topics: Any = Made()
        groups: Any = Groups()
        producer = await desk.init("x")
        request = AddOffsetsToTxnRequest(transactional_id="x", producer_id=producer.producer_id, producer_epoch=0, group_id="g")
        reply = await add_offsets_to_txn.handle(request, context_of(request, 3), topics, groups, desk.transactions)

        assert reply.error_code == ErrorCode.NONE
        held = desk.shards.serving(0).shard.get("x")
        assert held is not None
        assert {(each.topic, each.partition) for each in held.partitions} == {("__consumer_offsets", 7)}

    run(story)


def test_offsets_in_a_transaction_of_a_group_that_is_looked_after_elsewhere_are_refused_before_anything_is_asked() -> None:
    class Groups:
        def partition_of(self, group_id: str) -> int:
            return 1

        def leads(self, index: int) -> bool:
            return False

    groups: Any = Groups()
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata=None)
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=1,
        producer_epoch=0,
        topics=(TxnOffsetCommitRequestTopic(topic_id=TOPIC_ID, partitions=(partition,)),),
    )

    reply = asyncio.run(
        txn_offset_commit.handle(
            request, context_of(request, 6), lambda: image_of(HERE), groups, verification=UNTOUCHED, replicas=UNTOUCHED
        )
    )

    assert reply.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
