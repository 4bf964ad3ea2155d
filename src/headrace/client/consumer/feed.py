"""What a consumer is inside: the reader, the membership and the offsets as one thing that can be handed around.

Consumer is the face of it for people; push, asyncio, transactions and exactly_once are built on this instead, so that what only
they need is not a method of Consumer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from confluent_kafka import Message

from headrace.client.consumer.offsets import Positions
from headrace.client.consumer.reading import SLICE_S, Reader
from headrace.client.errors import Closed, WrongState
from headrace.client.lifetimes import watch
from headrace.client.records.record import Record, Records
from headrace.client.security.connecting import Way
from headrace.model.identity import TopicPartition

if TYPE_CHECKING:
    from headrace.client.consumer.consumer import Consumer
    from headrace.client.tracing.handling import Handling
    from headrace.client.tracing.spans import Spans


class Feed:
    def __init__(self, reader: Reader, *, way: Way, group: str | None, timeout: float, spans: Spans | None = None) -> None:
        self.reader = reader
        self.membership = reader.membership
        self.offsets = reader.membership.offsets
        self.starting_point = reader.starting_point
        self.way = way
        self.group = group
        self.timeout = timeout
        self.closed = False
        self._closed_because = "this consumer is closed; open a new one to read more"
        self.spans = self.membership.spans = spans
        self.handling: Handling | None = None
        if spans is not None:
            from headrace.client.tracing.handling import Handling

            self.handling = Handling(spans)
        watch(self)

    # What may be done now

    def check_open(self) -> None:
        if self.closed or self.reader.stopping:
            raise Closed(self._closed_because)

    def check_grouped(self, call: str) -> None:
        self.check_open()
        if self.group is None:
            raise WrongState(f"{call}() needs a group, under whose name offsets are kept: Consumer(…, group='…')")

    def ready(self) -> None:
        """Wait until it is known which partitions are ours."""
        self.check_open()
        self.reader.wait_for_assignment()

    def at_exit(self) -> None:
        """Nothing: what is not committed is read again."""

    def after_fork(self) -> None:
        """In a child of the process that opened it, where it is of no use."""
        self.closed = True
        self._closed_because = "this consumer was opened before a fork, and works only in the process that opened it"

    # Handing out, with spans where there are any

    def finish(self) -> None:
        """Whoever asks for more has done with what they got."""
        self.end_handling()
        self.offsets.finish_handed_out()

    def next_traced(self, timeout: float | None) -> Record[Any, Any] | None:
        self.end_handling()
        record = self.reader.next(timeout)
        if record is not None and self.handling is not None:
            self.handling.begin((record,), single=True)
        return record

    def traced(self, records: Records[Any, Any], *, single: bool = False) -> Records[Any, Any]:
        """The same records; from now on somebody works on them."""
        if self.handling is not None:
            self.handling.begin(records, single=single)
        return records

    def end_handling(self, error: BaseException | None = None) -> None:
        if self.handling is not None:
            self.handling.end(error)

    # For asyncio

    def finish_handed_out(self) -> None:
        self.check_open()
        self.finish()

    def fetch_ready(self, size: int, timeout: float | None) -> None:
        """Fetch, and hand nothing out: what a cancelled call has fetched is there for the next."""
        self.reader.fill(SLICE_S if timeout is None else max(0.0, min(SLICE_S, timeout)), size, on_top=True)

    def take_ready(self, size: int, *, single: bool) -> Records[Any, Any]:
        return self.traced(self.reader.take(size), single=single)

    # For push

    def begin_push(self, before_revoke: Callable[[frozenset[TopicPartition]], None]) -> None:
        self.membership.before_revoke = before_revoke
        # Records pushed finish in any order: going back to the last one handed out could hand out a finished one twice.
        self.membership.commits_handed_out = False

    def take_for_push(self, count: int, wait: float) -> list[Message]:
        """Messages not counted as handed out: push has a book-keeping of its own."""
        self.check_open()
        self.reader.fill(wait, count)
        return self.reader.take_messages(count)

    def end_push(self, unfinished: Positions) -> None:
        """Read on from the first record that is not finished, and commit up to there."""
        self.membership.before_revoke = None
        if self.membership.commits_when_finished:
            self.membership.commit_finished(wait=True, quietly=True)
        if not self.reader.stopping:
            assigned = self.membership.assigned
            self.reader.move({place: offset for place, offset in unfinished.items() if place in assigned}, counts=False)

    # For transactions and exactly_once

    def group_metadata(self) -> Any:
        """What a transactional producer needs to commit on this member's behalf."""
        self.check_grouped("send_offsets")
        with self.membership.lock:
            return self.membership.client.consumer_group_metadata()

    def rewind_to_committed(self) -> None:
        """Read again what was handed out since the last commit."""
        touched = self.offsets.positions().keys() & self.membership.assigned
        committed = self.membership.committed(touched, self.timeout)
        self.reader.move({**self.reader.beginnings(touched - committed.keys()), **committed})
        self.offsets.reset(touched)

    def commit_in_background(self) -> None:
        """A database has the truth: let Kafka's own offsets follow, so that lag can be seen."""
        self.membership.commits_when_finished = True


def feed_of(consumer: Consumer[Any, Any]) -> Feed:
    """The inside of a consumer, for what is built on top of it."""
    return consumer._feed
