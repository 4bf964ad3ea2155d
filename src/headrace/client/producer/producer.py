"""Writing records.

`send` returns at once with a future; librdkafka gathers records into batches (100 of them or 100 ms, whichever is first)
and keeps trying each until `delivery_timeout`.  Always: a future resolves, with a Delivery or with an error, within
`delivery_timeout` of its `send` or when the producer is closed; the buffer never holds more than `buffer_messages` and
`buffer_bytes`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message

from headrace.client.arguments import (
    Duration,
    bootstrap_address,
    milliseconds,
    seconds,
    several,
    timestamp_ms,
    topic_name,
    whole_number,
)
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
)
from headrace.client.lifetimes import watch
from headrace.client.logs import log
from headrace.client.producer.partition_counts import PartitionCounts
from headrace.client.producer.partitioners import KeyHash, Partitioner
from headrace.client.producer.receipts import BatchReceipt, Deliveries, DeliveryFuture, SendFuture, refuse_in_callback
from headrace.client.producer.refusals import Refusals
from headrace.client.producer.serving import flush, flush_here, open_client, serve
from headrace.client.producer.settings import configuration
from headrace.client.producer.transaction import Transaction, Transactions, check_consumer
from headrace.client.producer.unseen import UnseenFailures
from headrace.client.records.record import Delivery, Headers, HeadersGiven, headers_for_sending
from headrace.client.records.serialization import BYTES, Codec, Format, codec, encoded

if TYPE_CHECKING:
    from headrace.client.consumer.consumer import Consumer

Report = Callable[[KafkaError | None, Message], None]
T = TypeVar("T", Delivery, Deliveries)

FULL_WAIT_S = 0.002
INTERRUPTED_FLUSH_S = 2.0  # how long a `with` block that ends in an exception waits for the broker
EXIT_FLUSH_S = 5.0  # how long a process that ends without a `close` does
GIVE_UP_S = 30.0  # for the reports of what was given up, which come from this process alone
BATCH_CHUNK = 1000
ANY_PARTITION = -1
NO_MORE = object()
NO_ROOM = frozenset({"_MSG_TIMED_OUT", "KAFKA_STORAGE_ERROR"})  # what becomes of a record that full disks refuse


class Producer:
    """Sends records.  Use it in a `with` block, which waits at its end until everything is acknowledged; share it between
    threads.

    Durations are seconds or a timedelta.  An argument that is not accepted raises InvalidArgument, which names it.

    Args:
        bootstrap: `host:port`, or several; else `HEADRACE_BOOTSTRAP` from the environment, else 127.0.0.1:9092.
        keys: How keys are written: `bytes` (and str as UTF-8), `str`, `"json"`, or a pair of callables (encode, decode).
        values: The same for values.
        acks: Who has to have a record before it counts as written: `"all"` in-sync replicas, the leader (1), nobody (0).
        idempotent: No record twice or out of order, whatever is tried again.  On, unless `acks` rules it out.
        compression: Of whole batches.
        linger: How long a record may wait for others to share its batch; 0 for the shortest way.
        batch_messages: A batch goes when it has so many records, however long `linger` is.
        batch_bytes: Or when it is so large.
        buffer_messages: How many records may wait to be acknowledged.
        buffer_bytes: And how large they may be together.
        when_full: What `send` does when the buffer is full: `"block"` until there is room, or `"raise"` BufferFull.
        delivery_timeout: How long a record is tried, from its `send` on.
        connect_timeout: How long it is tried when no broker was ever reached: then it is a DeliveryTimeout that says why not.
        retry_backoff: How long to wait before the second attempt; it doubles with each, with jitter.
        retry_backoff_max: What it grows to at most.
        partitioner: KeyHash, RoundRobin, Sticky, Salted, or a callable (topic, key, value, partition_count) -> partition.
        transactional_id: Makes it transactional.  A name that stays the same over restarts; a newer producer fences an older.
        transaction_timeout: After this the broker aborts a transaction that was not ended.
        client_id: What brokers call it in their logs and quotas.
        librdkafka: Any settings of librdkafka by their own names, such as those for TLS and SASL.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | None = None,
        *,
        keys: Format[Any] = bytes,
        values: Format[Any] = bytes,
        acks: Literal["all", 0, 1] = "all",
        idempotent: bool | None = None,
        compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none",
        linger: Duration = 0.1,
        batch_messages: int = 100,
        batch_bytes: int = 1_000_000,
        buffer_messages: int = 100_000,
        buffer_bytes: int = 64 * 1024 * 1024,
        when_full: Literal["block", "raise"] = "block",
        delivery_timeout: Duration = 30.0,
        connect_timeout: Duration = 3.0,
        retry_backoff: Duration = 0.1,
        retry_backoff_max: Duration = 1.0,
        partitioner: Partitioner | None = None,
        transactional_id: str | None = None,
        transaction_timeout: Duration = 60.0,
        client_id: str = "headrace",
        librdkafka: Mapping[str, Any] | None = None,
    ) -> None:
        self.bootstrap = bootstrap_address(bootstrap)
        self._keys = codec("keys", keys)
        self._values = codec("values", values)
        self._partitioner = _checked(partitioner)
        self._native_partitioner = getattr(self._partitioner, "native", None)
        self._delivery_timeout = seconds("delivery_timeout", delivery_timeout, at_least=0.001)
        config = configuration(
            bootstrap=self.bootstrap,
            acks=acks,
            idempotent=idempotent,
            compression=compression,
            linger=linger,
            batch_messages=batch_messages,
            batch_bytes=batch_bytes,
            buffer_messages=buffer_messages,
            buffer_bytes=buffer_bytes,
            when_full=when_full,
            delivery_timeout=self._delivery_timeout,
            retry_backoff=retry_backoff,
            retry_backoff_max=retry_backoff_max,
            native_partitioner=self._native_partitioner,
            transactional_id=transactional_id,
            transaction_timeout_ms=milliseconds("transaction_timeout", transaction_timeout, at_least=1),
            client_id=client_id,
            extra=librdkafka,
        )
        self._blocks = when_full == "block"
        self.buffer_messages = config["queue.buffering.max.messages"]
        self._last_error: str | None = None
        self._fatal_error: str | None = None
        self._closed = False
        self._closed_because = "this producer is closed; open a new one to send more"
        self._unseen = UnseenFailures()
        self._message_bytes_max: int = config["message.max.bytes"]
        self._checked_topics: set[str] = set()
        self._contact = FirstContact(config, seconds("connect_timeout", connect_timeout, at_least=0.1), self._delivery_timeout)
        self._client = open_client(config, self._note_error)
        self._partition_counts = PartitionCounts(self._client, self.bootstrap, self._delivery_timeout)
        self._transactions: Transactions | None = None
        if transactional_id is not None:
            timeout = seconds("transaction_timeout", transaction_timeout)
            self._transactions = Transactions(self.bootstrap, self._client, timeout, self._contact)
        self._start_serving(config)

    def _start_serving(self, config: dict[str, Any]) -> None:
        self._refusals = Refusals(config)
        self._stopping = threading.Event()
        self._server = threading.Thread(
            target=serve, args=(self._client, self._stopping, self._contact), name="headrace-producer", daemon=True
        )
        self._server.start()
        watch(self)

    # Sending

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        headers: HeadersGiven | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
        ttl: float | timedelta | None = None,
    ) -> DeliveryFuture[Delivery]:
        """Hand one record over.  The future has its Delivery once it is acknowledged.

        Args:
            topic: Where to.  The broker creates a topic that does not exist, unless it is set not to.
            value: What `values` takes; None is a tombstone.
            key: What `keys` takes.  Records of one key are in order.
            headers: Names with bytes, str or None, as a dict or, where a name comes twice, as pairs.
            partition: This one, and not what the partitioner says.
            timestamp: When it happened, as a datetime or milliseconds since 1970; now, unless given.
            ttl: How long it is shown to readers, as seconds or a timedelta.

        Raises:
            InvalidArgument: An argument is not accepted; a partition that the topic does not have is one of them.
            EncodeFailed: The key or the value does not fit its format.
            BufferFull: The buffer is full, and `when_full="raise"`.
            BrokerTimeout: It stayed full for `delivery_timeout`, or a broker that had to be asked first did not answer.
            WrongState: The producer is closed, or transactional and outside of a transaction.

        The future raises DeliveryFailed, or DeliveryTimeout with the address when nobody acknowledged in time.  A failure that
        nobody looks at comes out of `close`.
        """
        self._check_sendable(topic)
        raw_key = None if key is None else encoded(self._keys, "key", key, topic)
        raw_value = value if type(value) is bytes and self._values is BYTES else encoded(self._values, "value", value, topic)
        options: dict[str, Any] = {}
        if partition is not None or self._native_partitioner is None:
            options["partition"] = self._choose(topic, raw_key, raw_value, partition)
        if timestamp is not None:
            options["timestamp"] = timestamp_ms("timestamp", timestamp)
        if headers is not None or ttl is not None:
            options["headers"] = headers_for_sending(headers, ttl)
        future = SendFuture(self.bootstrap, self._fail)
        self._hand_over(topic, raw_value, raw_key, future, options, wait=self._blocks)
        return future

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
        self._check_sendable(topic)
        options: dict[str, Any] = {"partition": self._choose(topic, key, value, partition)}
        if headers:
            options["headers"] = headers
        future = SendFuture(self.bootstrap, self._fail)
        self._hand_over(topic, value, key, future, options, wait=self._blocks)
        return future

    def send_many(
        self, topic: str, values: Iterable[Any], *, keys: Iterable[Any] | None = None, partition: int | None = None
    ) -> DeliveryFuture[Deliveries]:
        """Hand many records of one topic over: much cheaper than as many `send`s.  One future for all of them.

        Args:
            topic: Where to.
            values: Any iterable of what `send` takes.
            keys: As many keys, or none.
            partition: The same for all; else the partitioner chooses for each.

        Raises what `send` raises; the future raises BatchFailed, which says what was delivered and what was not.
        """
        return self._send_many(topic, values, keys, partition, wait=self._blocks)

    def send_many_waiting(self, topic: str, values: Iterable[Any], keys: Iterable[Any] | None) -> DeliveryFuture[Deliveries]:
        """`send_many` that waits for room whatever `when_full` says: for a thread that may."""
        return self._send_many(topic, values, keys, None, wait=True)

    def _send_many(
        self, topic: str, values: Iterable[Any], keys: Iterable[Any] | None, partition: int | None, *, wait: bool
    ) -> DeliveryFuture[Deliveries]:
        self._check_sendable(topic)
        several("values", values, "what `send` takes as a value")
        if keys is not None:
            several("keys", keys, "what `send` takes as a key")
        receipt = BatchReceipt(topic, self.bootstrap, self._failure, self._remember)
        chunks = self._chunks(topic, values, keys, partition)
        try:
            for chunk in chunks:
                self._hand_over_chunk(topic, chunk, receipt, wait)
        finally:
            # Also when a value in the middle does not encode: what was handed over before it still resolves the future.
            receipt.complete()
        return receipt.future

    def flush(self, timeout: Duration | None = None) -> None:
        """Return when every record handed over is acknowledged or given up; BrokerTimeout when `timeout` passes first."""
        self._check_open()
        refuse_in_callback("flush")
        if not flush(self._client, None if timeout is None else seconds("timeout", timeout)):
            raise BrokerTimeout(
                f"{len(self._client)} records are not yet acknowledged by "
                f"{self.bootstrap} after {timeout} s ({self._why_waiting()})"
            )

    def transaction(self, consumer: Consumer[Any, Any] | None = None) -> Transaction:
        """A `with` block whose records become visible together at its end, or not at all.

        With a `consumer`, the offsets of what it has handed out are part of the transaction, and after an abort it reads
        them again.
        """
        self._check_open()
        if self._transactions is None:
            raise WrongState(
                "this producer has no transactions; give it a name that "
                "stays the same over restarts: Producer(transactional_id='…')"
            )
        if consumer is not None:
            check_consumer(consumer)
        return Transaction(self, self._transactions, consumer)

    def must_ask_first(self, topic: str, partition: int | None) -> bool:
        """Whether the next record for a topic, or for this partition of it, has to wait for what a broker says about it."""
        if partition is None:
            return self._native_partitioner is None and self._partition_counts.must_ask(topic, None)
        return self._partition_counts.must_ask(topic, whole_number("partition", partition, at_least=0))

    def ask_first(self, topic: str) -> None:
        """Ask a broker what the next record for a topic needs to know: for a thread that may wait."""
        self._partition_counts.ask(topic)

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has, asked at most once a minute."""
        return self._partition_counts.of(topic)

    # Ending

    def close(self, timeout: Duration | None = None) -> None:
        """Wait for what is on its way (at most `timeout`), then let go.  Raises a delivery failure nobody has looked at.
        Again is nothing."""
        if self._closed:
            return
        refuse_in_callback("close its producer")
        failure = self._shut_down(None if timeout is None else seconds("timeout", timeout))
        if failure is not None:
            raise failure

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.close()
        elif not self._closed and (failure := self._shut_down(INTERRUPTED_FLUSH_S)) is not None:
            # The exception on its way out says more than this one, which must not hide it.
            log.warning("%s", failure)

    def __del__(self) -> None:
        stopping = getattr(self, "_stopping", None)
        if stopping is not None:
            stopping.set()
        if not getattr(self, "_closed", True) and (failure := self._unseen.first()) is not None:
            log.error("%s; the producer was not closed, which would have raised this", failure)

    def __len__(self) -> int:
        """Records handed over and not yet acknowledged."""
        return 0 if self._closed else len(self._client)

    def __bool__(self) -> bool:
        return True

    def _shut_down(self, timeout: float | None) -> DeliveryFailed | None:
        self._closed = True
        try:
            flush(self._client, timeout)
        finally:
            self._give_up_the_rest()
            self._stopping.set()
            if threading.current_thread() is not self._server:
                self._server.join()
        return self._unseen.first()

    def _give_up_the_rest(self) -> None:
        """The futures of what is left say so instead of waiting for ever."""
        self._client.purge()
        flush(self._client, GIVE_UP_S)

    def at_exit(self) -> None:
        """The process ends without a `close`: what is on its way has a moment yet, and what is lost is told."""
        if self._closed:
            return
        self._closed = True
        if not flush_here(self._client, EXIT_FLUSH_S):
            self._client.purge()
            flush_here(self._client, GIVE_UP_S)
        if (failure := self._unseen.first()) is not None:
            log.error("%s; the process ended before close() could say so", failure)

    def after_fork(self) -> None:
        """In a child of the process that opened it, where it is of no use."""
        self._closed = True
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
                    message["partition"] = self._choose(topic, message["key"], message["value"], partition)
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

    def _choose(self, topic: str, key: bytes | None, value: bytes | None, given: int | None) -> int:
        if given is not None:
            return self._partition_counts.existing(topic, given)
        if self._native_partitioner is not None:
            return ANY_PARTITION
        count = self._partition_counts.of(topic)
        chosen = self._partitioner(topic, key, value, count)
        if not isinstance(chosen, int) or not 0 <= chosen < count:
            raise InvalidArgument(f"the partitioner chose {chosen!r} for topic '{topic}'; accepted: 0 to {count - 1}")
        return chosen

    def _hand_over(
        self, topic: str, value: bytes | None, key: bytes | None, report: Report, options: dict[str, Any], *, wait: bool
    ) -> None:
        deadline = 0.0
        while True:
            try:
                self._client.produce(topic, value, key, on_delivery=report, **options)
                break
            except BufferError:
                deadline = deadline or time.monotonic() + self._delivery_timeout
                self._wait_for_room(topic, deadline, wait)
            except KafkaException as error:
                raise self._refused(error.args[0], topic, len(value or b"") + len(key or b"")) from None
        if self._closed:
            self._take_back()

    def _take_back(self) -> None:
        """It was closed by another thread at this moment: nobody would ever send what came after."""
        self._give_up_the_rest()
        self._check_open()

    def _hand_over_chunk(self, topic: str, chunk: list[dict[str, Any]], receipt: BatchReceipt, wait: bool) -> None:
        """All of a chunk; those of one partition in their order."""
        deadline = time.monotonic() + self._delivery_timeout
        while wait and len(chunk) <= self.buffer_messages < len(self._client) + len(chunk):
            self._wait_for_room(topic, deadline, wait)
        if len(self._client) + len(chunk) <= self.buffer_messages:
            chunk = [message for same in _by_partition(chunk) for message in self._hand_over_batch(topic, same, receipt)]
        for message in chunk:
            options = {"partition": message["partition"]} if "partition" in message else {}
            self._hand_over(topic, message["value"], message.get("key"), receipt.report, options, wait=wait)
            receipt.handed_over(1)

    def _hand_over_batch(self, topic: str, messages: list[dict[str, Any]], receipt: BatchReceipt) -> list[dict[str, Any]]:
        """Hand over messages of one partition; those for which there was no room come back."""
        partition = messages[0].get("partition", ANY_PARTITION)
        taken = self._client.produce_batch(topic, messages, partition=partition, on_delivery=receipt.report)
        receipt.handed_over(taken)
        if self._closed:
            self._take_back()
        return [] if taken == len(messages) else [message for message in messages if message.pop("_error", None) is not None]

    def _wait_for_room(self, topic: str, deadline: float, wait: bool) -> None:
        if not wait:
            raise BufferFull(
                f"the buffer is full ({len(self._client)} records wait for "
                f"{self.bootstrap}); raise buffer_messages, or send more slowly"
            )
        self._check_open()
        if time.monotonic() >= deadline:
            raise BrokerTimeout(
                f"the buffer for topic '{topic}' stayed full for "
                f"{self._delivery_timeout:g} s: {self.bootstrap} takes nothing ({self._why_waiting()})"
            )
        time.sleep(FULL_WAIT_S)  # the serving thread makes room

    def _refused(self, error: KafkaError, topic: str, size: int) -> Exception:
        if error.name() == "_STATE" and self._transactions is not None:
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

    def _fail(self, future: SendFuture, error: KafkaError, message: Message) -> None:
        failure = self._failure(error, message.topic() or "", message)
        self._remember(future, failure)
        future.set_exception(failure)

    def _remember(self, future: DeliveryFuture[Any], failure: DeliveryFailed) -> None:
        """Keep a failure that nobody looks at, for `close` to raise.  In a transaction it is the commit that tells."""
        if self._transactions is None:
            self._unseen.remember(future, failure)

    def _failure(self, error: KafkaError, topic: str, message: Message | None = None) -> DeliveryFailed:
        if self._fatal_error is not None:
            sentence = f"a record for topic '{topic}' was not written, and this producer cannot go on: {self._fatal_error}"
            return DeliveryFailed(sentence, topic=topic, name=error.name())
        if error.name() in ("_PURGE_QUEUE", "_PURGE_INFLIGHT"):
            if self._contact.why is not None and not self._contact.made:
                sentence = f"a record for topic '{topic}' was not written: {self._contact.why}"
                return DeliveryTimeout(sentence, topic=topic, name=error.name(), retriable=True)
            closed = f"when the producer closed before {self.bootstrap} acknowledged it"
            sentence = (
                f"a record for topic '{topic}' was given up {closed if self._closed else 'when its transaction was rolled back'}"
            )
            return DeliveryFailed(sentence, topic=topic, name=error.name())
        if error.name() in NO_ROOM and (full := self._refusals.full_disks()):
            sentence = f"a record for topic '{topic}' was not written within {self._delivery_timeout:g} s: {full}"
            return DeliveryTimeout(sentence, topic=topic, name=error.name(), retriable=True)
        limit = self._refusals.explain(error.name(), topic)
        return delivery_error(error, topic, self.bootstrap, self._delivery_timeout, self._last_error, message, limit)

    def _why_waiting(self) -> str:
        return self._refusals.full_disks() or self._last_error or "no answer"

    def _note_error(self, error: KafkaError) -> None:
        self._last_error = error.str()
        if error.fatal():
            self._fatal_error = self._last_error
        log.debug("%s: %s", self.bootstrap, self._last_error)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(self._closed_because)

    def _check_sendable(self, topic: str) -> None:
        if self._closed:
            self._check_open()
        if topic not in self._checked_topics:
            self._checked_topics.add(topic_name("topic", topic))
        if self._transactions is not None and not self._transactions.open:
            raise WrongState("a transactional producer sends inside 'with producer.transaction():'")


def _by_partition(messages: list[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    """`produce_batch` heeds only the partition of the whole batch, and not, as it says, that of each message."""
    if "partition" not in messages[0]:
        return (messages,)
    sorted_out: dict[int, list[dict[str, Any]]] = {}
    for message in messages:
        sorted_out.setdefault(message["partition"], []).append(message)
    return sorted_out.values()


def _checked(partitioner: Partitioner | None) -> Partitioner:
    if partitioner is None:
        return KeyHash()
    if callable(partitioner):
        return partitioner
    raise InvalidArgument(
        f"partitioner={partitioner!r} is not accepted; accepted: KeyHash(), RoundRobin(), Sticky(), Salted(n), or a callable"
    )
