"""Reads a range of one partition through librdkafka: slower than directly, but with every way to connect and every retry it has.

The end of the range is found by position, never by count: a message at or past the end, or the end-of-partition event at or
past it, means that nothing of the range is left, whatever lies in the gaps.
"""

import time
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition

from headrace.client.errors import GROUP_REFUSED, NO_TOPIC, BrokerTimeout, TopicNotFound
from headrace.client.librdkafka import Consumer, new_consumer
from headrace.model.time_to_live import is_expired
from headrace.spark.client_log import client_logger
from headrace.spark.errors import HeadraceSparkError
from headrace.spark.source.range_read import OutOfRange, RangeRead

MESSAGES_MAX = 10_000
POLL_SECONDS = 1.0
# librdkafka's own defaults hold a single reader to 200,000 small messages/s.
CONSUMER_PROPERTIES: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "queued.min.messages": 200_000,
    "queued.max.messages.kbytes": 65_536,
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 100,
    "reconnect.backoff.max.ms": 1000,
}

_consumers: dict[frozenset[tuple[str, str]], Consumer] = {}  # kept between the tasks of a worker process


def read_through_librdkafka(read: RangeRead, start: int) -> Iterator[pa.RecordBatch]:
    """The rows of the range from `start` on."""
    key = frozenset(read.client.items())
    consumer = _consumers.pop(key, None) or _connect(read)
    one = read.range.partition
    try:
        consumer.assign([ClientPartition(one.topic, one.partition, start)])
        yield from _batches(consumer, read, start)
        consumer.unassign()
        _consumers[key] = consumer
        consumer = None
    finally:
        if consumer is not None:
            consumer.close()


def _connect(read: RangeRead) -> Consumer:
    properties = CONSUMER_PROPERTIES | dict(read.client) | {"group.id": f"{read.group_id_prefix}-{uuid.uuid4()}"}
    return new_consumer(properties, client_logger)


def _batches(consumer: Consumer, read: RangeRead, start: int) -> Iterator[pa.RecordBatch]:
    position, end = start, read.range.end
    deadline = time.monotonic() + read.timeout_ms / 1000
    trouble = ""
    while position < end:
        messages = consumer.consume(MESSAGES_MAX, POLL_SECONDS)
        records: list[Message] = []
        for message in messages:
            error = message.error()
            if error is None:
                position = message.offset() + 1
                if message.offset() < end:
                    records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                position = max(position, message.offset())
            elif error.name() != GROUP_REFUSED:
                trouble = _passing_trouble(error, read, position)
        if records:
            yield from _rows(records, read)
        if messages and not trouble:
            deadline = time.monotonic() + read.timeout_ms / 1000
        elif time.monotonic() >= deadline:
            raise BrokerTimeout(
                f"offset {position} of {read.range.partition} (to be read up to {end}) did not come within {read.timeout_ms} ms"
                + (f": {trouble}" if trouble else "")
            )


def _passing_trouble(error: KafkaError, read: RangeRead, position: int) -> str:
    """Raise what waiting will not mend; say what it may."""
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        raise OutOfRange(position)
    if error.name() in NO_TOPIC:
        raise TopicNotFound(f"{read.range.partition} is not there any more", code=error.code(), name=error.name())
    if error.fatal():
        raise HeadraceSparkError(f"reading {read.range.partition} at offset {position} failed: {error.str()}")
    return str(error.str())


def _rows(messages: list[Message], read: RangeRead) -> Iterator[pa.RecordBatch]:
    """Arrow columns from message objects."""
    messages = [message for message in messages if not _hidden(message, read.now_ms)]
    if not messages:
        return
    count, one = len(messages), read.range.partition
    stamps = [message.timestamp() for message in messages]
    builders = {
        "key": lambda: pa.array([message.key() for message in messages], pa.binary()),
        "value": lambda: pa.array([message.value() for message in messages], pa.binary()),
        "topic": lambda: pa.repeat(pa.scalar(one.topic, pa.string()), count),
        "partition": lambda: pa.array(np.full(count, one.partition, np.int32)),
        "offset": lambda: pa.array([message.offset() for message in messages], pa.int64()),
        "timestamp": lambda: pa.array([stamp * 1000 for _, stamp in stamps], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        "timestampType": lambda: pa.array([int(kind == TIMESTAMP_LOG_APPEND_TIME) for kind, _ in stamps], pa.int32()),
        "headers": lambda: pa.array([_header_row(message) for message in messages], read.schema.field("headers").type),
    }
    yield pa.RecordBatch.from_arrays([builders[name]() for name in read.schema.names], schema=read.schema)


def _hidden(message: Message, now_ms: int) -> bool:
    headers = message.headers()
    return bool(headers) and is_expired(headers, message.timestamp()[1], now_ms)


def _header_row(message: Message) -> list[dict[str, str | bytes | None]] | None:
    headers = message.headers()
    return [{"key": name, "value": value} for name, value in headers] if headers else None
