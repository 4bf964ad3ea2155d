"""Transactions of a producer: records in several partitions, and the offsets they were made from, together or not at all.

Always: a transaction that was begun ends in a commit or an abort, whatever leaves its `with` block.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from headrace.client.consumer.feed import feed_of
from headrace.client.contact import FirstContact
from headrace.client.errors import (
    BrokerError,
    BrokerTimeout,
    Fenced,
    HeadraceError,
    InvalidArgument,
    TransactionAborted,
    WrongState,
    translate,
)
from headrace.client.librdkafka import Producer as Librdkafka
from headrace.client.logs import log
from headrace.model.identity import TopicPartition

if TYPE_CHECKING:
    from headrace.client.consumer.consumer import Consumer
    from headrace.client.options import SendOptions
    from headrace.client.producer.producer import Producer
    from headrace.client.producer.receipts import DeliveryFuture
    from headrace.client.records.record import Delivery
    from headrace.client.tracing.spans import Spans

SLICE_S = 1.0  # librdkafka continues an operation that is called again after a time-out, so Ctrl-C waits no longer than this


class Transactions:
    """The one transactional identity of a producer, and whether a transaction is open on it."""

    def __init__(self, bootstrap: str, client: Librdkafka, timeout: float, contact: FirstContact) -> None:
        self._bootstrap = bootstrap
        self.open = False
        self._client = client
        self._timeout = timeout
        self._contact = contact
        self._initialised = False
        self._fenced: Fenced | None = None

    def begin(self) -> None:
        if self._fenced is not None:
            raise self._fenced
        if self.open:
            raise WrongState("a transaction is already open on this producer; end it first, or use a second producer")
        if not self._initialised:
            self._contact.require()
            self._patiently("begin a transaction", self._client.init_transactions)
            self._initialised = True
        self._patiently("begin a transaction", lambda _timeout: self._client.begin_transaction())
        self.open = True

    def send_offsets(self, positions: list[ClientPartition], group_metadata: Any) -> None:
        self._patiently(
            "send offsets to the transaction",
            lambda timeout: self._client.send_offsets_to_transaction(positions, group_metadata, timeout),
        )

    def commit(self) -> None:
        try:
            self._patiently("commit the transaction", self._client.commit_transaction)
        except TransactionAborted:
            self.abort()
            raise
        self.open = False

    def abort(self) -> None:
        try:
            self._patiently("abort the transaction", self._client.abort_transaction)
        finally:
            self.open = False

    def _patiently(self, action: str, call: Callable[[float], None]) -> None:
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return call(SLICE_S)
            except KafkaException as error:
                self._raise_unless_worth_another_try(error.args[0], action, deadline)

    def _raise_unless_worth_another_try(self, error: KafkaError, action: str, deadline: float) -> None:
        bootstrap = self._bootstrap
        if error.txn_requires_abort():
            raise TransactionAborted(f"could not {action}: {error.str()}") from None
        if error.fatal():
            self._fenced = Fenced(f"could not {action}, and this producer cannot go on: {error.str()}")
            self.open = False
            raise self._fenced from None
        if not error.retriable() and error.name() != "_TIMED_OUT":
            raise translate(error, action, bootstrap) from None
        if time.monotonic() >= deadline:
            raise BrokerTimeout(
                f"could not {action}: no answer from {bootstrap} within {self._timeout:g} s ({error.str()})"
            ) from None


class Transaction:
    """One `with` block.  What is sent inside is visible to `read_committed` readers when the block has ended well."""

    def __init__(
        self,
        producer: Producer,
        transactions: Transactions,
        consumer: Consumer[Any, Any] | None,
        spans: Spans | None = None,
    ) -> None:
        self._producer = producer
        self._spans = spans
        self._transactions = transactions
        self._consumer = consumer

    def send(self, topic: str, value: Any, **options: Unpack[SendOptions]) -> DeliveryFuture[Delivery]:
        """The same as the producer's own `send`."""
        return self._producer.send(topic, value, **options)

    def send_offsets(
        self,
        consumer: Consumer[Any, Any],
        offsets: Mapping[TopicPartition, int] | None = None,
        notes: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """Make the consumer's offsets part of this transaction: those of all it has handed out, or the `offsets` given.
        `notes` are kept beside them, as the metadata of the commit."""
        check_consumer(consumer)
        positions = consumer.positions() if offsets is None else offsets
        if positions:
            beside = notes or {}
            partitions = [
                ClientPartition(each.topic, each.partition, offset, beside.get(each, "")) for each, offset in positions.items()
            ]
            self._transactions.send_offsets(partitions, feed_of(consumer).group_metadata())

    @property
    def is_open(self) -> bool:
        """Whether it has begun and not ended."""
        return self._transactions.open

    def __enter__(self) -> Self:
        self._transactions.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self._commit()
        else:
            self._abort_quietly()

    def _commit(self) -> None:
        try:
            if self._spans is None:
                self._send_offsets_and_commit()
            else:
                self._spans.committing(self._consumer_positions(), self._send_offsets_and_commit)
        except BaseException as error:
            if self._transactions.open:
                self._abort_quietly()
            elif not isinstance(error, Fenced):
                self._rewind()
            raise

    def _send_offsets_and_commit(self) -> None:
        if self._consumer is not None:
            self.send_offsets(self._consumer)
        self._transactions.commit()

    def _consumer_positions(self) -> Mapping[TopicPartition, int]:
        return {} if self._consumer is None else self._consumer.positions()

    def _abort_quietly(self) -> None:
        """Roll back.  A failure here must not hide the reason for rolling back; the broker ends the transaction by its
        time-out."""
        try:
            self._transactions.abort()
        except BrokerError as failure:
            # Ctrl-C in the middle of a commit that succeeded: there is nothing to roll back.
            log.log(logging.DEBUG if failure.name == "_STATE" else logging.WARNING, "%s", failure)
        except HeadraceError as failure:
            log.warning("%s", failure)
        self._rewind()

    def _rewind(self) -> None:
        if self._consumer is not None:
            feed_of(self._consumer).rewind_to_committed()


def check_consumer(consumer: object) -> None:
    """One that commits by itself would do so before the transaction does, and lose what an abort takes back."""
    delivery = getattr(consumer, "delivery", None)
    if delivery != "exactly_once":
        given = f"={consumer!r} is not accepted" if delivery is None else f" has delivery={delivery!r}, and commits by itself"
        raise InvalidArgument(f"consumer{given}; accepted: a Consumer with a group and delivery='exactly_once'")
