"""Futures of deliveries: one for one record, one for many.

A record handed over cannot be taken back, so these futures cannot be cancelled.  A failure that nobody looks at is remembered:
`Producer.close` raises it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar, overload

from confluent_kafka import KafkaError, Message

from headrace.client.errors import BatchFailed, BrokerTimeout, DeliveryFailed, WrongState
from headrace.client.record import Delivery

T = TypeVar("T")
# Set in the thread that serves delivery reports: a wait there would wait for itself.
serving = threading.local()


def delivery_of(message: Message) -> Delivery:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    return Delivery(topic, -1 if partition is None else partition, -1 if offset is None else offset, message.timestamp()[1])


class DeliveryFuture(Future[T], Generic[T]):
    """A `concurrent.futures.Future` of a delivery."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._bootstrap = bootstrap
        self.observed = False

    def cancel(self) -> bool:
        return False

    def result(self, timeout: float | None = None) -> T:
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        self.observed = True
        self._refuse_to_wait_for_itself()
        try:
            super().exception(timeout)
        except TimeoutError:
            raise BrokerTimeout(
                f"no acknowledgement from {self._bootstrap} within {timeout:g} s; the record is still being tried"
            ) from None

    def add_done_callback(self, fn: Callable[[Future[T]], Any]) -> None:
        self.observed = True
        super().add_done_callback(fn)

    def _refuse_to_wait_for_itself(self) -> None:
        if getattr(serving, "here", False) and not self.done():
            raise WrongState(
                "a delivery callback cannot wait for another delivery: the thread that brings it is the one that would wait"
            )


class Deliveries(Sequence[Delivery]):
    """The receipts of one `send_many`, in the order of acknowledgement: within each partition, the order of sending."""

    __slots__ = ("_messages",)

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Delivery: ...
    @overload
    def __getitem__(self, index: slice) -> list[Delivery]: ...
    def __getitem__(self, index: int | slice) -> Delivery | list[Delivery]:
        if isinstance(index, slice):
            return [delivery_of(message) for message in self._messages[index]]
        return delivery_of(self._messages[index])

    def __repr__(self) -> str:
        return f"Deliveries({len(self)} records)"


class BatchReceipt:
    """Counts the reports of one `send_many` and resolves its future with the last of them."""

    def __init__(
        self,
        topic: str,
        bootstrap: str,
        describe: Callable[[KafkaError, str], DeliveryFailed],
        on_failure: Callable[[DeliveryFuture[Any], DeliveryFailed], None],
    ) -> None:
        self.future: DeliveryFuture[Deliveries] = DeliveryFuture(bootstrap)
        self._topic = topic
        self._describe = describe
        self._on_failure = on_failure
        self._delivered: list[Message] = []
        self._failures: list[DeliveryFailed] = []
        self._handed_over = 0
        self._complete = False
        self._finishing = threading.Lock()

    def report(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._delivered.append(message)
        else:
            self._failures.append(self._describe(error, self._topic))
        if self._complete:
            self._finish_with_the_last()

    def handed_over(self, count: int) -> None:
        self._handed_over += count

    def complete(self) -> None:
        """No more are handed over: from now on the last report resolves the future."""
        self._complete = True
        self._finish_with_the_last()

    def _finish_with_the_last(self) -> None:
        if len(self._delivered) + len(self._failures) != self._handed_over:
            return
        with self._finishing:
            if self.future.done():
                return
            if self._failures:
                failure = BatchFailed(self._topic, Deliveries(self._delivered), self._failures)
                self._on_failure(self.future, failure)
                self.future.set_exception(failure)
            else:
                self.future.set_result(Deliveries(self._delivered))
