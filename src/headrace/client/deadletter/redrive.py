"""Parked records, looked at and sent back to where they came from.

A redrive reads the dead-letter topic as a group of its own and writes in transactions together with its offsets: each
parked record is sent back once, also when the redrive is interrupted or run again.  One that cannot be sent back, because it
is not a parked record at all, say, stops none of the others: it is passed over, counted and named.  It goes on waiting, and the
next redrive tries it again: its topic may exist by then.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

from headrace.client.admin.admin import Admin
from headrace.client.arguments import topic_name, whole_number
from headrace.client.consumer.consumer import Consumer
from headrace.client.deadletter.deadletter import PREFIX
from headrace.client.deadletter.sent_back import SentBack
from headrace.client.errors import InvalidArgument, TopicNotFound
from headrace.client.logs import log
from headrace.client.producer.outbox import outbox_of
from headrace.client.producer.producer import Producer
from headrace.client.producer.transaction import Transaction
from headrace.client.push.handlers import plain_function_or_none
from headrace.client.records.record import Headers, Record
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition

SUFFIX = ".dead-letter"
REDRIVEN_HEADER = "headrace-redriven"
REPEATS_MAX = 3  # as of the pipeline `redrive`
BATCH = 500
DIGITS_MAX = 18
Properties = Mapping[str, Any] | None
NO_ROOM = "too many records before it stay to keep account of this one; send those elsewhere first (--to)"


@dataclass(frozen=True, slots=True)
class Parked:
    """A record in a dead-letter topic, and its story.  The fields of a record that somebody else put there are empty."""

    record: Record[bytes, bytes]
    origin_topic: str
    origin_partition: int
    origin_offset: int
    group: str
    cause: str
    reason: str
    attempts: int
    first_failed_at: str
    last_failed_at: str
    stack: str

    @classmethod
    def of(cls, record: Record[bytes, bytes]) -> Parked:
        """What the headers of a parked record say."""
        facts = {
            name.removeprefix(PREFIX): (value or b"").decode(errors="replace")
            for name, value in record.headers
            if name.startswith(PREFIX)
        }
        return cls(
            record=record,
            origin_topic=facts.get("topic", ""),
            origin_partition=_number(facts.get("partition")),
            origin_offset=_number(facts.get("offset")),
            group=facts.get("group", ""),
            cause=facts.get("cause", ""),
            reason=facts.get("reason", ""),
            attempts=_number(facts.get("attempts")),
            first_failed_at=facts.get("first-failed-at", ""),
            last_failed_at=facts.get("last-failed-at", ""),
            stack=facts.get("stack", ""),
        )

    def headers_for_origin(self) -> Headers:
        """The headers it came with, and how often it has been sent back."""
        own = [(name, value) for name, value in self.record.headers if not name.startswith(PREFIX) and name != REDRIVEN_HEADER]
        return [*own, (REDRIVEN_HEADER, b"%d" % (self.times_redriven + 1))]

    @property
    def times_redriven(self) -> int:
        """How often it has been sent back before."""
        return max(0, _number((self.record.header(REDRIVEN_HEADER) or b"").decode(errors="replace")))


def dead_letter_topics(bootstrap: str, suffix: str = SUFFIX, *, librdkafka: Properties = None) -> dict[str, int]:
    """Topics by the ending of their name, and how many records are parked there that no redrive has sent back."""
    with Admin(bootstrap, librdkafka=librdkafka) as admin:
        names = [name for name in admin.topics() if name.endswith(suffix)]
        return {name: _waiting(admin, name) for name in names}


def _waiting(admin: Admin, topic: str) -> int:
    ends, sent_back = admin.offsets(topic, "latest"), _sent_back(admin, topic)
    return sum(sent_back[partition].waiting(end) for partition, end in ends.items() if partition in sent_back)


def _sent_back(admin: Admin, topic: str) -> dict[int, SentBack]:
    """How far earlier redrives have come, by partition."""
    committed = admin.committed_notes(group_name(topic), topic)
    found = {}
    for partition, earliest in admin.offsets(topic, "earliest").items():
        offset, note = committed.get(partition, (None, None))
        found[partition] = SentBack.of(offset, note, earliest)
    return found


def parked(bootstrap: str, topic: str, *, waiting_only: bool = False, librdkafka: Properties = None) -> Iterator[Parked]:
    """The records of a dead-letter topic, oldest first in each partition; with `waiting_only` those no redrive has sent back."""
    with Admin(bootstrap, librdkafka=librdkafka) as admin:
        admin.topic(topic)
        sent_back = _sent_back(admin, topic) if waiting_only else {}
    with Consumer[bytes, bytes](topic, bootstrap=bootstrap, librdkafka=librdkafka) as consumer:
        for record in consumer.to_end():
            if record.partition not in sent_back or not sent_back[record.partition].is_settled(record.offset):
                yield Parked.of(record)


def one_parked(bootstrap: str, topic: str, partition: int, offset: int, *, librdkafka: Properties = None) -> Parked:
    """A single record of a dead-letter topic."""
    whole_number("offset", offset, at_least=0)
    place = TopicPartition(topic, whole_number("partition", partition, at_least=0))
    with Admin(bootstrap, librdkafka=librdkafka) as admin:
        ends = admin.offsets(topic)
    if partition not in ends:
        raise TopicNotFound(f"topic '{topic}' has no partition {partition}", code=3, name="UNKNOWN_TOPIC_OR_PART")
    if offset >= ends[partition]:
        raise _no_such_record(topic, partition, offset)
    with Consumer[bytes, bytes]([place], bootstrap=bootstrap, start=offset, librdkafka=librdkafka) as consumer:
        for record in consumer.to_end():
            if record.offset == offset:
                return Parked.of(record)
            break
    raise _no_such_record(topic, partition, offset)


def _no_such_record(topic: str, partition: int, offset: int) -> InvalidArgument:
    return InvalidArgument(f"offset={offset} is not in {topic}[{partition}]; accepted: the offset of a record that is there")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record of a dead-letter topic that a redrive passed over, and why.  It stays where it is."""

    topic: str
    partition: int
    offset: int
    why: str

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}: {self.why}"


