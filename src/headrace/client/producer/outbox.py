"""What a producer is inside: the buffer that records are handed over to, and the reports that come back.

Producer is the face of it for people; asyncio, dead letters and redrive are built on this, so that what only they need is not a
method of Producer.  Always: what is handed over is reported on, with a delivery or an error, also when the producer is closed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Message

from headrace.client.arguments import Config, several, topic_name, whole_number
from headrace.client.contact import FirstContact
from headrace.client.errors import (
    BrokerTimeout,
    BufferFull,
    Closed,
    DeliveryFailed,
    DeliveryTimeout,
    InvalidArgument,
    TopicNotFound,
    WrongState,
    delivery_error,
    fatal_reason,
)
from headrace.client.lifetimes import watch
from headrace.client.logs import log
from headrace.client.producer.partition_counts import PartitionCounts
from headrace.client.producer.partitioners import Partitioner
from headrace.client.producer.receipts import BatchReceipt, Deliveries, DeliveryFuture, SendFuture
from headrace.client.producer.refusals import NO_SUCH_TOPIC, NOT_MADE, Refusals
from headrace.client.producer.serving import flush, flush_here, open_client, serve
from headrace.client.producer.transaction import Transactions
from headrace.client.producer.unseen import UnseenFailures
from headrace.client.records.record import Delivery, Headers
from headrace.client.records.serialization import BYTES, Codec, encoded

if TYPE_CHECKING:
    from headrace.client.producer.producer import Producer
    from headrace.client.tracing.spans import Spans

Report = Callable[[KafkaError | None, Message], None]

FULL_WAIT_S = 0.002
EXIT_FLUSH_S = 5.0  # how long a process that ends without a `close` waits for the broker
GIVE_UP_S = 30.0  # for the reports of what was given up, which come from this process alone
BATCH_CHUNK = 1000
ANY_PARTITION = -1
NO_MORE = object()
NO_ROOM = frozenset({"_MSG_TIMED_OUT", "KAFKA_STORAGE_ERROR"})  # what becomes of a record that full disks refuse


class Outbox:
    def __init__(
        self,
        config: Config,
        *,
        bootstrap: str,
        keys: Codec,
        values: Codec,
        partitioner: Partitioner,
        delivery_timeout: float,
        connect_timeout: float,
        transaction_timeout: float | None,
        blocks: bool,
        spans: Spans | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._keys = keys
        self._values = values
        self._partitioner = partitioner
        self._native_partitioner = getattr(partitioner, "native", None)
        self._delivery_timeout = delivery_timeout
        self.blocks = blocks  # when there is no room
        self.spans = spans
        self.buffer_messages: int = config["queue.buffering.max.messages"]
        self._last_error: str | None = None
        self._fatal_error: KafkaError | None = None
        self.closed = False
        self._closed_because = "this producer is closed; open a new one to send more"
        self._unseen = UnseenFailures()
        self._message_bytes_max: int = config["message.max.bytes"]
        self._checked_topics: set[str] = set()
        self._contact = FirstContact(config, connect_timeout, delivery_timeout)
        self.client, self.note_error = open_client(config, self._note_error)
        self.partition_counts = PartitionCounts(self.client, bootstrap, delivery_timeout)
        self.transactions: Transactions | None = None
        if transaction_timeout is not None:
            self.transactions = Transactions(bootstrap, self.client, transaction_timeout, self._contact)
        self._refusals = Refusals(config)
        self._stopping = threading.Event()
        self._server = threading.Thread(
            target=serve,
            args=(self.client, self.note_error, self._stopping, self._contact),
            name="headrace-producer",
            daemon=True,
        )
        self._server.start()
        watch(self)

    # Sending what is bytes already, or many at a time

    def send_bytes(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> DeliveryFuture[Delivery]:
        """Hand over a record that is bytes already, whatever formats this producer has: to pass on what was read elsewhere."""
        self.check_sendable(topic)
        options: dict[str, Any] = {"partition": self.choose(topic, key, value, partition)}
        if headers:
            options["headers"] = headers
        future = SendFuture(self._bootstrap, self.fail)
        self.hand_over(topic, value, key, future, options, wait=self.blocks)
        return future

    def send_many(
        self, topic: str, values: Iterable[Any], keys: Iterable[Any] | None, partition: int | None, *, wait: bool
    ) -> DeliveryFuture[Deliveries]:
        self.check_sendable(topic)
        several("values", values, "what `send` takes as a value")
        if keys is not None:
            several("keys", keys, "what `send` takes as a key")
        receipt = BatchReceipt(topic, self._bootstrap, self._failure, self._remember)
        chunks = self._chunks(topic, values, keys, partition)
        traced: dict[str, Any] = {} if self.spans is None else self._trace_many(self.spans, topic, receipt)
        try:
            for chunk in chunks:
                self._hand_over_chunk(topic, chunk, receipt, traced, wait)
        finally:
            # Also when a value in the middle does not encode: what was handed over before it still resolves the future.
            receipt.complete()
        return receipt.future

    def must_ask_first(self, topic: str, partition: int | None) -> bool:
        """Whether the next record for a topic, or for this partition of it, has to wait for what a broker says about it."""
        if partition is None:
            return self._native_partitioner is None and self.partition_counts.must_ask(topic, None)
        return self.partition_counts.must_ask(topic, whole_number("partition", partition, at_least=0))

    def ask_first(self, topic: str) -> None:
        """Ask a broker what the next record for a topic needs to know: for a thread that may wait."""
        self.partition_counts.ask(topic)

    # Ending

    def __del__(self) -> None:
        stopping = getattr(self, "_stopping", None)
        if stopping is not None:
            stopping.set()
        if not getattr(self, "closed", True) and (failure := self._unseen.first()) is not None:
            log.error("%s; the producer was not closed, which would have raised this", failure)

    def shut_down(self, timeout: float | None) -> DeliveryFailed | None:
        self.closed = True
        try:
            flush(self.client, self.note_error, timeout)
        finally:
            self._give_up_the_rest()
            self._stopping.set()
            if threading.current_thread() is not self._server:
                self._server.join()
        return self._unseen.first()

    def _give_up_the_rest(self) -> None:
        """The futures of what is left say so instead of waiting for ever."""
        self.client.purge()
        flush(self.client, self.note_error, GIVE_UP_S)

    def at_exit(self) -> None:
        """The process ends without a `close`: what is on its way has a moment yet, and what is lost is told."""
        if self.closed:
            return
        self.closed = True
        if not flush_here(self.client, self.note_error, EXIT_FLUSH_S):
            self.client.purge()
            flush_here(self.client, self.note_error, GIVE_UP_S)
        if (failure := self._unseen.first()) is not None:
            log.error("%s; the process ended before close() could say so", failure)

    def after_fork(self) -> None:
        """In a child of the process that opened it, where it is of no use."""
        self.closed = True
        self._closed_because = (
            "this producer was opened before a fork, and works only in the process that opened it; open one in each"
        )

    # Handing over

    def _chunks(
        self, topic: str, values: Iterable[Any], keys: Iterable[Any] | None, partition: int | None
    ) -> Iterator[list[dict[str, Any]]]:
        """Messages as `produce_batch` takes them, a thousand at a time."""
        placed = partition is not None or self._native_partitioner is None
        each_value = iter(values)
        each_key = None if keys is None else iter(keys)
        while some := self._encoded_many("value", self._values, list(islice(each_value, BATCH_CHUNK)), topic):
            if each_key is None and not placed:
                yield [{"value": value} for value in some]
                continue
            their_keys = [None] * len(some) if each_key is None else self._keys_for(some, each_key, topic)
            chunk: list[dict[str, Any]] = [{"value": value, "key": key} for value, key in zip(some, their_keys, strict=True)]
            if placed:
                for message in chunk:
                    message["partition"] = self.choose(topic, message["key"], message["value"], partition)
            yield chunk
        if each_key is not None and next(each_key, NO_MORE) is not NO_MORE:
            raise InvalidArgument("keys holds more than values; accepted: as many of the one as of the other")

    def _keys_for(self, values: list[bytes | None], keys: Iterator[Any], topic: str) -> list[bytes | None]:
        found = self._encoded_many("key", self._keys, list(islice(keys, len(values))), topic)
        if len(found) != len(values):
            raise InvalidArgument("keys holds fewer than values; accepted: as many of the one as of the other")
        return found

    def _encoded_many(self, part: str, using: Codec, values: list[Any], topic: str) -> list[bytes | None]:
        if using is BYTES and set(map(type, values)) <= {bytes}:
            return values
        return [encoded(using, part, value, topic) for value in values]

    def choose(self, topic: str, key: bytes | None, value: bytes | None, given: int | None) -> int:
        if given is not None:
            return self.partition_counts.existing(topic, given)
        if self._native_partitioner is not None:
            return ANY_PARTITION
        count = self.partition_counts.of(topic)
        chosen = self._partitioner(topic, key, value, count)
        if not isinstance(chosen, int) or not 0 <= chosen < count:
            raise InvalidArgument(f"the partitioner chose {chosen!r} for topic '{topic}'; accepted: 0 to {count - 1}")
        return chosen

    def hand_over(
        self, topic: str, value: bytes | None, key: bytes | None, report: Report, options: dict[str, Any], *, wait: bool
    ) -> None:
        if self.spans is None:
            self._hand_over(topic, value, key, report, options, wait)
            return
        span = self.spans.start_send(topic, value, options)
        try:
            self._hand_over(topic, value, key, self.spans.reporting(span, report), options, wait)
        except BufferFull:
            raise  # a record that was not taken has no span: who waits for room tries again and again
        except BaseException as error:
            self.spans.end(span, error)
            raise

    def _hand_over(
        self, topic: str, value: bytes | None, key: bytes | None, report: Report, options: dict[str, Any], wait: bool
    ) -> None:
        deadline = 0.0
        while True:
            try:
                self.client.produce(topic, value, key, on_delivery=report, **options)
                break
            except BufferError:
                deadline = deadline or time.monotonic() + self._delivery_timeout
                self._wait_for_room(topic, deadline, wait)
            except KafkaException as error:
                raise self._refused(error.args[0], topic, len(value or b"") + len(key or b"")) from None
        if self.closed:
            self._take_back()

    def _take_back(self) -> None:
        """It was closed by another thread at this moment: nobody would ever send what came after."""
        self._give_up_the_rest()
        self.check_open()

    def _trace_many(self, spans: Spans, topic: str, receipt: BatchReceipt) -> dict[str, Any]:
        """A span until all are reported on; what each of the records takes along."""
        options: dict[str, Any] = {}
        span = spans.start_send_many(topic, options)
        receipt.future.add_done_callback(lambda _: spans.end_many(span, receipt.handed_over_count, receipt.future.failure))
        return options

    def _hand_over_chunk(
        self, topic: str, chunk: list[dict[str, Any]], receipt: BatchReceipt, traced: dict[str, Any], wait: bool
    ) -> None:
        """All of a chunk; those of one partition in their order.  What is traced goes one by one: librdkafka takes batches
        without headers only."""
        deadline = time.monotonic() + self._delivery_timeout
        while wait and len(chunk) <= self.buffer_messages < len(self.client) + len(chunk):
            self._wait_for_room(topic, deadline, wait)
        if not traced and len(self.client) + len(chunk) <= self.buffer_messages:
            chunk = [message for same in _by_partition(chunk) for message in self._hand_over_batch(topic, same, receipt)]
        for message in chunk:
            options = {"partition": message["partition"], **traced} if "partition" in message else traced
            self._hand_over(topic, message["value"], message.get("key"), receipt.report, options, wait)
            receipt.handed_over(1)

    def _hand_over_batch(self, topic: str, messages: list[dict[str, Any]], receipt: BatchReceipt) -> list[dict[str, Any]]:
        """Hand over messages of one partition; those for which there was no room come back."""
        partition = messages[0].get("partition", ANY_PARTITION)
        taken = self.client.produce_batch(topic, messages, partition=partition, on_delivery=receipt.report)
        receipt.handed_over(taken)
        if self.closed:
            self._take_back()
        return [] if taken == len(messages) else [message for message in messages if message.pop("_error", None) is not None]

    def _wait_for_room(self, topic: str, deadline: float, wait: bool) -> None:
        if not wait:
            raise BufferFull(
                f"the buffer is full ({len(self.client)} records wait for "
                f"{self._bootstrap}); raise buffer_messages, or send more slowly"
            )
        self.check_open()
        if time.monotonic() >= deadline:
            raise BrokerTimeout(
                f"the buffer for topic '{topic}' stayed full for "
                f"{self._delivery_timeout:g} s: {self._bootstrap} takes nothing ({self.why_waiting()})"
            )
        time.sleep(FULL_WAIT_S)  # the serving thread makes room

    def _refused(self, error: KafkaError, topic: str, size: int) -> Exception:
        if error.name() == "_STATE" and self.transactions is not None:
            return WrongState("a transactional producer sends inside 'with producer.transaction():'")
        if error.name() == "_UNKNOWN_TOPIC":
            return TopicNotFound(f"topic '{topic}' does not exist ({error.str()})", code=error.code(), name=error.name())
        if error.name() == "MSG_SIZE_TOO_LARGE":
            return DeliveryFailed(
                f"a record of {size:,} bytes for topic '{topic}' was not sent: with its headers it is above message.max.bytes "
                f"of this producer, which is {self._message_bytes_max:,}; batch_bytes raises it",
                topic=topic,
                name=error.name(),
            )
        return self._failure(error, topic)

    # Reports

    def fail(self, future: SendFuture, error: KafkaError, message: Message) -> None:
        failure = self._failure(error, message.topic() or "", message)
        self._remember(future, failure)
        future.set_exception(failure)

    def _remember(self, future: DeliveryFuture[Any], failure: DeliveryFailed) -> None:
        """Keep a failure that nobody looks at, for `close` to raise.  In a transaction it is the commit that tells."""
        if self.transactions is None:
            self._unseen.remember(future, failure)

    def _failure(self, error: KafkaError, topic: str, message: Message | None = None) -> DeliveryFailed:
        if self._fatal_error is not None:
            sentence = (
                f"a record for topic '{topic}' was not written, and this producer cannot go on: {fatal_reason(self._fatal_error)}"
            )
            return DeliveryFailed(sentence, topic=topic, name=self._fatal_error.name())
        if error.name() in ("_PURGE_QUEUE", "_PURGE_INFLIGHT"):
            if self._contact.why is not None and not self._contact.made:
                sentence = f"a record for topic '{topic}' was not written: {self._contact.why}"
                if self._contact.refusal is not None:
                    failure = DeliveryFailed(sentence, topic=topic, name=error.name())
                    failure.__cause__ = self._contact.refusal
                    return failure
                return DeliveryTimeout(sentence, topic=topic, name=error.name(), retriable=True)
            closed = f"when the producer closed before {self._bootstrap} acknowledged it"
            sentence = (
                f"a record for topic '{topic}' was given up {closed if self.closed else 'when its transaction was rolled back'}"
            )
            return DeliveryFailed(sentence, topic=topic, name=error.name())
        if error.name() in NO_ROOM and (full := self._refusals.full_disks()):
            sentence = f"a record for topic '{topic}' was not written within {self._delivery_timeout:g} s: {full}"
            return DeliveryTimeout(sentence, topic=topic, name=error.name(), retriable=True)
        if error.name() in NO_SUCH_TOPIC and (full := self._refusals.full_disks()):
            sentence = f"a record for topic '{topic}' was not written: {NOT_MADE}: {full}"
            return DeliveryFailed(sentence, topic=topic, name=error.name(), retriable=True)
        limit = self._refusals.explain(error.name(), topic)
        return delivery_error(error, topic, self._bootstrap, self._delivery_timeout, self._last_error, message, limit)

    @property
    def cannot_go_on(self) -> bool:
        """Whether nothing will ever be sent again: another producer may."""
        return self._fatal_error is not None

    def why_waiting(self) -> str:
        return self._refusals.full_disks() or self._last_error or "no answer"

    def _note_error(self, error: KafkaError) -> None:
        self._last_error = error.str()
        if error.fatal():
            self._fatal_error = error
        log.debug("%s: %s", self._bootstrap, self._last_error)

    def check_open(self) -> None:
        if self.closed:
            raise Closed(self._closed_because)

    def check_sendable(self, topic: str) -> None:
        if self.closed:
            self.check_open()
        if topic not in self._checked_topics:
            self._checked_topics.add(topic_name("topic", topic))
        if self.transactions is not None and not self.transactions.open:
            raise WrongState("a transactional producer sends inside 'with producer.transaction():'")


def _by_partition(messages: list[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    """`produce_batch` heeds only the partition of the whole batch, and not, as it says, that of each message."""
    if "partition" not in messages[0]:
        return (messages,)
    sorted_out: dict[int, list[dict[str, Any]]] = {}
    for message in messages:
        sorted_out.setdefault(message["partition"], []).append(message)
    return sorted_out.values()


def outbox_of(producer: Producer) -> Outbox:
    """The inside of a producer, for what is built on top of it."""
    return producer._outbox
