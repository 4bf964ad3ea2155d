"""Each record's effect once in a SQL database, whatever crashes: the writes of a handler and the offset commit together.

The offsets live in a table beside the data.  A transaction first claims its records by moving the offset from the value
this reader knows to the next, then runs the handler, then commits.  Always: an offset in the table says that the effects of
everything below it are in the database, and of nothing above; a reader that was overtaken finds the offset moved, rolls
back, and reads on from there. Kafka's own committed offsets follow behind, for the tools that show lag; nothing depends on
them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Generic, Protocol

from headrace.client.arguments import Duration, seconds, whole_number
from headrace.client.consumer.consumer import Consumer
from headrace.client.consumer.feed import feed_of
from headrace.client.consumer.offsets import Positions
from headrace.client.deadletter.deadletter import DeadLetters, Failure, parking_of
from headrace.client.errors import DecodeFailed, InvalidArgument
from headrace.client.exactly_once.offset_table import OffsetTable, Overtaken
from headrace.client.logs import log
from headrace.client.push.handlers import NothingDone, plain_function, refuse_unrun
from headrace.client.records.record import Record
from headrace.client.records.type_variables import K, V
from headrace.model.identity import TopicPartition

POLL_S = 0.1
Handler = Callable[[Record[K, V], Any], object]


class Connection(Protocol):
    """What PEP 249 says a connection has."""

    def cursor(self) -> Any: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...


def exactly_once(
    consumer: Consumer[K, V], connection: Connection, *, table: str = "headrace_offsets", paramstyle: str | None = None
) -> ExactlyOnce[K, V]:
    """Bind a consumer to a database: the effects of a record and its offset are committed together.

    Args:
        consumer: One with a group and `delivery="exactly_once"`.
        connection: A DB-API connection (PEP 249) that does not commit by itself.
        table: Where the offsets are kept; it is created when it does not exist.
        paramstyle: How the database marks parameters (`"qmark"`, `"format"`, …), where the connection's module does not say.
    """
    if not isinstance(consumer, Consumer) or consumer.delivery != "exactly_once":
        given = f" has delivery={consumer.delivery!r}" if isinstance(consumer, Consumer) else f"={consumer!r} is not accepted"
        raise InvalidArgument(f"consumer{given}; accepted: a Consumer with delivery='exactly_once'")
    for method in ("cursor", "commit", "rollback"):
        if not callable(getattr(connection, method, None)):
            raise InvalidArgument(
                f"connection={connection!r} has no {method}(); accepted: a connection as of Python's DB-API (PEP 249)"
            )
    by_itself = _is_sqlite(connection) and getattr(connection, "isolation_level", "") is None
    if by_itself or getattr(connection, "autocommit", False) is True:
        raise InvalidArgument("connection commits by itself (autocommit); accepted: one whose changes wait for commit()")
    return ExactlyOnce(
        consumer, connection, OffsetTable(connection, table, consumer.group or "", paramstyle or paramstyle_of(connection))
    )


class ExactlyOnce(Generic[K, V]):
    """Runs handlers, or lends a transaction to a loop of one's own."""

    def __init__(self, consumer: Consumer[K, V], connection: Connection, table: OffsetTable) -> None:
        self._consumer = consumer
        self._feed = feed_of(consumer)
        self._connection = connection
        self._table = table
        self._known: Positions = {}  # what the table says, as far as this reader knows; -1 when nothing yet
        table.create()
        self._feed.reader.offset_source = self._positions_from_table

    def run(
        self,
        handler: Handler[K, V],
        *,
        batch: int = 100,
        timeout: Duration | None = None,
        dead_letters: DeadLetters | None = None,
    ) -> int:
        """Call `handler(record, cursor)` for each record, up to `batch` of them in one transaction; answers how many.

        Ends when no record has come for `timeout` since the group has formed, or when the consumer is closed.  An exception of
        the handler rolls its transaction back and comes out here, with the records before it committed; with `dead_letters` (or
        the consumer's own) the record is tried again and at last parked instead.
        """
        plain_function("handler", handler, "a Record and a cursor")
        whole_number("batch", batch, at_least=1)
        limit = None if timeout is None else seconds("timeout", timeout)
        letters = self._consumer.dead_letters if dead_letters is None else dead_letters
        self._feed.reader.wait_until_joined()
        count, quiet_since = 0, time.monotonic()
        while not self._feed.reader.stopping:
            done = self._next_batch(batch, handler, letters)
            if done is not None:
                count += done
                quiet_since = time.monotonic()
            elif limit is not None and time.monotonic() - quiet_since >= limit:
                break
        return count

    def _next_batch(self, size: int, handler: Handler[K, V], letters: DeadLetters | None) -> int | None:
        """How many records were handled; None when there were none to handle."""
        try:
            records = self._consumer.batch(size, POLL_S)
        except DecodeFailed as failure:
            return self._pass_over_undecodable(failure, letters)
        if not records:
            return None
        try:
            return self._handle(records, handler, letters)
        except BaseException as error:
            if isinstance(error, Overtaken):
                log.info("%s; reading on from there", error)
            self._read_again(records, error)
            if isinstance(error, Overtaken):
                return 0
            raise

    def _handle(self, records: Sequence[Record[K, V]], handler: Handler[K, V], letters: DeadLetters | None) -> int:
        try:
            with self._claimed(records) as cursor:
                for record in records:
                    _call(handler, record, cursor)
            return len(records)
        except (Overtaken, NothingDone):
            raise
        except Exception:
            if len(records) == 1 and letters is None:
                raise
        # Which of them failed shows when each has a transaction of its own.
        count = 0
        for record in records:
            count += self._handle_alone(record, handler, letters)
            if self._stopped_before(record):
                break  # the claim of a later record would pass over it
        return count

    def _stopped_before(self, record: Record[K, V]) -> bool:
        """Whether a record is neither handled nor parked: the consumer was closed while its dead-letter topic was away."""
        return self._known.get(record.topic_partition, -1) <= record.offset

    def _handle_alone(self, record: Record[K, V], handler: Handler[K, V], letters: DeadLetters | None) -> int:
        failure: Failure | None = None
        while True:
            try:
                with self._claimed([record]) as cursor:
                    _call(handler, record, cursor)
                return 1
            except (Overtaken, NothingDone):
                raise
            except Exception as error:
                if letters is None:
                    raise
                failure = Failure.again(error, failure)
                wait = parking_of(letters).wait_after(failure)
            if wait is None:
                self._park(record, failure, letters)
                return 0
            time.sleep(wait)

    def _pass_over_undecodable(self, failure: DecodeFailed, letters: DeadLetters | None) -> int:
        if letters is None:
            # Without a claim its offset is not in the table: it is handed out again, and cannot be missed.
            self._read_again([failure.record], failure)
            raise failure
        self._park(failure.record, Failure.again(failure, None), letters)
        return 0

    def _park(self, record: Record[Any, Any], failure: Failure, letters: DeadLetters) -> None:
        """Parked first, then passed over: a crash in between parks it twice, and never loses it."""
        consumer = self._consumer
        parked = parking_of(letters).park_and_wait(
            record, failure, way=self._feed.way, group=consumer.group, give_up=lambda: self._feed.reader.stopping
        )
        if parked:
            with self._claimed([record]):
                pass

    @contextmanager
    def transaction(self, records: Sequence[Record[K, V]]) -> Iterator[Any]:
        """A `with` block that gives a cursor; the block's writes and the offsets of `records` commit together at its end.

        `records` are all that were handed out since the last transaction.  An exception rolls both back, and the consumer hands
        the records out again.
        """
        try:
            with self._claimed(records) as cursor:
                yield cursor
        except BaseException as error:
            self._read_again(records, error)
            raise

    @contextmanager
    def _claimed(self, records: Sequence[Record[Any, Any]]) -> Iterator[Any]:
        ends = {record.topic_partition: record.offset + 1 for record in records}
        try:
            cursor = self._connection.cursor()
            self._claim(cursor, ends)
            yield cursor
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise
        self._known.update(ends)
        self._feed.offsets.finish(ends)
        self._feed.commit_in_background()

    def _claim(self, cursor: Any, ends: Positions) -> None:
        for place in sorted(ends):
            known = self._known.get(place)
            if known is None or known >= ends[place]:
                raise Overtaken(
                    f"{place.topic}[{place.partition}] has been taken over by another reader of group '{self._consumer.group}'"
                )
            self._table.move(cursor, place, known, ends[place])
        self._table.check_transaction_is_open()

    def _read_again(self, records: Sequence[Record[Any, Any]], error: BaseException) -> None:
        reader = self._feed.reader
        mine = frozenset(record.topic_partition for record in records) & reader.membership.assigned
        if mine and isinstance(error, Exception) and not reader.stopping:
            positions = self._positions_from_table(frozenset(mine))
            reader.move({**reader.beginnings(mine - positions.keys()), **positions})

    def _positions_from_table(self, places: frozenset[TopicPartition]) -> Positions:
        """Where to read these partitions from.  In the reader's thread, as a connection may not be shared between threads."""
        self._known = {place: offset for place, offset in self._known.items() if place in self._feed.reader.membership.assigned}
        for place in places:
            self._known[place] = self._table.read_or_begin(place)
        return {place: self._known[place] for place in places if self._known[place] >= 0}


def _call(handler: Handler[K, V], record: Record[K, V], cursor: Any) -> None:
    returned = handler(record, cursor)
    if isinstance(returned, Future):
        raise NothingDone(
            "handler returned a Future, whose work may outlive the transaction; accepted: a function that has done its work"
        )
    refuse_unrun("handler", returned)


def _is_sqlite(connection: object) -> bool:
    return any(base.__module__.split(".")[0] == "sqlite3" for base in type(connection).__mro__)


def paramstyle_of(connection: object) -> str:
    """How the connection's module writes parameters."""
    for base in type(connection).__mro__:
        module = sys.modules.get(base.__module__.split(".")[0])
        if (style := getattr(module, "paramstyle", None)) is not None:
            return str(style)
    raise InvalidArgument(
        "paramstyle cannot be told from the connection; accepted: 'qmark', 'format', 'pyformat', 'numeric' or 'named'"
    )