@dataclass(frozen=True, slots=True)
class Redriven:
    """What became of a redrive: how many records were sent back, and how many were passed over."""

    sent: int
    skipped: int


def redrive(
    bootstrap: str,
    topic: str,
    *,
    to: str | None = None,
    limit: int | None = None,
    repeats: int = REPEATS_MAX,
    on_skipped: Callable[[Skipped], object] | None = None,
    librdkafka: Properties = None,
) -> Redriven:
    """Send what is parked and not yet sent back to its origin, or all of it to the topic `to`, which has to exist.

    Each record goes to the partition it came from, so that it meets the records of its key again.  One that cannot go back is
    passed over, and told to `on_skipped` (or the log): it does not say where it came from, its topic does not exist, or it has
    been sent back `repeats` times already.  It goes on waiting for another redrive.
    """
    topic_name("topic", topic)
    whole_number("repeats", repeats, at_least=1)
    plain_function_or_none("on_skipped", on_skipped, "a Skipped")
    sent_max = None if limit is None else whole_number("limit", limit, at_least=1)
    with Admin(bootstrap, librdkafka=librdkafka) as admin:
        ends = admin.offsets(topic, "latest")
        rule = _Rule(to, {name: len(found.partitions) for name, found in admin.topics().items()}, repeats)
        if to is not None:
            require_target(to, rule.counts)
        if not _waiting(admin, topic):
            return Redriven(0, 0)
        with (
            Consumer[bytes, bytes](
                topic, bootstrap=bootstrap, group=group_name(topic), delivery="exactly_once", librdkafka=librdkafka
            ) as consumer,
            Producer(bootstrap, transactional_id=group_name(topic), linger=0.005, librdkafka=librdkafka) as producer,
        ):
            with producer.transaction():
                # The first one takes over from a redrive that may still run: what that has done is known only afterwards.
                pass
            run = _Run(consumer, producer, rule, ends, _sent_back(admin, topic))
            while sent_max is None or run.sent < sent_max:
                size = BATCH if sent_max is None else min(BATCH, sent_max - run.sent)
                if not run.is_under_way or not (records := _some(consumer, size)):
                    break
                for each in run.settle(records):
                    (on_skipped or _log_skipped)(each)
    return Redriven(run.sent, run.skipped)


class _Rule(NamedTuple):
    """Which records go back, and where to."""

    to: str | None
    counts: Mapping[str, int]  # of the partitions of the topics there are
    repeats: int

    def why_it_stays(self, letter: Parked) -> str | None:
        return why_it_stays(letter, self.counts if self.to is None else None, self.repeats)


class _Run:
    """One redrive, and what it has done so far."""

    def __init__(
        self,
        consumer: Consumer[bytes, bytes],
        producer: Producer,
        rule: _Rule,
        ends: Mapping[int, int],
        sent_back: Mapping[int, SentBack],
    ) -> None:
        self._consumer = consumer
        self._producer = producer
        self._rule = rule
        self._ends = ends  # a record that fails again while this runs is for the next one
        self._sent_back = sent_back
        self._read_to = {partition: each.first for partition, each in sent_back.items()}
        self.sent = self.skipped = 0

    @property
    def is_under_way(self) -> bool:
        return any(self._read_to.get(partition, end) < end for partition, end in self._ends.items())

    def settle(self, records: Sequence[Record[bytes, bytes]]) -> list[Skipped]:
        """Send back those that can be; answer with the others."""
        stay: list[Skipped] = []
        touched: set[int] = set()
        sent = 0
        with self._producer.transaction() as transaction:
            for record in records:
                sent_back = self._sent_back.get(record.partition)
                if sent_back is None or record.offset >= self._ends.get(record.partition, 0):
                    self._read_to[record.partition] = record.offset + 1
                    continue
                if not sent_back.is_settled(record.offset):
                    letter = Parked.of(record)
                    why = self._rule.why_it_stays(letter) or (None if sent_back.has_room else NO_ROOM)
                    if why is not None:
                        stay.append(Skipped(record.topic, record.partition, record.offset, why))
                        self._read_to[record.partition] = record.offset + 1
                        continue
                    _send_back(self._producer, letter, self._rule.to, self._rule.counts)
                    sent += 1
                self._note(sent_back, record)
                touched.add(record.partition)
            _commit_sent_back(transaction, self._consumer, records[0].topic, {each: self._sent_back[each] for each in touched})
        self.sent, self.skipped = self.sent + sent, self.skipped + len(stay)
        return stay

    def _note(self, sent_back: SentBack, record: Record[bytes, bytes]) -> None:
        """A record is settled, and so are the offsets without a record between it and a settled one before it."""
        before = self._read_to[record.partition]
        start = before if before <= sent_back.first or sent_back.is_settled(before - 1) else record.offset
        sent_back.settle(start, record.offset + 1)
        self._read_to[record.partition] = record.offset + 1


