"""`headrace consume`: read a topic and print it.

Without --follow it ends at what was the end when it began.  Without --group it reads by itself and leaves no trace on the broker;
with one it takes its share of the partitions and commits what it has printed, after it has printed it.
Expired records are never shown.
"""

import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.connection import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Properties,
    TopicName,
    chosen_partitions,
    consumer_client,
    existing_topic,
    open_admin,
    position_given,
)
from headrace.cli.failure import Failure
from headrace.cli.topics.record_format import Line, line_format
from headrace.model.names import UNGROUPED
from headrace.model.time_to_live import is_expired

if TYPE_CHECKING:
    from headrace.client.admin.admin import Admin
    from headrace.client.librdkafka import Consumer
    from headrace.client.positions import Position

POLL_S = 0.1
MESSAGES_PER_POLL = 500
COMMIT_EVERY_S = 1.0


def consume(
    topic: TopicName,
    start: Annotated[
        str | None,
        typer.Option("--from", "-f", metavar="PLACE", help="earliest (the default), latest, an offset, or an ISO timestamp."),
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Only this partition.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after this many records.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more at the end; Ctrl-C stops.")] = False,
    format: Annotated[
        str,
        typer.Option("--format", help="value, key-value, full, json, received, or a template: '{partition}:{offset} {value}'."),
    ] = "value",
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Read as a member of this group and commit what was printed.")
    ] = None,
    consumer_id: Annotated[str | None, typer.Option("--consumer-id", help="The name that --format received prints.")] = None,
    uncommitted: Annotated[bool, typer.Option("--uncommitted", help="Also records of open and aborted transactions.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line: --format json.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Print a topic's records.

    Examples:

      headrace consume orders                       # everything, then stop

      headrace consume orders --from 2026-05-01T08:00 --follow

      headrace consume orders --from latest --follow --format full

      headrace consume orders --group billing --follow --format received
    """
    if group is not None and partition is not None:
        raise typer.BadParameter("--partition cannot go with --group: the group decides who reads which partition.")
    name = consumer_id or f"consumer-{os.getpid()}"
    line = line_format("json" if as_json else format, name)
    position = position_given(start) if start is not None else None
    admin = open_admin(bootstrap, property)
    found = existing_topic(admin, topic)
    settings: dict[str, Any] = {
        "group_id": group or UNGROUPED,
        "client_id": name,
        "enable_auto_commit": False,
        "enable_auto_offset_store": False,
        "enable_partition_eof": True,
        "auto_offset_reset": "latest" if position is not None and position.kind == "latest" else "earliest",
        "isolation_level": "read_uncommitted" if uncommitted else "read_committed",
        # librdkafka's own 1 s pause when its queue is full would be the limit for small records.
        "fetch_queue_backoff_ms": 5,
    }
    consumer = consumer_client(bootstrap, property, **settings)
    printer = Printer(consumer, line, bootstrap, limit=count, commits=group is not None)
    try:
        if group is not None:
            _join(consumer, admin, topic, position)
            printer.ends = None if follow else {}
        else:
            ends = assign_at(consumer, admin, topic, chosen_partitions(found, partition), position)
            printer.ends = None if follow else ends
        printer.run()
    except KeyboardInterrupt:
        raise typer.Exit(0 if follow else 130) from None  # Ctrl-C is how --follow is meant to end
    finally:
        printer.finish()


def assign_at(
    consumer: "Consumer", admin: "Admin", topic: str, partitions: list[int], position: "Position | None"
) -> dict[int, int]:
    """Start every chosen partition at its position; the offsets at which they end now."""
    from confluent_kafka import TopicPartition as ClientPartition

    from headrace.client.positions import EARLIEST, ranges, resolve
    from headrace.model.identity import TopicPartition

    position = position or EARLIEST
    chosen = [TopicPartition(topic, number) for number in partitions]
    limits = ranges(admin, chosen)
    starts = resolve(admin, dict.fromkeys(chosen, position))
    for at, offset in starts.items():
        low, high = limits[at]
        if position.kind == "offset" and len(chosen) == 1 and not low <= offset <= high:
            raise Failure(f"offset {offset} is outside of {topic} partition {at.partition}, which has {low} to {high}.")
        starts[at] = min(max(offset, low), high)
    consumer.assign([ClientPartition(*at, offset) for at, offset in starts.items()])
    return {at.partition: high for at, (_, high) in limits.items() if starts[at] < high}


def _join(consumer: "Consumer", admin: "Admin", topic: str, position: "Position | None") -> None:
    """Subscribe as a member; a position given by hand goes before the group's committed offsets."""
    from headrace.client.positions import resolve
    from headrace.model.identity import TopicPartition

    def assigned(member: "Consumer", partitions: list[Any]) -> None:
        if position is None:
            return
        starts = resolve(admin, {TopicPartition(at.topic, at.partition): position for at in partitions})
        for at in partitions:
            at.offset = starts[TopicPartition(at.topic, at.partition)]
        member.assign(partitions)

    consumer.subscribe([topic], on_assign=assigned)


class Printer:
    """Prints what arrives until there is nothing more to wait for."""

    def __init__(self, consumer: "Consumer", line: Line, bootstrap: str, *, limit: int | None, commits: bool) -> None:
        self.consumer = consumer
        self.line = line
        self.bootstrap = bootstrap
        self.left = limit
        self.commits = commits
        # partition -> the offset at which it ended when we began.  None: follow for ever.
        # Empty in a group: every assigned partition to its end.
        self.ends: dict[int, int] | None = None
        self.reached: set[int] = set()
        self.uncommitted: dict[int, Any] = {}
        self.next_commit = time.monotonic() + COMMIT_EVERY_S

    def run(self) -> None:
        from headrace.client.librdkafka import attempt

        if self.ends == {} and not self.commits:
            return
        while not self._done():
            messages = attempt("read", self.bootstrap, lambda: self.consumer.consume(MESSAGES_PER_POLL, timeout=POLL_S))
            for message in messages:
                self._take(message)
                if self.left == 0:
                    break
            sys.stdout.buffer.flush()
            if time.monotonic() >= self.next_commit:
                self._commit()

    def _done(self) -> bool:
        if self.left == 0:
            return True
        if self.ends is None:
            return False
        if self.ends:
            return self.reached.issuperset(self.ends)
        assigned = {at.partition for at in self.consumer.assignment()}
        return bool(assigned) and self.reached.issuperset(assigned)

    def _take(self, message: Any) -> None:
        from confluent_kafka import KafkaError

        from headrace.client.errors import GROUP_REFUSED, NO_TOPIC, passes, translate

        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self.reached.add(message.partition())
            elif not self.commits and error.name() == GROUP_REFUSED:
                return
            elif error.name() in NO_TOPIC or not passes(error):
                raise translate(error, "read", self.bootstrap)
            return
        number, offset = message.partition(), message.offset()
        if self.ends and offset >= self.ends.get(number, offset + 1):
            self.reached.add(number)  # written after we began
            return
        if self.ends and offset + 1 == self.ends.get(number):
            self.reached.add(number)
        self._print(message)
        if self.commits:
            self.uncommitted[number] = message

    def _print(self, message: Any) -> None:
        if is_expired(message.headers() or (), message.timestamp()[1], time.time_ns() // 1_000_000):
            return
        sys.stdout.buffer.write(self.line(message) + b"\n")
        if self.left is not None:
            self.left -= 1

    def _commit(self) -> None:
        from headrace.client.librdkafka import attempt

        self.next_commit = time.monotonic() + COMMIT_EVERY_S
        printed, self.uncommitted = self.uncommitted, {}
        for message in printed.values():
            attempt("commit offsets", self.bootstrap, partial(self.consumer.commit, message=message, asynchronous=False))

    def finish(self) -> None:
        """Commit what was printed, leave the group, let go of the connection."""
        try:
            sys.stdout.buffer.flush()
            self._commit()
        finally:
            self.consumer.close()
