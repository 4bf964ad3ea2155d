"""Writing records.

`send` returns at once with a future; librdkafka gathers records into batches (100 of them or 100 ms, whichever is first)
and keeps trying each until `delivery_timeout`.  Always: a future resolves, with a Delivery or with an error, within
`delivery_timeout` of its `send` or when the producer is closed; the buffer never holds more than `buffer_messages` and
`buffer_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from headrace.client.arguments import (
    Duration,
    milliseconds,
    seconds,
    timestamp_ms,
)
from headrace.client.errors import BrokerTimeout, InvalidArgument, WrongState
from headrace.client.logs import log
from headrace.client.producer.outbox import Outbox
from headrace.client.producer.partitioners import KeyHash, Partitioner
from headrace.client.producer.receipts import Deliveries, DeliveryFuture, SendFuture, refuse_in_callback
from headrace.client.producer.serving import flush
from headrace.client.producer.settings import DELIVERY_SECONDS_MAX, configuration
from headrace.client.producer.transaction import Transaction, check_consumer
from headrace.client.records.record import Delivery, HeadersGiven, headers_for_sending
from headrace.client.records.serialization import BYTES, Format, codec, encoded
from headrace.client.security.connecting import way_to
from headrace.client.security.options import SecurityOptions, check_names
from headrace.client.tracing.switch import Tracing, spans_for
from headrace.model.delay.headers import CANCEL_HEADER

if TYPE_CHECKING:
    from headrace.client.consumer.consumer import Consumer


INTERRUPTED_FLUSH_S = 2.0  # how long a `with` block that ends in an exception waits for the broker


class Producer:
    """Sends records.  Use it in a `with` block, which waits at its end until everything is acknowledged; share it between
    threads.

    Durations are seconds or a timedelta.  An argument that is not accepted raises InvalidArgument, which names it.

    Args:
        bootstrap: `host:port`, or several; else `HEADRACE_BOOTSTRAP` from the environment, else 127.0.0.1:9092.
        keys: How keys are written: `bytes` (and str as UTF-8), `str`, `"json"`, Avro, JsonSchema or Protobuf by a schema, or a
            pair of callables (encode, decode).
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
        tracing: Spans by OpenTelemetry, and `traceparent` in the headers: True, False, or a TracerProvider; else what
            `HEADRACE_TRACING` in the environment says, on or off.
        librdkafka: Any settings of librdkafka by their own names; they count more than all others.
        security: How to get in: a `profile`, or `username`, `password_file`, `ca_file` and the other SecurityOptions.
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
        tracing: Tracing = None,
        librdkafka: Mapping[str, Any] | None = None,
        **security: Unpack[SecurityOptions],
    ) -> None:
        check_names(security, "Producer")
        self.bootstrap, properties = way_to(bootstrap, security, librdkafka)
        self._keys = codec("keys", keys)
        self._values = codec("values", values)
        chosen = _checked(partitioner)
        delivery = seconds("delivery_timeout", delivery_timeout, at_least=0.001, at_most=DELIVERY_SECONDS_MAX)
        self._native_partitioner = getattr(chosen, "native", None)
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
            delivery_timeout=delivery,
            retry_backoff=retry_backoff,
            retry_backoff_max=retry_backoff_max,
            native_partitioner=self._native_partitioner,
            transactional_id=transactional_id,
            transaction_timeout_ms=milliseconds("transaction_timeout", transaction_timeout, at_least=1),
            client_id=client_id,
            extra=properties,
        )
        self._outbox = Outbox(
            config,
            bootstrap=self.bootstrap,
            keys=self._keys,
            values=self._values,
            partitioner=chosen,
            delivery_timeout=delivery,
            connect_timeout=seconds("connect_timeout", connect_timeout, at_least=0.1),
            transaction_timeout=None if transactional_id is None else seconds("transaction_timeout", transaction_timeout),
            blocks=when_full == "block",
            spans=spans_for(tracing, bootstrap=self.bootstrap, client_id=client_id),
        )

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
        delay: float | timedelta | None = None,
        at: datetime | int | None = None,
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
            delay: How long it waits before it is delivered, as seconds or a timedelta, on a topic with `headrace.delay.enable`.
                Elsewhere it is delivered at once.  The offset in its Delivery is not the one that it is delivered at.
            at: Or when it is delivered, as a datetime or milliseconds since 1970.

        Raises:
            InvalidArgument: An argument is not accepted; a partition that the topic does not have is one of them.
            EncodeFailed: The key or the value does not fit its format.
            BufferFull: The buffer is full, and `when_full="raise"`.
            BrokerTimeout: It stayed full for `delivery_timeout`, or a broker that had to be asked first did not answer.
            WrongState: The producer is closed, or transactional and outside of a transaction.

        The future raises DeliveryFailed, or DeliveryTimeout with the address when nobody acknowledged in time.  A failure that
        nobody looks at comes out of `close`.
        """
        outbox = self._outbox
        outbox.check_sendable(topic)
        raw_key = None if key is None else encoded(self._keys, "key", key, topic)
        raw_value = value if type(value) is bytes and self._values is BYTES else encoded(self._values, "value", value, topic)
        options: dict[str, Any] = {}
        if partition is not None or self._native_partitioner is None:
            options["partition"] = outbox.choose(topic, raw_key, raw_value, partition)
        if timestamp is not None:
            options["timestamp"] = timestamp_ms("timestamp", timestamp)
        if headers is not None or ttl is not None or delay is not None or at is not None:
            options["headers"] = headers_for_sending(headers, ttl, delay, at)
        future = SendFuture(self.bootstrap, outbox.fail)
        outbox.hand_over(topic, raw_value, raw_key, future, options, wait=outbox.blocks)
        return future

    def cancel(self, topic: str, key: Any, *, partition: int | None = None) -> DeliveryFuture[Delivery]:
        """Take back what waits under a key: all that was sent there with a delay and is not due yet.  What is delivered, or about
        to be, stays.  The future has a Delivery once that is decided; it is of no record.

        For topics with `headrace.delay.enable`: elsewhere it would be a tombstone."""
        if key is None:
            raise InvalidArgument("key=None is not accepted; accepted: the key under which something waits")
        outbox = self._outbox
        outbox.check_sendable(topic)
        raw_key = encoded(self._keys, "key", key, topic)
        options: dict[str, Any] = {"headers": [(CANCEL_HEADER, None)]}
        if partition is not None or self._native_partitioner is None:
            options["partition"] = outbox.choose(topic, raw_key, None, partition)
        future = SendFuture(self.bootstrap, outbox.fail)
        outbox.hand_over(topic, None, raw_key, future, options, wait=outbox.blocks)
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
        return self._outbox.send_many(topic, values, keys, partition, wait=self._outbox.blocks)

    def flush(self, timeout: Duration | None = None) -> None:
        """Return when every record handed over is acknowledged or given up; BrokerTimeout when `timeout` passes first."""
        self._outbox.check_open()
        refuse_in_callback("flush")
        if not flush(self._outbox.client, self._outbox.note_error, None if timeout is None else seconds("timeout", timeout)):
            raise BrokerTimeout(
                f"{len(self._outbox.client)} records are not yet acknowledged by "
                f"{self.bootstrap} after {timeout} s ({self._outbox.why_waiting()})"
            )

    def transaction(self, consumer: Consumer[Any, Any] | None = None) -> Transaction:
        """A `with` block whose records become visible together at its end, or not at all.

        With a `consumer`, the offsets of what it has handed out are part of the transaction, and after an abort it reads
        them again.
        """
        self._outbox.check_open()
        if self._outbox.transactions is None:
            raise WrongState(
                "this producer has no transactions; give it a name that "
                "stays the same over restarts: Producer(transactional_id='…')"
            )
        if consumer is not None:
            check_consumer(consumer)
        return Transaction(self, self._outbox.transactions, consumer, self._outbox.spans)

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has, asked at most once a minute."""
        return self._outbox.partition_counts.of(topic)

    # Ending

    def close(self, timeout: Duration | None = None) -> None:
        """Wait for what is on its way (at most `timeout`), then let go.  Raises a delivery failure nobody has looked at.
        Calling it again has no effect."""
        if self._outbox.closed:
            return
        refuse_in_callback("close its producer")
        failure = self._outbox.shut_down(None if timeout is None else seconds("timeout", timeout))
        if failure is not None:
            raise failure

    def __enter__(self) -> Self:
        self._outbox.check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.close()
        elif not self._outbox.closed and (failure := self._outbox.shut_down(INTERRUPTED_FLUSH_S)) is not None:
            # The exception on its way out says more than this one, which must not hide it.
            log.warning("%s", failure)

    def __len__(self) -> int:
        """Records handed over and not yet acknowledged."""
        return 0 if self._outbox.closed else len(self._outbox.client)

    def __bool__(self) -> bool:
        return True


def _checked(partitioner: Partitioner | None) -> Partitioner:
    if partitioner is None:
        return KeyHash()
    if callable(partitioner):
        return partitioner
    raise InvalidArgument(
        f"partitioner={partitioner!r} is not accepted; accepted: KeyHash(), RoundRobin(), Sticky(), Salted(n), or a callable"
    )
