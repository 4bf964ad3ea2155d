"""Records that a handler cannot deal with: tried again with growing waits, then parked in a topic of their own.

A parked record has the key, value and headers it had, and headers that say where it came from, why it is here (too many attempts,
rejected by the handler, not decodable), the stack, how often it was tried and when.  Always: a record's offset is committed only
after the dead-letter topic has acknowledged it; while that topic is away, the record waits and other keys go on.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from headrace.client.arguments import as_datetime, seconds, topic_name, whole_number
from headrace.client.deadletter.backoff import Backoff, BackoffGiven, backoff
from headrace.client.errors import DecodeFailed, DeliveryFailed, HeadraceError, InvalidArgument, Reject, WrongState
from headrace.client.logs import log
from headrace.client.producer.outbox import outbox_of
from headrace.client.push.handlers import plain_function_or_none
from headrace.client.records.record import Delivery, Headers, Record

if TYPE_CHECKING:
    from headrace.client.producer.producer import Producer
    from headrace.client.producer.receipts import DeliveryFuture
    from headrace.client.security.connecting import Way


PREFIX = "headrace-dead-letter-"
STACK_CHARACTERS_MAX = 8000
REASON_CHARACTERS_MAX = 1000
PARKING_BACKOFF = Backoff(first=0.2, longest=10.0)
PARKING_TIMEOUT_S = 10.0
Cause = Literal["attempts", "rejected", "undecodable"]


@dataclass(slots=True)
class Failure:
    """The history of one record that failed."""

    error: BaseException
    attempts: int
    first_at_ms: int
    last_at_ms: int

    @classmethod
    def again(cls, error: BaseException, before: Failure | None) -> Failure:
        now = time.time_ns() // 1_000_000
        return cls(error, 1, now, now) if before is None else cls(error, before.attempts + 1, before.first_at_ms, now)


class DeadLetters:
    """What to do with records that fail: try again with growing waits, then park them in a topic of their own.

    Args:
        topic: Where they are parked; may name the record's own topic as `{topic}` and the reader's group as `{group}`.
        attempts: How often a record is tried, the first time included.
        backoff: How long to wait after each attempt: a Backoff, seconds, a list of seconds, or a callable (attempt) -> seconds.
        retry: Called with the exception; False parks the record at once.  A handler says so itself by raising Reject.
        producer: What to park with; a producer of its own, unless given.
    """

    def __init__(
        self,
        topic: str = "{topic}.dead-letter",
        *,
        attempts: int = 5,
        backoff: BackoffGiven = Backoff(),  # noqa: B008 - immutable
        retry: Callable[[BaseException], bool] | None = None,
        producer: Producer | None = None,
    ) -> None:
        self._parking = Parking(topic, attempts=attempts, backoff=backoff, retry=retry, producer=producer)

    def topic_for(self, topic: str, group: str | None) -> str:
        """The dead-letter topic of a topic's records."""
        return self._parking.topic_for(topic, group)

    def close(self) -> None:
        """Let go of the producer, if this opened one; the next parking opens another."""
        self._parking.close()


def parking_of(letters: DeadLetters) -> Parking:
    """The inside of dead letters, for what is built on top of them."""
    return letters._parking


