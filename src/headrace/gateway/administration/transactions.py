"""Transactions and the producers that partitions remember: which are open, since when, where; and ending one by force."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from headrace.client.admin.wire_admin import WireAdmin, raise_for
from headrace.client.errors import InvalidArgument
from headrace.gateway.administration.wire import on_the_wire
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations, Parameter
from headrace.gateway.api.paging import PAGE, page
from headrace.gateway.api.shapes import described
from headrace.gateway.serving.problems import Problem, not_found
from headrace.model.errors import ErrorCode
from headrace.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headrace.wire.messages.describe_transactions import DescribeTransactionsRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.list_transactions import ListTransactionsRequest
from headrace.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

operations = Operations("transactions")
STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
# Lasts until a producer takes the transactional id up again with a time-out of its own.
TIMEOUT_MS: Final = 60_000
ABORT_S: Final = 30.0
AGAIN_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class TransactionSummary:
    """A transactional id as it is listed."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionPage:
    """Some transactional ids, and where the next page begins."""

    transactions: list[TransactionSummary]
    next: str | None


@dataclass(frozen=True, slots=True)
class TransactionPlace:
    """A partition that a transaction writes to."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id with its producer, and its transaction where one is open."""

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    began_at: Annotated[int | None, described("Milliseconds since 1970; null where nothing is open.")]
    timeout_ms: int
    partitions: list[TransactionPlace]


@dataclass(frozen=True, slots=True)
class RememberedProducer:
    """A producer that a partition remembers."""

    partition: int
    producer_id: int
    epoch: int
    last_sequence: int
    last_write_at: Annotated[int | None, described("Milliseconds since 1970.")]
    open_from_offset: Annotated[int | None, described("Where its open transaction begins.")]


@dataclass(frozen=True, slots=True)
class RememberedProducers:
    """The producers of a topic."""

    topic: str
    producers: list[RememberedProducer]


@dataclass(frozen=True, slots=True)
class PartitionAbort:
    """Whose transaction ends in this one partition."""

    producer_id: Annotated[int, described("The producer.", minimum=0)]


FILTERS = (
    Parameter("state", "Only this state.", "choice", choices=STATES),
    Parameter("longer_than_ms", "Only transactions that began longer ago.", "number"),
    Parameter("producer_id", "Only this producer.", "number"),
)


@operations.get("/transactions", "List transactional ids", query=(*PAGE, *FILTERS), answer=TransactionPage)
async def list_transactions(call: Call) -> TransactionPage:
    query = call.query
    request = ListTransactionsRequest(
        state_filters=() if query["state"] is None else (query["state"],),
        producer_id_filters=() if query["producer_id"] is None else (query["producer_id"],),
        duration_filter=-1 if query["longer_than_ms"] is None else query["longer_than_ms"],
    )
    replies = await on_the_wire(call, lambda admin: admin.call_every_broker(request))
    found = []
    for broker, reply in replies.items():
        raise_for(reply.error_code, f"listing the transactions of broker {broker}")
        found += [
            TransactionSummary(each.transactional_id, each.producer_id, each.transaction_state, broker)
            for each in reply.transaction_states
        ]
    shown, following = page(found, query, lambda each: each.transactional_id)
    return TransactionPage(shown, following)


@operations.get("/transactions/{transactional_id}", "Show a transactional id", answer=Transaction)
async def show_transaction(call: Call) -> Transaction:
    name = call.path("transactional_id")
    request = DescribeTransactionsRequest(transactional_ids=(name,))
    (found,) = (await on_the_wire(call, lambda admin: admin.call_coordinator(request, name, "transaction"))).transaction_states
    if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise not_found("transaction_not_found", "There is no such transactional id.", "GET /transactions lists those there are.")
    raise_for(found.error_code, f"transactional id '{name}'")
    began = found.transaction_start_time_ms
    return Transaction(
        found.transactional_id,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        began if began >= 0 else None,
        found.transaction_timeout_ms,
        [TransactionPlace(topic.topic, index) for topic in found.topics for index in topic.partitions],
    )


@operations.post("/transactions/{transactional_id}/aborts", "Abort its open transaction", answer=Transaction)
async def abort_transaction(call: Call) -> Transaction:
    """As a new producer would that takes the id over: the transaction is aborted in all its partitions, and its producer can
    write no more."""
    found = await show_transaction(call)
    if found.state != "Ongoing":
        raise _nothing_open("This transactional id has no open transaction.")
    name = found.transactional_id
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + ABORT_S
    while True:
        reply = await on_the_wire(call, lambda admin: admin.call_coordinator(request, name, "transaction"))
        error = ErrorCode(reply.error_code)
        if not error.retriable or loop.time() > deadline:
            raise_for(error, f"transactional id '{name}'")
            return await show_transaction(call)
        await asyncio.sleep(AGAIN_S)


def _nothing_open(detail: str) -> Problem:
    return Problem(409, "no_open_transaction", detail, "GET it again: it may have ended meanwhile.")


OPEN = Parameter("open", "Only producers with an open transaction.", "boolean", default=False)


@operations.get(
    "/topics/{topic}/producers",
    "Show the producers that a topic's partitions remember",
    query=(OPEN,),
    answer=RememberedProducers,
)
async def list_producers(call: Call) -> RememberedProducers:
    topic = call.path("topic")
    partitions = sorted(await call.caller.cluster.leaders(topic))
    found = await on_the_wire(call, lambda admin: list(_producers(admin, topic, partitions)))
    shown = [_producer(index, state) for index, state in found]
    return RememberedProducers(topic, [each for each in shown if each.open_from_offset is not None or not call.query["open"]])


def _producers(admin: WireAdmin, topic: str, partitions: Iterable[int]) -> Iterable[tuple[int, Any]]:
    for index in partitions:
        request = DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=(index,)),))
        (answer,) = admin.call_leader(request, topic, index).topics[0].partitions
        raise_for(answer.error_code, f"partition {index} of topic '{topic}'", answer.error_message)
        for state in sorted(answer.active_producers, key=lambda state: state.producer_id):
            yield index, state


def _producer(index: int, state: Any) -> RememberedProducer:
    return RememberedProducer(
        index,
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp if state.last_timestamp >= 0 else None,
        state.current_txn_start_offset if state.current_txn_start_offset >= 0 else None,
    )


@operations.post("/topics/{topic}/partitions/{partition}/aborts", "Abort a transaction in one partition", body=PartitionAbort)
async def abort_in_partition(call: Call) -> None:
    """For a transaction that hangs there and holds up readers, and of which the coordinator knows nothing any more."""
    topic, partition, producer_id = call.path("topic"), call.number("partition"), call.body.producer_id
    if partition > 2**31 - 1:
        raise InvalidArgument("there is no such partition")
    found = await on_the_wire(call, lambda admin: list(_producers(admin, topic, [partition])))
    state = next((each for _, each in found if each.producer_id == producer_id and each.current_txn_start_offset >= 0), None)
    if state is None:
        raise _nothing_open("This producer has no open transaction in this partition.")
    marker = WritableTxnMarker(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name=topic, partition_indexes=(partition,)),),
        # The partition has not heard of any coordinator of this producer when it never ended a transaction here.
        coordinator_epoch=max(state.coordinator_epoch, 0),
    )
    reply = await on_the_wire(call, lambda admin: admin.call_leader(WriteTxnMarkersRequest(markers=(marker,)), topic, partition))
    raise_for(reply.markers[0].topics[0].partitions[0].error_code, f"partition {partition} of topic '{topic}'")
