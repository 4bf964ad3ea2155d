"""Reading records: by iteration, one at a time, in batches, or pushed to a callback.

Requesting the next record marks the previous one as processed: `at_least_once` commits what is finished, in the background
and when partitions are given up; `at_most_once` commits before a record is handed out; `exactly_once` commits nothing by
itself, because the offsets belong into a transaction.  Always: what is handed out of a partition is in order, without gaps,
and starts where the group left off; a record whose time to live has run out is never shown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, Unpack

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END
from confluent_kafka import TopicPartition as ClientPartition

from headrace.client.arguments import (
    Config,
    Duration,
    Moment,
    choice,
    offsets_by_partition,
    seconds,
    topic_partition,
    topic_partitions,
    whole_number,
)
from headrace.client.consumer.feed import Feed
from headrace.client.consumer.membership import Membership, PartitionsCallback
from headrace.client.consumer.offsets import Positions
from headrace.client.consumer.reading import SLICE_S, Reader
from headrace.client.consumer.settings import COOPERATIVE, DELIVERIES, Start, check_start, configuration, topics_or_partitions
from headrace.client.consumer.starting_point import StartingPoint
from headrace.client.consumer.wanted import Wanted
from headrace.client.contact import FirstContact
from headrace.client.deadletter.deadletter import DeadLetters, check_dead_letters
from headrace.client.errors import DecodeFailed, InvalidArgument, WrongState
from headrace.client.logs import log
from headrace.client.push.handlers import plain_function_or_none
from headrace.client.records.record import Record, Records
from headrace.client.records.serialization import Codec, Format, codec
from headrace.client.records.type_variables import K, V
from headrace.client.security.connecting import way_to
from headrace.client.security.options import SecurityOptions, check_names
from headrace.client.tracing.switch import Tracing, spans_for
from headrace.model.identity import TopicPartition

if TYPE_CHECKING:
    from headrace.client.push.threads import Subscription

Delivery = Literal["at_most_once", "at_least_once", "exactly_once"]


class Consumer(Generic[K, V]):
    """Reads topics, alone or as a member of a group.  Use it in a `with` block; read from one thread at a time.

    Durations are seconds or a timedelta.  An argument that is not accepted raises InvalidArgument, which names it.

    Args:
        topics: A topic, several, patterns that begin with `^`, or single partitions as TopicPartition.
        bootstrap: `host:port`, or several; else `HEADRACE_BOOTSTRAP` from the environment, else 127.0.0.1:9092.
        group: Members of a group share the partitions, and go on where the group left off.  Without one all partitions are read,
            and nothing is committed.
        start: Where to begin in a partition for which the group has committed nothing: `"earliest"`, `"latest"`, an offset, or a
            datetime.
        delivery: When an offset is committed: before a record is handed out (`"at_most_once"`), after it is finished
            (`"at_least_once"`), or inside a transaction (`"exactly_once"`).
        keys: How keys are read: `bytes`, `str`, `"json"`, Avro, JsonSchema or Protobuf by a schema, or a pair of
            callables (encode, decode).
        values: The same for values.
        isolation: `"read_committed"` shows nothing of a transaction before it is committed.
        commit_interval: How often finished offsets are committed in the background.
        session_timeout: After how long without a sign of life the group gives this member's partitions to others.  Long
            processing is no silence: a thread keeps the membership.
        timeout: How long a call may wait for a broker.
        connect_timeout: How long the first call looks for a broker that cannot be reached.
        missing_topics: What reading does about a topic that does not exist: `"raise"` TopicNotFound, or `"wait"` for somebody to
            create it.  No topic is created by reading it.  A pattern always waits.
        assignor: How a classic group divides the partitions.
        protocol: `"consumer"` is the newer one, in which the broker divides them (KIP-848).
        instance_id: A static member: back within `session_timeout` it has its partitions again without a rebalance.
        on_assigned: Called with the partitions that come, before their first record.
        on_revoked: Called with the partitions that go, while they can still be committed.
        on_undecodable: Called with a DecodeFailed instead of raising it; reading goes on.
        dead_letters: Where records go that do not decode, and those that fail in `on_message`.
        client_id: What brokers call it in their logs and quotas.
        tracing: Spans by OpenTelemetry for what is done with records: True, False, or a TracerProvider; else what
            `HEADRACE_TRACING` in the environment says, on or off.
        librdkafka: Any settings of librdkafka by their own names; they count more than all others.
        security: How to get in: a `profile`, or `username`, `password_file`, `ca_file` and the other SecurityOptions.
    """

    def __init__(
        self,
        topics: str | Iterable[str] | Iterable[TopicPartition] | TopicPartition,
        *,
        bootstrap: str | Iterable[str] | None = None,
        group: str | None = None,
        start: Start = "earliest",
        delivery: Delivery = "at_least_once",
        keys: Format[K] = bytes,  # type: ignore[assignment]  # bytes is what K is then
        values: Format[V] = bytes,  # type: ignore[assignment]
        isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
        commit_interval: Duration = 1.0,
        session_timeout: Duration = 45.0,
        timeout: Duration = 30.0,
        connect_timeout: Duration = 3.0,
        missing_topics: Literal["raise", "wait"] = "raise",
        assignor: Literal["cooperative-sticky", "range", "roundrobin"] = "cooperative-sticky",
        protocol: Literal["classic", "consumer"] = "classic",
        instance_id: str | None = None,
        on_assigned: PartitionsCallback | None = None,
        on_revoked: PartitionsCallback | None = None,
        on_undecodable: Callable[[DecodeFailed], object] | None = None,
        dead_letters: DeadLetters | None = None,
        client_id: str = "headrace",
        tracing: Tracing = None,
        librdkafka: Mapping[str, Any] | None = None,
        **security: Unpack[SecurityOptions],
    ) -> None:
        check_names(security, "Consumer")
        self._way = way_to(bootstrap, security, librdkafka)
        self.bootstrap = self._way.bootstrap
        self.group = group
        self.delivery = delivery
        self.dead_letters = dead_letters
        names, partitions = topics_or_partitions(topics)
        self._timeout = seconds("timeout", timeout, at_least=0.1)
        patience = min(self._timeout, seconds("connect_timeout", connect_timeout, at_least=0.1))
        choice("missing_topics", missing_topics, ("raise", "wait"))
        _check(group, delivery, start, partitions)
        spans = spans_for(tracing, bootstrap=self.bootstrap, client_id=client_id, group=group)
        plain_function_or_none("on_assigned", on_assigned, "a list of TopicPartition")
        plain_function_or_none("on_revoked", on_revoked, "a list of TopicPartition")
        plain_function_or_none("on_undecodable", on_undecodable, "a DecodeFailed")
        check_dead_letters(dead_letters)
        config = configuration(
            bootstrap=self.bootstrap,
            group=group,
            start=start,
            isolation=isolation,
            assignor=assignor,
            protocol=protocol,
            instance_id=instance_id,
            session_timeout=session_timeout,
            operation_timeout=self._timeout,
            client_id=client_id,
            extra=self._way.properties,
        )
        self._starting_point = StartingPoint(start, grouped=group is not None, timeout=self._timeout, bootstrap=self.bootstrap)
        interval = seconds("commit_interval", commit_interval, at_least=0.01)
        formats = codec("keys", keys), codec("values", values)
        self._membership = self._join(config, interval, on_assigned, on_revoked)
        self._offsets = self._membership.offsets
        wanted = Wanted(names, partitions, self._starting_point, waits_for_topics=missing_topics == "wait", timeout=self._timeout)
        self._reader = self._open_reader(wanted, formats, FirstContact(config, patience), on_undecodable)
        self._closing = threading.Lock()
        self._subscription: Subscription | None = None
        self._feed = Feed(self._reader, way=self._way, group=self.group, timeout=self._timeout, spans=spans)

    def _join(
        self,
        config: Config,
        commit_interval: float,
        on_assigned: PartitionsCallback | None,
        on_revoked: PartitionsCallback | None,
    ) -> Membership:
        membership = Membership(
            config,
            bootstrap=self.bootstrap,
            grouped=self.group is not None,
            eager=self.group is None or config.get("partition.assignment.strategy", COOPERATIVE) != COOPERATIVE,
            locate=self._starting_point,
            commit_interval=commit_interval,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
        )
        membership.commits_when_finished = self.delivery == "at_least_once" and self.group is not None
        membership.commits_handed_out = self.delivery == "at_most_once" and self.group is not None
        self._starting_point.client = membership.client
        self._starting_point.lock = membership.lock
        return membership

    def _open_reader(
        self,
        wanted: Wanted,
        formats: tuple[Codec, Codec],
        contact: FirstContact,
        on_undecodable: Callable[[DecodeFailed], object] | None,
    ) -> Reader:
        return Reader(
            self._membership,
            self._starting_point,
            wanted,
            way=self._way,
            group=self.group,
            keys=formats[0],
            values=formats[1],
            commits_first=self.delivery == "at_most_once" and self.group is not None,
            timeout=self._timeout,
            contact=contact,
            on_undecodable=on_undecodable,
            dead_letters=self.dead_letters,
        )

    # Reading

    def __iter__(self) -> Iterator[Record[K, V]]:
        return self.records()

    def records(self, timeout: Duration | None = None) -> Iterator[Record[K, V]]:
        """Records as they come; ends when none has come for `timeout`, or when the consumer is closed.  The time that the group
        takes to form does not count."""
        self._check_readable()
        return self._records(None if timeout is None else seconds("timeout", timeout))

    def _records(self, limit: float | None) -> Iterator[Record[K, V]]:
        if limit is not None:
            self._reader.wait_until_joined()
        while not self._reader.stopping and (record := self._next(limit)) is not None:
            yield record
        if not self._reader.stopping:
            self._feed.finish()

    def to_end(self) -> Iterator[Record[K, V]]:
        """Records up to where each partition ends at this moment, then no more."""
        self._check_readable()
        self._reader.at_end.clear()
        ends: Positions = {}
        while not self._reader.stopping:
            record = self._next(0 if ends else SLICE_S)
            if record is not None:
                yield record
            elif self._membership.assigned and self._reached(ends):
                break
            elif ends and (record := self._next(SLICE_S)) is not None:
                yield record
        if not self._reader.stopping:
            self._feed.finish()

    def _reached(self, ends: Positions) -> bool:
        """Whether everything below these ends is read.  Ends not yet known are asked for.

        What cannot be read, such as the marks that end transactions, may lie between the last record and the end: then it is
        librdkafka that says when a partition has no more."""
        places = self._membership.assigned - self._membership.paused
        new = places - ends.keys()
        if new:
            committed = self._membership.committed(new, self._timeout) if self.group is not None else {}
            for place in new:
                low, high = self._starting_point.range_of(place)
                nothing = low == high or committed.get(place, -1) >= high
                ends[place] = -1 if nothing else high
        positions = self._offsets.positions()
        met = self._reader.ends_met
        return all(
            place in self._reader.at_end or max(positions.get(place, -1), met.get(place, -1)) >= ends[place] for place in places
        )

    def poll(self, timeout: Duration = 1.0) -> Record[K, V] | None:
        """The next record, or None when there is none within `timeout`."""
        return self._next(seconds("timeout", timeout))

    def _next(self, timeout: float | None) -> Record[K, V] | None:
        self._check_readable()
        self._offsets.finish_handed_out()
        return self._reader.next(timeout) if self._feed.spans is None else self._feed.next_traced(timeout)

    def batches(self, size: int, timeout: Duration = 1.0) -> Iterator[Records[K, V]]:
        """Sequences of up to `size` records, each as soon as it is full or `timeout` after it was asked for; never empty ones."""
        self._check_readable()
        whole_number("size", size, at_least=1)
        return self._batches(size, seconds("timeout", timeout))

    def _batches(self, size: int, timeout: float) -> Iterator[Records[K, V]]:
        while not self._reader.stopping:
            batch = self.batch(size, timeout)
            if batch:
                yield batch

    def batch(self, size: int, timeout: Duration = 1.0) -> Records[K, V]:
        """Up to `size` records; fewer, perhaps none, when no more come within `timeout`."""
        self._check_readable()
        whole_number("size", size, at_least=1)
        wait = seconds("timeout", timeout)
        self._feed.finish()
        return self._feed.traced(self._reader.batch(size, wait))

    def on_message(
        self,
        callback: Callable[[Record[K, V]], object],
        *,
        workers: int = 1,
        order: Literal["key", "partition"] = "key",
        pending_max: int = 1000,
        dead_letters: DeadLetters | None = None,
        on_error: Callable[[Record[Any, Any], BaseException], object] | None = None,
    ) -> Subscription:
        """Push every record to `callback` from `workers` threads, until the subscription is stopped.

        Offsets are committed up to the first record that is not finished.

        Args:
            callback: Called with each Record.  It has done its work when it returns, or when the concurrent.futures.Future that
                it returns is done.  An async function or a generator function is refused, and so is what one of them returned.
            workers: How many may run at once.
            order: Records of one `"key"`, or of one `"partition"`, are handled one after the other; others beside them.
            pending_max: How many records may wait for a worker; then fetching waits, too.
            dead_letters: Where records go whose callback raises; the consumer's own, unless given.
            on_error: Else called with the record and the exception.  Without both, the exception ends the subscription and comes
                out of its `wait`.
        """
        from headrace.client.push.threads import Subscription

        self._check_readable()
        if self.delivery == "exactly_once":
            raise InvalidArgument(
                "on_message does not go with delivery='exactly_once'; "
                "accepted: 'at_least_once', 'at_most_once'; see exactly_once()"
            )
        letters = self.dead_letters if dead_letters is None else dead_letters
        self._subscription = Subscription(
            self, callback, workers=workers, order=order, pending_max=pending_max, dead_letters=letters, on_error=on_error
        )
        return self._subscription

    # Offsets

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None, *, wait: bool = True) -> None:
        """Commit everything handed out so far, or the `offsets` given (each the next to be read).  With `wait=False` in the
        background.  BrokerTimeout when the group's coordinator does not answer within `session_timeout`."""
        self._feed.check_grouped("commit")
        if self.delivery == "exactly_once":
            raise WrongState(
                "delivery='exactly_once' commits offsets inside a transaction: use transaction.send_offsets, or exactly_once()"
            )
        if offsets is not None:
            wanted = offsets_by_partition("offsets", offsets)
            self._membership.commit(wanted, wait=wait)
            return
        self._offsets.finish_handed_out()
        self._membership.commit_finished(wait=wait)

    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition, after all that was handed out."""
        assigned = self._membership.assigned
        return {place: offset for place, offset in self._offsets.positions().items() if place in assigned and offset >= 0}

    def committed(self) -> dict[TopicPartition, int]:
        """What the group has committed for the partitions this consumer has."""
        self._feed.check_grouped("committed")
        self._feed.ready()
        return self._membership.committed(self._membership.assigned, self._timeout)

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets lie between this consumer and the end of each of its partitions."""
        self._feed.ready()
        positions = self._offsets.positions()
        missing = self._membership.assigned - positions.keys()
        if missing and self.group is not None:
            positions = {**self._membership.committed(missing, self._timeout), **positions}
        return {place: self._lag_of(place, positions.get(place)) for place in sorted(self._membership.assigned)}

    def _lag_of(self, place: TopicPartition, position: int | None) -> int:
        low, high = self._starting_point.range_of(place)
        return max(0, high - max(low, position if position is not None and position >= 0 else low))

    # Moving

    def seek(self, partition: TopicPartition, offset: int | Literal["earliest", "latest"]) -> None:
        """Read on from this offset.  InvalidArgument when the partition is not this consumer's, or does not have the offset."""
        topic_partition("partition", partition)
        if offset not in ("earliest", "latest"):
            whole_number("offset", offset, at_least=0)
        self._feed.ready()
        if partition not in self._membership.assigned:
            has = ", ".join(map(str, self.assignment)) or "none"
            raise InvalidArgument(f"partition={partition} is not assigned to this consumer; accepted: {has}")
        if isinstance(offset, str):
            self._reader.move({partition: {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}[offset]})
            return
        low, high = self._starting_point.range_of(partition)
        if not low <= offset <= high:
            raise InvalidArgument(
                f"offset={offset} is outside of {partition.topic}[{partition.partition}]; accepted: {low} to {high}"
            )
        self._reader.move({partition: offset})

    def seek_to_time(self, moment: Moment) -> None:
        """Read on, in every partition, from the first record at or after this moment."""
        self._feed.ready()
        self._reader.move(self._starting_point.at_time(self._membership.assigned, moment))

    def rewind(self, records: int | None = None) -> None:
        """Back to the beginning of every partition, or back by this many offsets in each."""
        self._feed.ready()
        if records is None:
            self._reader.move(dict.fromkeys(self._membership.assigned, OFFSET_BEGINNING))
            return
        whole_number("records", records, at_least=0)
        positions = self._offsets.positions()
        known = {place: positions[place] for place in self._membership.assigned if positions.get(place, -1) >= 0}
        self._reader.move(
            {place: max(self._starting_point.range_of(place)[0], offset - records) for place, offset in known.items()}
        )

    def pause(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Hand out nothing of these partitions (all, when none are named) until `resume`."""
        self._feed.ready()
        places = self._named(partitions)
        with self._membership.lock:
            self._membership.paused |= places
            self._membership.client.pause([ClientPartition(*place) for place in places])

    def resume(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Hand out records of these partitions (all, when none are named) again."""
        places = self._named(partitions) & self._membership.paused
        with self._membership.lock:
            self._membership.paused -= places
            self._membership.client.resume([ClientPartition(*place) for place in places])

    def _named(self, partitions: Iterable[TopicPartition] | None) -> set[TopicPartition]:
        if partitions is None:
            return set(self._membership.assigned)
        return set(topic_partitions("partitions", partitions)) & self._membership.assigned

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions this consumer has at this moment."""
        return sorted(self._membership.assigned)

    @property
    def at_end(self) -> bool:
        """Whether everything in the partitions of this consumer has been fetched, as far as is known."""
        return bool(self._membership.assigned) and self._reader.at_end >= self._membership.assigned - self._membership.paused

    # Ending

    def close(self) -> None:
        """Commit what is finished and leave the group.  The record last handed out is not taken as finished; a `with` block that
        ends without an exception does that.  From another thread it ends the reader's loop.  Raises what ended a push, if nobody
        has waited for that.  Calling it again has no effect."""
        if self._feed.closed:
            return
        self._reader.stopping = True
        if self._subscription is not None:
            self._subscription.stop()
        # A rebalance callback, or a signal handler, inside a poll: the loop ends now, and whoever opened the consumer closes it.
        if self._membership.lock.mine or not self._closing.acquire(blocking=False):
            return
        self._feed.closed = True
        self._feed.end_handling()
        self._membership.close()
        if self.dead_letters is not None:
            self.dead_letters.close()
        if self._subscription is not None:
            self._subscription.raise_error()

    def __enter__(self) -> Self:
        self._feed.check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._feed.end_handling(error)
        if error is None and not self._feed.closed:
            self._offsets.finish_handed_out()
        try:
            self.close()
        except Exception as failure:
            if error is None:
                raise
            # The exception on its way out says more than this one, which must not hide it.
            log.warning("%s: %s", type(failure).__name__, failure)

    def __del__(self) -> None:
        if hasattr(self, "_feed") and not self._feed.closed:
            self.close()

    def _check_readable(self) -> None:
        self._feed.check_open()
        if self._subscription is not None and self._subscription.running:
            raise WrongState("this consumer pushes to on_message; stop that subscription before reading from the consumer itself")


def _check(group: str | None, delivery: str, start: object, partitions: list[TopicPartition]) -> None:
    check_start(start)
    choice("delivery", delivery, DELIVERIES)
    if group is None and delivery == "exactly_once":
        raise InvalidArgument(
            "delivery='exactly_once' needs a group, under whose name the offsets are kept; accepted without one: 'at_least_once'"
        )
    if group is not None and partitions:
        raise InvalidArgument(
            "topics with single partitions do not go with a group, which assigns them itself; "
            "accepted: names of topics, or group=None"
        )
