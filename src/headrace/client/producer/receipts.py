"""Futures of deliveries: one for one record, one for many.

A record handed over cannot be taken back, so these futures cannot be cancelled.  A failure that nobody looks at is remembered:
`Producer.close` raises it.
"""

from __future__ import annotations

import contextlib
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures._base import FINISHED, PENDING
from itertools import repeat
from operator import itemgetter
from struct import pack
from typing import Any, Generic, TypeVar, overload

from confluent_kafka import KafkaError, Message

from headrace.client.arguments import seconds
from headrace.client.errors import BatchFailed, BrokerTimeout, DeliveryFailed, WrongState
from headrace.client.logs import log
from headrace.client.records.record import Delivery

T = TypeVar("T")
GATHERED_MAX = 250  # the cheapest of 8, 16, 32, 64 and 250
UNKNOWN = -1  # stands for an offset or a partition that nobody said, where only numbers are kept
_making_locks = threading.Lock()
# Set in the thread that serves delivery reports: a wait there would wait for itself.
serving = threading.local()


def refuse_in_callback(what: str) -> None:
    if getattr(serving, "here", False):
        raise WrongState(f"a delivery callback cannot {what}: the thread that brings deliveries is the one that would wait")


def delivery_of(message: Message) -> Delivery:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    return Delivery(topic, -1 if partition is None else partition, offset, message.timestamp()[1])


class DeliveryFuture(Future[T], Generic[T]):
    """A `concurrent.futures.Future` of a delivery.

    One is made for every record, and most are never waited for, so it does without the lock that its base makes at once:
    the first who waits makes it.  Always: a waiter shows its lock before it looks at the state, and the state is set before
    the lock is looked for; so either the waiter sees the end, or whoever ends it sees the waiter.
    """

    def __init__(self, bootstrap: str) -> None:
        # Not the base's: everything it would set, except the lock.
        self._state = PENDING
        self._result: T | None = None
        self._exception: BaseException | None = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Callable[[Future[T]], Any]] = []
        self._lock: threading.Condition | None = None
        self._bootstrap = bootstrap
        self.observed = False

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        if self._lock is None:
            with _making_locks:
                self._lock = self._lock or threading.Condition()
        return self._lock

    def cancel(self) -> bool:
        return False

    @property
    def failure(self) -> BaseException | None:
        """What it ended with, without that counting as looked at."""
        return self._exception

    def set_result(self, result: T) -> None:
        self._result = result
        self._finish()

    def set_exception(self, exception: BaseException | None) -> None:
        self._exception = exception
        self._finish()

    def _finish(self) -> None:
        self._state = FINISHED
        if self._lock is not None:
            with self._lock:
                for waiter in self._waiters:
                    (waiter.add_exception if self._exception is not None else waiter.add_result)(self)
                self._lock.notify_all()
        # Whoever adds one at this moment may take it out again to call it: then there is none left to pop.
        with contextlib.suppress(IndexError):
            while True:
                self._call(self._done_callbacks.pop(0))

    def add_done_callback(self, fn: Callable[[Future[T]], Any]) -> None:
        # Whether the callback looks at the outcome shows when it asks for it: one that only counts must not hide a failure.
        self._done_callbacks.append(fn)
        if self._state == FINISHED:
            # The end may have come in between: whoever takes it out of the list calls it.
            with contextlib.suppress(ValueError):
                self._done_callbacks.remove(fn)
                self._call(fn)

    def _call(self, callback: Callable[[Future[T]], Any]) -> None:
        try:
            callback(self)
        except BaseException:
            # Also SystemExit: in this thread it would end nothing but the delivery of all other reports.
            log.exception("a delivery callback raised")

    def result(self, timeout: float | None = None) -> T:
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        timeout = None if timeout is None else seconds("timeout", timeout)
        self.observed = True
        self._refuse_to_wait_for_itself()
        try:
            super().exception(timeout)
        except TimeoutError:
            raise BrokerTimeout(
                f"no acknowledgement from {self._bootstrap} within {timeout:g} s; the record is still being tried"
            ) from None

    def _refuse_to_wait_for_itself(self) -> None:
        if self._state != FINISHED:
            refuse_in_callback("wait for another delivery")


class SendFuture(DeliveryFuture[Delivery]):
    """The future of one `send`, and what librdkafka calls back: the delivery is made when somebody asks for it."""

    def __init__(self, bootstrap: str, on_failure: Callable[[SendFuture, KafkaError, Message], None]) -> None:
        super().__init__(bootstrap)
        self._on_failure = on_failure
        self._message: Message | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._on_failure(self, error, message)
            return
        self._message = message
        self._finish()

    def result(self, timeout: float | None = None) -> Delivery:
        self._wait(timeout)
        message = self._message  # looked at once: another thread that asks for the result lets go of it
        if message is not None:
            self._result, self._message = delivery_of(message), None
        return super().result(0)