class Parking:
    """What DeadLetters does, for those who handle records: push, exactly_once and the reader."""

    def __init__(
        self,
        topic: str,
        *,
        attempts: int,
        backoff: BackoffGiven,
        retry: Callable[[BaseException], bool] | None,
        producer: Producer | None,
    ) -> None:
        self._topic = topic
        self._attempts = whole_number("attempts", attempts, at_least=1)
        self._backoff = _checked_backoff(backoff)
        plain_function_or_none("retry", retry, "the exception")
        self._retry = retry
        if producer is not None and not hasattr(producer, "_outbox"):
            raise InvalidArgument(f"producer={producer!r} is not accepted; accepted: a Producer, or None")
        self._given_producer = producer
        self._own_producer: Producer | None = None
        self._opening = threading.Lock()
        self.topic_for("example", "example")

    def topic_for(self, topic: str, group: str | None) -> str:
        """The dead-letter topic of a topic's records."""
        try:
            return topic_name("topic", self._topic.format(topic=topic, group=group or "ungrouped"))
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise InvalidArgument(
                f"topic={self._topic!r} is not accepted; accepted: a topic name that may hold {{topic}} and {{group}}"
            ) from error

    def wait_after(self, failure: Failure) -> float | None:
        """Seconds until the next attempt; None when the record is to be parked."""
        if self._cause(failure) != "attempts" or failure.attempts >= self._attempts:
            return None
        return seconds("what backoff returned", self._backoff(failure.attempts))

    def _cause(self, failure: Failure) -> Cause:
        if isinstance(failure.error, DecodeFailed):
            return "undecodable"
        if isinstance(failure.error, Reject) or (self._retry is not None and not self._retry(failure.error)):
            return "rejected"
        return "attempts"

    def park(
        self, record: Record[Any, Any], failure: Failure, *, way: Way, group: str | None, brief: bool = False
    ) -> DeliveryFuture[Delivery]:
        """Send a record to its dead-letter topic; the future says when it is safe there.  `brief` leaves the stack out."""
        headers = record.headers + self._explanation(record, failure, group, brief)
        topic = self.topic_for(record.topic, group)
        return outbox_of(self._producer(way)).send_bytes(topic, record.raw_value, key=record.raw_key, headers=headers)

    def park_and_wait(
        self, record: Record[Any, Any], failure: Failure, *, way: Way, group: str | None, give_up: Callable[[], bool]
    ) -> bool:
        """Park, as often as it takes.  False when `give_up` said so first; an error when no repetition can help."""
        attempt, brief = 0, False
        while not give_up():
            attempt += 1
            try:
                self.park(record, failure, way=way, group=group, brief=brief).result()
                return True
            except HeadraceError as error:
                brief, wait = self.after_parking_failed(error, attempt, brief)
                time.sleep(wait)
        return False

    def park_undecodable(self, failure: DecodeFailed, *, way: Way, group: str | None, give_up: Callable[[], bool]) -> bool:
        return self.park_and_wait(failure.record, Failure.again(failure, None), way=way, group=group, give_up=give_up)

    def after_parking_failed(self, error: HeadraceError, attempt: int, brief: bool) -> tuple[bool, float]:
        """Whether to be brief from now on, and how long to wait; raises when no repetition can help."""
        if isinstance(error, InvalidArgument) or (isinstance(error, WrongState) and self._given_producer is not None):
            raise error  # a name that is no topic's, or a producer that was closed: no waiting helps
        too_large = isinstance(error, DeliveryFailed) and error.name == "MSG_SIZE_TOO_LARGE"
        if too_large and not brief:
            return True, 0.0
        if too_large:
            raise error
        wait = PARKING_BACKOFF(attempt)
        log.warning("%s; parking it is tried again in %.1f s", error, wait)
        return brief, wait

    def close(self) -> None:
        """Let go of the producer, if this opened one; the next parking opens another."""
        with self._opening:
            producer, self._own_producer = self._own_producer, None
        if producer is not None:
            producer.close()

    def _producer(self, way: Way) -> Producer:
        if self._given_producer is not None:
            return self._given_producer
        with self._opening:
            if self._own_producer is None:
                from headrace.client.producer.producer import Producer

                self._own_producer = Producer(
                    way.bootstrap,
                    linger=0.005,
                    delivery_timeout=PARKING_TIMEOUT_S,
                    client_id="headrace-dead-letter",
                    librdkafka=way.for_others,
                )
            return self._own_producer

    def _explanation(self, record: Record[Any, Any], failure: Failure, group: str | None, brief: bool) -> Headers:
        said = f"{type(failure.error).__name__}: {failure.error}"[:REASON_CHARACTERS_MAX]
        facts = {
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "timestamp": str(record.timestamp),
            "group": group or "",
            "cause": self._cause(failure),
            "reason": said,
            "attempts": str(failure.attempts),
            "first-failed-at": as_datetime(failure.first_at_ms).isoformat(timespec="milliseconds"),
            "last-failed-at": as_datetime(failure.last_at_ms).isoformat(timespec="milliseconds"),
        }
        if not brief:
            facts["stack"] = "".join(traceback.format_exception(failure.error))[-STACK_CHARACTERS_MAX:]
        return [(PREFIX + name, text.encode(errors="replace")) for name, text in facts.items()]


def check_dead_letters(given: object) -> None:
    if given is not None and not isinstance(given, DeadLetters):
        raise InvalidArgument(f"dead_letters={given!r} is not accepted; accepted: DeadLetters(…), or None")


def _checked_backoff(given: BackoffGiven) -> Callable[[int], float]:
    return backoff("backoff", given)
