"""`headrace transaction` and `headrace producer`: which transactions are open, who writes where, and how to end one by force.

librdkafka has no calls for these; they go over the wire by hand.
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, TopicName, Yes, open_wire_admin
from headrace.cli.failure import Failure
from headrace.cli.output import confirm, iso_time, remark, show_json, show_table

if TYPE_CHECKING:
    from headrace.client.admin.wire_admin import WireAdmin

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Transactions: which are open, since when, and where.")
producer_app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Producers that partitions remember.")

ABORT_SECONDS_MAX = 30.0
RETRY_S = 0.2
# Lasts until a producer takes the transactional id up again with a time-out of its own.
TIMEOUT_MS = 60_000

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
States = Annotated[
    list[str] | None,
    typer.Option("--state", "-s", metavar="STATE", help="Only this state, such as Ongoing or PrepareCommit; may be repeated."),
]
ProducerIds = Annotated[
    list[int] | None, typer.Option("--producer-id", "-p", metavar="ID", help="Only this producer; may be repeated.")
]
MinimumAge = Annotated[
    float | None, typer.Option("--longer-than", metavar="SECONDS", help="Only transactions that began longer ago than this.")
]
Pattern = Annotated[str | None, typer.Option("--pattern", metavar="REGEX", help="Only transactional ids that match as a whole.")]
TransactionalIds = Annotated[list[str], typer.Argument(metavar="TRANSACTIONAL_ID...", help="The transactional ids.")]


@app.command("list", epilog="Example: [bold]headrace transaction list --state Ongoing --longer-than 60[/bold]")
def list_transactions(
    state: States = None,
    producer_id: ProducerIds = None,
    longer_than: MinimumAge = None,
    pattern: Pattern = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List the transactional ids of the cluster and what state each is in."""
    from headrace.client.admin.wire_admin import raise_for
    from headrace.wire.messages.list_transactions import ListTransactionsRequest

    request = ListTransactionsRequest(
        state_filters=tuple(state or ()),
        producer_id_filters=tuple(producer_id or ()),
        duration_filter=-1 if longer_than is None else int(longer_than * 1000),
        transactional_id_pattern=pattern,
    )
    rows = []
    with open_wire_admin(bootstrap) as admin:
        for broker, reply in admin.call_every_broker(request).items():
            raise_for(reply.error_code, f"listing the transactions of broker {broker}")
            if reply.unknown_state_filters:
                raise typer.BadParameter(
                    f"there is no state {', '.join(reply.unknown_state_filters)}. There are {', '.join(STATES)}.",
                    param_hint="--state",
                )
            rows += [
                {
                    "transactional id": found.transactional_id,
                    "producer id": found.producer_id,
                    "state": found.transaction_state,
                    "coordinator": broker,
                }
                for found in reply.transaction_states
            ]
    rows.sort(key=lambda row: str(row["transactional id"]))
    _show(rows, as_json, "There are no such transactions.")


@app.command(epilog="Example: [bold]headrace transaction describe billing-1[/bold]")
def describe(transactional_id: TransactionalIds, as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Show transactions in full: producer, age, time-out and the partitions they hold."""
    with open_wire_admin(bootstrap) as admin:
        rows = [_description(_described(admin, each)) for each in transactional_id]
    _show(rows, as_json, "")


def _described(admin: "WireAdmin", transactional_id: str) -> Any:
    from headrace.model.errors import ErrorCode
    from headrace.wire.messages.describe_transactions import DescribeTransactionsRequest

    request = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
    (found,) = admin.call_coordinator(request, transactional_id, "transaction").transaction_states
    if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise Failure(f"there is no transactional id {transactional_id}. `headrace transaction list` shows those there are.")
    if found.error_code != ErrorCode.NONE:
        raise Failure(f"describing {transactional_id} failed: {ErrorCode(found.error_code).name}.")
    return found


def _description(found: Any) -> dict[str, object]:
    started = found.transaction_start_time_ms
    return {
        "transactional id": found.transactional_id,
        "state": found.transaction_state,
        "producer id": found.producer_id,
        "epoch": found.producer_epoch,
        "began": iso_time(started) if started >= 0 else None,
        "seconds": _seconds_since(started) if found.transaction_state == "Ongoing" and started >= 0 else None,
        "timeout ms": found.transaction_timeout_ms,
        "partitions": [f"{topic.topic}-{index}" for topic in found.topics for index in topic.partitions],
    }


def _seconds_since(started_ms: int) -> int:
    return max(0, int(time.time() - started_ms / 1000))


@app.command(
    epilog="Examples: [bold]headrace transaction abort billing-1[/bold], "
    "[bold]headrace transaction abort --topic orders --partition 3 --producer-id 4711[/bold]"
)
def abort(
    transactional_id: Annotated[
        str | None, typer.Argument(metavar="[TRANSACTIONAL_ID]", help="The transaction's id; its producer is fenced, too.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="End a transaction in one partition of this topic instead.")
    ] = None,
    partition: Annotated[int, typer.Option("--partition", min=0, help="The partition, with --topic.")] = 0,
    producer_id: Annotated[int | None, typer.Option("--producer-id", help="Whose transaction, with --topic.")] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Abort an open transaction.

    By its transactional id, in all its partitions, as a new producer would that takes the id over; or, where the coordinator
    knows nothing of it any more, in the one partition in which it hangs and holds up readers.
    """
    if (transactional_id is None) == (topic is None):
        raise typer.BadParameter("give either a transactional id or --topic.")
    with open_wire_admin(bootstrap) as admin:
        if transactional_id is not None:
            _abort_by_id(admin, transactional_id, yes=yes)
        elif topic is not None:
            _abort_in_partition(admin, topic, partition, producer_id, yes=yes)


def _abort_by_id(admin: "WireAdmin", transactional_id: str, *, yes: bool) -> None:
    from headrace.model.errors import ErrorCode
    from headrace.wire.messages.init_producer_id import InitProducerIdRequest

    found = _described(admin, transactional_id)
    if found.transaction_state != "Ongoing":
        raise Failure(f"{transactional_id} is {found.transaction_state}: there is no open transaction to abort.")
    confirm(f"Abort the transaction of {transactional_id} and fence its producer {found.producer_id}?", yes=yes)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)
    deadline = time.monotonic() + ABORT_SECONDS_MAX
    while True:
        error = ErrorCode(admin.call_coordinator(request, transactional_id, "transaction").error_code)
        if error is ErrorCode.NONE:
            remark(f"The transaction of {transactional_id} is aborted and its producer is fenced.")
            return
        if not error.retriable or time.monotonic() > deadline:
            raise Failure(f"aborting {transactional_id} failed: {error.name}.")
        time.sleep(RETRY_S)