def _commit_sent_back(
    transaction: Transaction, consumer: Consumer[bytes, bytes], topic: str, sent_back: Mapping[int, SentBack]
) -> None:
    places = {TopicPartition(topic, partition): each for partition, each in sent_back.items()}
    transaction.send_offsets(
        consumer, {place: each.first for place, each in places.items()}, {place: each.note for place, each in places.items()}
    )


def why_it_stays(letter: Parked, topics: Container[str] | None, repeats: int = REPEATS_MAX) -> str | None:
    """Why a redrive passes a record over; None for one that it sends back.  `topics` are those there are; None when the record
    need not go back to its own."""
    if letter.times_redriven >= repeats:
        return f"it has been sent back {letter.times_redriven} times already"
    return None if topics is None else no_way_back(letter.origin_topic, topics)


def no_way_back(origin: str, topics: Container[str]) -> str | None:
    """Why a record cannot go back to the topic that it names; None if it can.  The pipeline `redrive` asks the same."""
    if not origin:
        return "it does not say where it came from"
    return None if origin in topics else f"it came from topic {origin!r}, which does not exist"


def require_target(target: str, topics: Iterable[str]) -> None:
    """Refuse a topic that is not there: a broker may create it at the first record, and a misspelt one has no reader."""
    names = [*topics]
    if target in names:
        return
    near = get_close_matches(target, names, n=1)
    meant = f"did you mean {near[0]!r}? If not, create it first" if near else "create it first"
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    raise TopicNotFound(f"topic {target!r} does not exist; {meant}: headrace topic create {target}", code=code, name=code.name)


def _log_skipped(skipped: Skipped) -> None:
    log.warning("%s; it is not sent back", skipped)


def redrive_one(bootstrap: str, parked_record: Parked, *, to: str | None = None, librdkafka: Properties = None) -> None:
    """Send one record back, whatever became of it before; it waits no longer."""
    record = parked_record.record
    topic = record.topic
    with Admin(bootstrap, librdkafka=librdkafka) as admin:
        counts = {name: len(found.partitions) for name, found in admin.topics().items()}
        if target := to or parked_record.origin_topic:
            require_target(target, counts)
        with (
            Consumer[bytes, bytes](
                topic, bootstrap=bootstrap, group=group_name(topic), delivery="exactly_once", librdkafka=librdkafka
            ) as consumer,
            Producer(bootstrap, transactional_id=group_name(topic), linger=0, librdkafka=librdkafka) as producer,
            producer.transaction() as transaction,
        ):
            _some(consumer, 1)  # a member of the group may commit for it; one that is just joining may not
            sent_back = _sent_back(admin, topic)[record.partition]
            if sent_back.has_room or sent_back.is_settled(record.offset):
                sent_back.settle(record.offset, record.offset + 1)
            _send_back(producer, parked_record, to, counts)
            _commit_sent_back(transaction, consumer, topic, {record.partition: sent_back})


def _some(consumer: Consumer[bytes, bytes], count: int) -> Sequence[Record[bytes, bytes]]:
    """The next records; none only when every partition is at its end, which may be before all offsets are used up."""
    for _ in range(100):
        records = consumer.batch(count, 0.2)
        if records or consumer.at_end:
            return records
    return []


def _send_back(producer: Producer, letter: Parked, to: str | None, counts: Mapping[str, int]) -> Any:
    target = to or letter.origin_topic
    if not target:
        record = letter.record
        raise InvalidArgument(
            f"to=None, but {record.topic}[{record.partition}]@{record.offset} "
            "does not say where it came from; accepted: a topic name"
        )
    same = to is None and 0 <= letter.origin_partition < counts.get(target, 0)
    return outbox_of(producer).send_bytes(
        target,
        letter.record.raw_value,
        key=letter.record.raw_key,
        headers=letter.headers_for_origin(),
        partition=letter.origin_partition if same else None,
    )


def group_name(topic: str) -> str:
    return f"headrace-redrive-{topic}"


def _number(text: str | None) -> int:
    """A count or an offset; -1 for what is none, as somebody else's headers may hold anything."""
    return int(text) if text and text.isdecimal() and len(text) <= DIGITS_MAX else -1