class Deliveries(Sequence[Delivery]):
    """The receipts of one `send_many`, in the order of acknowledgement: within each partition, the order of sending.

    Kept as bare numbers: a million of them keep neither a million messages alive nor the garbage collector busy.
    """

    __slots__ = ("_offsets", "_partitions", "_timestamps", "_topic")

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._partitions = array("i")
        self._offsets = array("q")
        self._timestamps = array("q")

    def _note(self, messages: list[Message]) -> None:
        """Add what these acknowledged messages say."""
        # No Python runs for a single message, and `pack` takes many numbers faster than an array does one by one.
        count = len(messages)
        offsets = tuple(map(Message.offset, messages))
        if None in offsets:
            offsets = tuple(UNKNOWN if offset is None else offset for offset in offsets)
        self._partitions.frombytes(pack(f"{count}i", *map(Message.partition, messages)))
        self._offsets.frombytes(pack(f"{count}q", *offsets))
        self._timestamps.frombytes(pack(f"{count}q", *map(itemgetter(1), map(Message.timestamp, messages))))

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, index: int) -> Delivery: ...
    @overload
    def __getitem__(self, index: slice) -> list[Delivery]: ...
    def __getitem__(self, index: int | slice) -> Delivery | list[Delivery]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        return Delivery(self._topic, self._partitions[index], _known(self._offsets[index]), self._timestamps[index])

    def __iter__(self) -> Iterator[Delivery]:
        return map(Delivery, repeat(self._topic), self._partitions, map(_known, self._offsets), self._timestamps)

    def __repr__(self) -> str:
        return f"Deliveries({len(self)} records)"


def _known(offset: int) -> int | None:
    return None if offset == UNKNOWN else offset


class BatchReceipt:
    """Counts the reports of one `send_many` and resolves its future with the last of them.

    A report is one append; what it says is read from many at a time.  Always: a report shows its message before it looks at how
    many are `_enough`, and that number is set before the messages are looked at; so the last report or the one who sets it
    resolves the future.
    """

    def __init__(
        self,
        topic: str,
        bootstrap: str,
        describe: Callable[[KafkaError, str, Message], DeliveryFailed],
        on_failure: Callable[[DeliveryFuture[Any], DeliveryFailed], None],
    ) -> None:
        self.future: DeliveryFuture[Deliveries] = DeliveryFuture(bootstrap)
        self._topic = topic
        self._describe = describe
        self._on_failure = on_failure
        self._delivered = Deliveries(topic)
        self._failures: list[DeliveryFailed] = []
        self._arrived: list[Message] = []
        self._enough = GATHERED_MAX  # so many arrived messages are to be gathered
        self.handed_over_count = 0
        self._expected: int | None = None  # None while more may be handed over
        self._resolved = False
        self._settling = threading.Lock()
        self.report = self._reporter()

    def _reporter(self) -> Callable[[KafkaError | None, Message], None]:
        arrived = self._arrived
        append = arrived.append

        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                append(message)
                if len(arrived) < self._enough:
                    return
            else:
                self._failures.append(self._describe(error, self._topic, message))
            self._settle()

        return report

    def handed_over(self, count: int) -> None:
        self.handed_over_count += count

    def complete(self) -> None:
        """No more are handed over: from now on the last report resolves the future."""
        self._expected = self.handed_over_count
        self._settle()

    def _settle(self) -> None:
        with self._settling:
            while True:
                self._gather()
                missing = None if self._expected is None else self._expected - len(self._delivered) - len(self._failures)
                self._enough = GATHERED_MAX if missing is None else min(missing, GATHERED_MAX)
                if missing == 0 or len(self._arrived) < self._enough:
                    break
            resolves = missing == 0 and not self._resolved
            self._resolved = self._resolved or resolves
        if resolves:
            self._resolve()

    def _gather(self) -> None:
        messages = self._arrived[:]
        del self._arrived[: len(messages)]  # and not those that arrive meanwhile
        self._delivered._note(messages)

    def _resolve(self) -> None:
        if self._failures:
            failure = BatchFailed(self._topic, self._delivered, self._failures)
            self._on_failure(self.future, failure)
            self.future.set_exception(failure)
        else:
            self.future.set_result(self._delivered)
