"""Hands rows to a librdkafka producer and sees to it that every one is written, in the order given.

Always: at most about `OUTSTANDING_BYTES` wait in the producer, and it never refuses a message for a full queue, since a refusal
in the middle of a run would reorder what follows.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from headrace.client.contact import FirstContact
from headrace.client.errors import FENCED, InvalidArgument, translate
from headrace.client.librdkafka import new_producer
from headrace.spark.client_log import client_logger
from headrace.spark.errors import DeliveryError, FencedError
from headrace.spark.options.names import wrong_client_property
from headrace.spark.sink.outgoing import ANY_PARTITION, Outgoing, topic_of

OUTSTANDING_BYTES = 64 * 1024 * 1024
OUTSTANDING_MESSAGES = 200_000
RECORD_OVERHEAD_BYTES = 64
FLUSH_SECONDS = 1.0

PRODUCER_PROPERTIES: dict[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 20,
    "batch.num.messages": 10_000,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 2_000_000,
    "message.timeout.ms": 120_000,
    # Equal keys go where the Java client, and so Spark's own sink, puts them.
    "partitioner": "murmur2_random",
    # Whether a row is written is all that counts here, never at which offset.  An acknowledgement may come without one: where
    # the reply for a batch was lost and a later one shows that it had been written.
    "delivery.report.only.error": True,
    "reconnect.backoff.max.ms": 1000,
}
ALIASES = {
    "delivery.timeout.ms": "message.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "compression.codec": "compression.type",
}


class RecordProducer:
    """A producer and the first thing that went wrong with it."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._bootstrap = client["bootstrap.servers"]
        self._properties = client
        self._known_topics: set[str] = set()
        self._first_error: str | None = None
        self._last_trouble = ""
        self.fenced = False  # someone else has taken the transactional id
        named = {ALIASES.get(name, name): value for name, value in client.items() if name != "isolation.level"}
        properties = PRODUCER_PROPERTIES | named | {"on_delivery": self._reported, "error_cb": self._trouble}
        try:
            self.client = new_producer(properties, client_logger)
        except InvalidArgument as error:
            raise wrong_client_property(str(error)) from None

    def close(self) -> None:
        """Let go of threads and connections now.  The client refers back to us, so it would otherwise wait for the collector."""
        del self.client

    def require_topic(self, topic: str, timeout_ms: int) -> None:
        """Fail early when a topic is not there and the brokers do not create it when asked for it, as a producer asks."""
        if topic in self._known_topics:
            return
        deadline = time.monotonic() + timeout_ms / 1000
        FirstContact(self._properties, timeout_ms / 1000).require()
        while True:
            try:
                found = self.client.list_topics(topic, timeout=max(0.1, min(5.0, deadline - time.monotonic()))).topics[topic]
                error = found.error
            except KafkaException as failure:
                self.client.poll(0)
                error = failure.args[0]
            if error is None:
                self._known_topics.add(topic)
                return
            if time.monotonic() >= deadline:
                raise translate(error, f"write to topic '{topic}'", self._bootstrap, self._last_trouble or None)
            time.sleep(0.1)

    def send(self, rows: Outgoing, topic: str | None) -> None:
        """Queue a run of rows, after waiting until there is room for it."""
        self._make_room(rows)
        # librdkafka's batches have no headers, no timestamps, and one partition for all.
        if topic is not None and rows.headers is None and rows.timestamps_ms is None:
            self._send_together(rows, topic)
        else:
            self._send_one_by_one(rows, topic)
        self._serve(0)
        self.check()

    def finish(self) -> None:
        """Wait until everything is written.  librdkafka gives up on a message after `message.timeout.ms`, so this ends."""
        self._serve(0)
        while len(self.client):
            self._serve(FLUSH_SECONDS, flush=True)
            self.check()
        self.check()

    def notice(self, error: KafkaError) -> None:
        """Every error passes here, so that being fenced is not mistaken for another failure."""
        self.fenced = self.fenced or error.name() in FENCED

    def failure(self, reason: str) -> DeliveryError:
        return FencedError(reason) if self.fenced else DeliveryError(reason)

    def check(self) -> None:
        if self._first_error is not None:
            raise self.failure(self._first_error)

    def _serve(self, seconds: float, *, flush: bool = False) -> None:
        """Let librdkafka report.  A fatal error, such as being fenced, comes as an exception, and as one with another on top when
        reports about single records come in the same breath."""
        try:
            self.client.flush(seconds) if flush else self.client.poll(seconds)
        except (KafkaException, SystemError) as failure:
            cause = failure if isinstance(failure, KafkaException) else failure.__cause__ or failure.__context__ or failure
            if isinstance(cause, KafkaException):
                self.notice(cause.args[0])
            raise self.failure(f"the producer gave up: {cause}") from None

    def _make_room(self, rows: Outgoing) -> None:
        row_bytes = rows.byte_count // rows.row_count + RECORD_OVERHEAD_BYTES
        most = min(OUTSTANDING_MESSAGES, OUTSTANDING_BYTES // row_bytes)
        while len(self.client) > most:
            self._serve(0.05)
            self.check()

    def _send_together(self, rows: Outgoing, topic: str) -> None:
        keys = rows.keys or [None] * rows.row_count
        messages: list[dict[str, Any]] = [{"value": value, "key": key} for value, key in zip(rows.values, keys, strict=True)]
        for partition, run in _by_partition(messages, rows.partitions).items():
            if self.client.produce_batch(topic, run, partition=partition) != len(run):
                raise self._refused(topic, partition, next(message["_error"] for message in run if "_error" in message))

    def _send_one_by_one(self, rows: Outgoing, topic: str | None) -> None:
        produce = self.client.produce
        for row in range(rows.row_count):
            extra: dict[str, Any] = {}
            if rows.timestamps_ms is not None and (timestamp := rows.timestamps_ms[row]) is not None:
                extra["timestamp"] = timestamp
            if rows.headers is not None and (headers := rows.headers[row]) is not None:
                extra["headers"] = headers
            partition = None if rows.partitions is None else rows.partitions[row]
            number = ANY_PARTITION if partition is None else partition
            where = topic_of(rows.topics, row, topic)
            try:
                produce(where, rows.values[row], None if rows.keys is None else rows.keys[row], number, **extra)
            except BufferError as error:
                raise self.failure(f"a record for {_place(where, number)} was not written: {error}") from None
            except KafkaException as error:
                raise self._refused(where, number, error.args[0]) from None

    def _refused(self, topic: str, partition: int, error: KafkaError) -> DeliveryError:
        self.notice(error)
        return self.failure(f"a record for {_place(topic, partition)} was not written: {error.str()}")

    def _reported(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.notice(error)
        if error is not None and self._first_error is None:
            where = _place(message.topic(), message.partition())
            why = f" ({self._last_trouble})" if error.code() == KafkaError._MSG_TIMED_OUT and self._last_trouble else ""
            self._first_error = f"a record for {where} was not written: {error.str()}{why}"

    def _trouble(self, error: KafkaError) -> None:
        self.notice(error)
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._last_trouble:
            self._last_trouble = error.str()


def _by_partition(messages: list[dict[str, Any]], partitions: Sequence[int | None] | None) -> Mapping[int, list[dict[str, Any]]]:
    """Messages by where they go; within a partition they keep their order."""
    if partitions is None:
        return {ANY_PARTITION: messages}
    found: dict[int, list[dict[str, Any]]] = {}
    for message, partition in zip(messages, partitions, strict=True):
        found.setdefault(ANY_PARTITION if partition is None else partition, []).append(message)
    return found


def _place(topic: str | None, partition: int | None) -> str:
    """A record that never got a partition has none, or a negative one."""
    return str(topic) if partition is None or partition < 0 else f"{topic}-{partition}"
