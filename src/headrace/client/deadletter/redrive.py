"""Parked records, looked at and sent back to where they came from.

A redrive reads the dead-letter topic as a group of its own and writes in transactions together with its offsets: each
parked record is sent back once, also when the redrive is interrupted or run again.  One that cannot be sent back, because it
is not a parked record at all, say, stops none of the others: it is passed over, counted and named.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.client.admin.admin import Admin
from headrace.client.arguments import topic_name, whole_number
from headrace.client.consumer.consumer import Consumer
from headrace.client.deadletter.deadletter import PREFIX
from headrace.client.errors import InvalidArgument, TopicNotFound
from headrace.client.logs import log
from headrace.client.producer.producer import Producer
from headrace.client.push.handlers import plain_function_or_none
from headrace.client.records.record import Headers, Record
from headrace.model.identity import TopicPartition

SUFFIX = ".dead-letter"
REDRIVEN_HEADER = "headrace-redriven"
REPEATS_MAX = 3  # as of the pipeline `redrive`
BATCH = 500
DIGITS_MAX = 18


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


def dead_letter_topics(bootstrap: str, suffix: str = SUFFIX) -> dict[str, int]:
    """Topics by the ending of their name, and how many records are parked there that no redrive has sent back."""
    with Admin(bootstrap) as admin:
        names = [name for name in admin.topics() if name.endswith(suffix)]
        return {name: sum(_waiting(admin, name).values()) for name in names}


def _waiting(admin: Admin, topic: str) -> dict[int, int]:
    first, last = admin.offsets(topic, "earliest"), admin.offsets(topic, "latest")
    done = admin.committed(group_name(topic))
    return {
        partition: last[partition] - max(first[partition], done.get(TopicPartition(topic, partition), 0)) for partition in last
    }


def parked(bootstrap: str, topic: str, *, waiting_only: bool = False) -> Iterator[Parked]:
    """The records of a dead-letter topic, oldest first in each partition; with `waiting_only` those no redrive has sent back."""
    with Admin(bootstrap) as admin:
        admin.topic(topic)
        done = admin.committed(group_name(topic)) if waiting_only else {}
    with Consumer[bytes, bytes](topic, bootstrap=bootstrap) as consumer:
        for record in consumer.to_end():
            if record.offset >= done.get(record.topic_partition, 0):
                yield Parked.of(record)


def one_parked(bootstrap: str, topic: str, partition: int, offset: int) -> Parked:
    """A single record of a dead-letter topic."""
    whole_number("offset", offset, at_least=0)
    place = TopicPartition(topic, whole_number("partition", partition, at_least=0))
    with Admin(bootstrap) as admin:
        ends = admin.offsets(topic)
    if partition not in ends:
        raise TopicNotFound(f"topic '{topic}' has no partition {partition}", code=3, name="UNKNOWN_TOPIC_OR_PART")
    if offset >= ends[partition]:
        raise _no_such_record(topic, partition, offset)
    with Consumer[bytes, bytes]([place], bootstrap=bootstrap, start=offset) as consumer:
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
) -> Redriven:
    """Send what is parked and not yet sent back to its origin, or all of it to the topic `to`.

    Each record goes to the partition it came from, so that it meets the records of its key again.  One that cannot go back is
    passed over, and told to `on_skipped` (or the log): it does not say where it came from, its topic does not exist, or it has
    been sent back `repeats` times already.
    """
    topic_name("topic", topic)
    whole_number("repeats", repeats, at_least=1)
    plain_function_or_none("on_skipped", on_skipped, "a Skipped")
    tell = on_skipped or _log_skipped
    with Admin(bootstrap) as admin:
        left = sum(_waiting(admin, topic).values())
        counts = {name: len(found.partitions) for name, found in admin.topics().items()}
    sent_max = left if limit is None else whole_number("limit", limit, at_least=1)
    sent = skipped = 0
    with (
        Consumer[bytes, bytes](topic, bootstrap=bootstrap, group=group_name(topic), delivery="exactly_once") as consumer,
        Producer(bootstrap, transactional_id=group_name(topic), linger=0.005) as producer,
    ):
        while (size := min(BATCH, left - sent - skipped, sent_max - sent)) > 0 and (records := _some(consumer, size)):
            letters = [Parked.of(record) for record in records]
            stay = [each for letter in letters if (each := _why_it_stays(letter, to, counts, repeats)) is not None]
            passed_over = {(each.partition, each.offset) for each in stay}
            with producer.transaction(consumer):
                for letter in letters:
                    if (letter.record.partition, letter.record.offset) not in passed_over:
                        _send_back(producer, letter, to, counts)
            for each in stay:
                tell(each)
            sent, skipped = sent + len(letters) - len(stay), skipped + len(stay)
    return Redriven(sent, skipped)


def _why_it_stays(letter: Parked, to: str | None, counts: dict[str, int], repeats: int) -> Skipped | None:
    """None for a record that can be sent back."""
    record = letter.record
    if letter.times_redriven >= repeats:
        why: str | None = f"it has been sent back {letter.times_redriven} times already"
    else:
        why = None if to is not None else no_way_back(letter.origin_topic, counts)
    return None if why is None else Skipped(record.topic, record.partition, record.offset, why)


def no_way_back(origin: str, topics: Container[str]) -> str | None:
    """Why a record cannot go back to the topic that it names; None if it can.  The pipeline `redrive` asks the same."""
    if not origin:
        return "it does not say where it came from"
    return None if origin in topics else f"it came from topic {origin!r}, which does not exist"


def _log_skipped(skipped: Skipped) -> None:
    log.warning("%s; it is not sent back", skipped)


def redrive_one(bootstrap: str, parked_record: Parked, *, to: str | None = None) -> None:
    """Send one record back, whatever became of it before; the book-keeping of `redrive` does not change."""
    with Admin(bootstrap) as admin:
        counts = {name: len(found.partitions) for name, found in admin.topics().items()}
    with Producer(bootstrap, linger=0) as producer:
        _send_back(producer, parked_record, to, counts)


def _some(consumer: Consumer[bytes, bytes], count: int) -> Sequence[Record[bytes, bytes]]:
    """The next records; none only when every partition is at its end, which may be before all offsets are used up."""
    for _ in range(100):
        records = consumer.batch(count, 0.2)
        if records or consumer.at_end:
            return records
    return []


def _send_back(producer: Producer, letter: Parked, to: str | None, counts: dict[str, int]) -> Any:
    target = to or letter.origin_topic
    if not target:
        record = letter.record
        raise InvalidArgument(
            f"to=None, but {record.topic}[{record.partition}]@{record.offset} "
            "does not say where it came from; accepted: a topic name"
        )
    same = to is None and 0 <= letter.origin_partition < counts.get(target, 0)
    return producer.send_bytes(
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
