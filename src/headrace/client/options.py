"""Keyword arguments that a call passes on to another, so that type checkers know them there too.

Always the same names and types as in the signature they are passed on to; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from headrace.client.security.options import SecurityOptions

if TYPE_CHECKING:
    from headrace.client.arguments import Duration
    from headrace.client.consumer.consumer import Delivery
    from headrace.client.consumer.membership import PartitionsCallback
    from headrace.client.consumer.settings import Start
    from headrace.client.deadletter.deadletter import DeadLetters
    from headrace.client.errors import DecodeFailed
    from headrace.client.producer.partitioners import Partitioner
    from headrace.client.records.record import HeadersGiven
    from headrace.client.records.serialization import Format
    from headrace.client.tracing.switch import Tracing


class SendOptions(TypedDict, total=False):
    """Of `Producer.send`."""

    key: Any
    headers: HeadersGiven | None
    partition: int | None
    timestamp: datetime | int | None
    ttl: float | timedelta | None
    delay: float | timedelta | None
    at: datetime | int | None


class ProducerOptions(SecurityOptions, total=False):
    """Of `Producer`, for AsyncProducer."""

    keys: Format[Any]
    values: Format[Any]
    acks: Literal["all", 0, 1]
    idempotent: bool | None
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    linger: Duration
    batch_messages: int
    batch_bytes: int
    buffer_messages: int
    buffer_bytes: int
    delivery_timeout: Duration
    connect_timeout: Duration
    retry_backoff: Duration
    retry_backoff_max: Duration
    partitioner: Partitioner | None
    transactional_id: str | None
    transaction_timeout: Duration
    client_id: str
    tracing: Tracing
    librdkafka: Mapping[str, Any] | None


class ConsumerOptions(SecurityOptions, total=False):
    """Of `Consumer`, for AsyncConsumer."""

    group: str | None
    start: Start
    delivery: Delivery
    isolation: Literal["read_committed", "read_uncommitted"]
    commit_interval: Duration
    session_timeout: Duration
    timeout: Duration
    connect_timeout: Duration
    missing_topics: Literal["raise", "wait"]
    assignor: Literal["cooperative-sticky", "range", "roundrobin"]
    protocol: Literal["classic", "consumer"]
    instance_id: str | None
    on_assigned: PartitionsCallback | None
    on_revoked: PartitionsCallback | None
    on_undecodable: Callable[[DecodeFailed], object] | None
    dead_letters: DeadLetters | None
    client_id: str
    tracing: Tracing
    librdkafka: Mapping[str, Any] | None


class PutOptions(TypedDict, total=False):
    """Of `Queue.put`."""

    key: Any
    headers: HeadersGiven | None
    delay: float | timedelta | None
    at: datetime | int | None
    ttl: float | timedelta | None


class QueueOptions(SecurityOptions, total=False):
    """Of `Queue`, for AsyncQueue."""

    attempts: int | None
    backoff: Duration | None
    lock: Duration | None
    dead_letters: str | bool
    prefetch: int | None
    client_id: str
    librdkafka: Mapping[str, Any] | None


class TopicOptions(TypedDict, total=False):
    """Of `Admin.create_topic`."""

    partitions: int | None
    replication: int | None
    settings: Mapping[str, object] | None
    exist_ok: bool


class AdminOptions(SecurityOptions, total=False):
    """Of `Admin`, for AsyncAdmin."""

    timeout: Duration
    connect_timeout: Duration
    client_id: str
    librdkafka: Mapping[str, Any] | None