def _abort_in_partition(admin: "WireAdmin", topic: str, partition: int, producer_id: int | None, *, yes: bool) -> None:
    from headrace.client.admin.wire_admin import raise_for
    from headrace.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

    state = _open_in(admin, topic, partition, producer_id)
    confirm(
        f"Abort the transaction of producer {state.producer_id} in {topic}-{partition}, open from offset "
        f"{state.current_txn_start_offset}?",
        yes=yes,
    )
    marker = WritableTxnMarker(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name=topic, partition_indexes=(partition,)),),
        # The partition has not heard of any coordinator of this producer when it never ended a transaction here.
        coordinator_epoch=max(state.coordinator_epoch, 0),
    )
    reply = admin.call_leader(WriteTxnMarkersRequest(markers=(marker,)), topic, partition)
    raise_for(reply.markers[0].topics[0].partitions[0].error_code, f"aborting in {topic}-{partition}")
    remark(f"The transaction of producer {state.producer_id} in {topic}-{partition} is aborted.")


def _open_in(admin: "WireAdmin", topic: str, partition: int, producer_id: int | None) -> Any:
    open_here = [
        state
        for _, state in _producers(admin, topic, [partition])
        if state.current_txn_start_offset >= 0 and producer_id in (None, state.producer_id)
    ]
    if not open_here:
        raise Failure(
            f"no such transaction is open in {topic}-{partition}. `headrace producer list {topic}` shows who writes there."
        )
    if len(open_here) > 1:
        choices = ", ".join(str(state.producer_id) for state in open_here)
        raise Failure(f"several transactions are open in {topic}-{partition}: choose with --producer-id one of {choices}.")
    return open_here[0]


@producer_app.command("list", epilog="Example: [bold]headrace producer list orders --open[/bold]")
def list_producers(
    topic: TopicName,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Only this partition.")] = None,
    only_open: Annotated[bool, typer.Option("--open", help="Only producers with an open transaction.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List the idempotent and transactional producers that a topic's partitions remember."""
    with open_wire_admin(bootstrap) as admin:
        indexes = _partitions_of(admin, topic) if partition is None else [partition]
        rows = [
            {
                "partition": index,
                "producer id": state.producer_id,
                "epoch": state.producer_epoch,
                "last sequence": state.last_sequence,
                "last write": iso_time(state.last_timestamp) if state.last_timestamp >= 0 else None,
                "open from offset": state.current_txn_start_offset if state.current_txn_start_offset >= 0 else None,
            }
            for index, state in _producers(admin, topic, indexes)
            if state.current_txn_start_offset >= 0 or not only_open
        ]
    _show(rows, as_json, f"No producer of {topic} is remembered.")


def _partitions_of(admin: "WireAdmin", topic: str) -> list[int]:
    from headrace.client.admin.wire_admin import raise_for

    (found,) = admin.metadata(topics=(topic,)).topics
    raise_for(found.error_code, f"topic {topic}")
    return sorted(partition.partition_index for partition in found.partitions)


def _producers(admin: "WireAdmin", topic: str, partitions: list[int]) -> Iterator[tuple[int, Any]]:
    from headrace.client.admin.wire_admin import raise_for
    from headrace.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest

    for index in partitions:
        request = DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=(index,)),))
        (answer,) = admin.call_leader(request, topic, index).topics[0].partitions
        raise_for(answer.error_code, f"{topic}-{index}", answer.error_message)
        for state in sorted(answer.active_producers, key=lambda state: state.producer_id):
            yield index, state


def _show(rows: list[dict[str, object]], as_json: bool, none: str) -> None:
    if as_json:
        show_json([{name.replace(" ", "_"): value for name, value in row.items()} for row in rows])
    elif rows:
        show_table(tuple(rows[0]), [tuple(row.values()) for row in rows])
    else:
        remark(none)
