"""Parked records, looked at and sent back to where they came from.

A redrive reads the dead-letter topic as a group of its own and writes in transactions together with its offsets: each
parked record is sent back once, also when the redrive is interrupted or run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.client.admin import Admin
from headrace.client.arguments import topic_name, whole_number
from headrace.client.consumer import Consumer
from headrace.client.deadletter import PREFIX
from headrace.client.errors import InvalidArgument, TopicNotFound
from headrace.client.producer import Producer
from headrace.client.record import Headers, Record
from headrace.model.identity import TopicPartition

SUFFIX = ".dead-letter"
REDRIVEN_HEADER = "headrace-redriven"
BATCH = 500


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
        before = self.record.header(REDRIVEN_HEADER) or b"0"
        return [*own, (REDRIVEN_HEADER, b"%d" % (int(before) + 1 if before.isdigit() else 1))]


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
        if partition not in admin.offsets(topic):
            raise TopicNotFound(f"topic '{topic}' has no partition {partition}", code=3, name="UNKNOWN_TOPIC_OR_PART")
    with Consumer[bytes, bytes]([place], bootstrap=bootstrap, start=offset) as consumer:
        for record in consumer.to_end():
            if record.offset == offset:
                return Parked.of(record)
            break
    raise InvalidArgument(f"offset={offset} is not in {topic}[{partition}]; accepted: the offset of a record that is there")


def redrive(bootstrap: str, topic: str, *, to: str | None = None, limit: int | None = None) -> int:
    """Send what is parked and not yet sent back to its origin, or all of it to the topic `to`; answers how many.

    Each record goes to the partition it came from, so that it meets the records of its key again.
    """
    topic_name("topic", topic)
    with Admin(bootstrap) as admin:
        left = sum(_waiting(admin, topic).values())
        counts = {name: len(found.partitions) for name, found in admin.topics().items()}
    left = left if limit is None else min(left, whole_number("limit", limit, at_least=1))
    sent = 0
    with (
        Consumer[bytes, bytes](topic, bootstrap=bootstrap, group=group_name(topic), delivery="exactly_once") as consumer,
        Producer(bootstrap, transactional_id=group_name(topic), linger=0.005) as producer,
    ):
        while left > sent and (records := _some(consumer, min(BATCH, left - sent))):
            with producer.transaction(consumer):
                for record in records:
                    _send_back(producer, Parked.of(record), to, counts)
            sent += len(records)
    return sent


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
    return int(text) if text and text.isdigit() else -1
