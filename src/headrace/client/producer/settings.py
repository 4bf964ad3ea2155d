"""A producer's arguments as librdkafka's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.client.arguments import Config, choice, label, merged, milliseconds, whole_number
from headrace.client.errors import InvalidArgument

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
STICKY_LINGER_MS = 10
MESSAGE_MAX_BYTES = 1024 * 1024 + 512  # a value of 1 MiB and what is around it; the topic's own limit is the broker's to enforce
# librdkafka's, which names them by properties of its own.
DELIVERY_SECONDS_MAX = 2_147_483
LINGER_SECONDS_MAX = 900
BACKOFF_SECONDS_MAX = 300
BACKOFF_MAX_SECONDS_MAX = 1000
BATCH_BYTES_MAX = 1_000_000_000


def configuration(
    *,
    bootstrap: str,
    acks: object,
    idempotent: bool | None,
    compression: str,
    linger: object,
    batch_messages: int,
    batch_bytes: int,
    buffer_messages: int,
    buffer_bytes: int,
    when_full: str,
    delivery_timeout: float,
    retry_backoff: object,
    retry_backoff_max: object,
    native_partitioner: str | None,
    transactional_id: str | None,
    transaction_timeout_ms: int,
    client_id: str,
    extra: Mapping[str, Any] | None,
) -> Config:
    choice("acks", acks, ("all", 0, 1))
    choice("compression", compression, COMPRESSIONS)
    choice("when_full", when_full, ("block", "raise"))
    choice("idempotent", idempotent, (True, False, None))
    config: Config = {
        "bootstrap.servers": bootstrap,
        "client.id": label("client_id", client_id),
        "acks": acks,
        "enable.idempotence": _idempotent(acks, idempotent, transactional_id),
        "compression.type": compression,
        "linger.ms": milliseconds("linger", linger, at_most=LINGER_SECONDS_MAX),
        "batch.num.messages": whole_number("batch_messages", batch_messages, at_least=1, at_most=1_000_000),
        "batch.size": whole_number("batch_bytes", batch_bytes, at_least=1, at_most=BATCH_BYTES_MAX),
        "message.max.bytes": max(MESSAGE_MAX_BYTES, batch_bytes),
        "queue.buffering.max.messages": whole_number("buffer_messages", buffer_messages, at_least=1),
        "queue.buffering.max.kbytes": max(1, whole_number("buffer_bytes", buffer_bytes, at_least=1024) // 1024),
        "delivery.timeout.ms": max(1, round(delivery_timeout * 1000)),
        "retry.backoff.ms": milliseconds("retry_backoff", retry_backoff, at_least=0.001, at_most=BACKOFF_SECONDS_MAX),
        "retry.backoff.max.ms": milliseconds(
            "retry_backoff_max", retry_backoff_max, at_least=0.001, at_most=BACKOFF_MAX_SECONDS_MAX
        ),
        "sticky.partitioning.linger.ms": STICKY_LINGER_MS,
        "partitioner": native_partitioner or "murmur2_random",
    }
    _check_backoff(config)
    if transactional_id is not None:
        # A record may not outlive its transaction: librdkafka refuses a delivery time-out above the transaction's.
        config["transactional.id"] = label("transactional_id", transactional_id)
        config["transaction.timeout.ms"] = transaction_timeout_ms
        config["delivery.timeout.ms"] = min(config["delivery.timeout.ms"], transaction_timeout_ms)
        # Otherwise librdkafka, when no broker answers for a while, forgets those it knew and may then wait for ever for a group's
        # coordinator among them, whatever the time-out (its issues 5511 and 5456).
        config["metadata.recovery.strategy"] = "none"
    return merged(config, extra)


def _idempotent(acks: object, asked: bool | None, transactional_id: str | None) -> bool:
    """On unless the acknowledgements asked for make it impossible."""
    if transactional_id is not None and (asked is False or acks != "all"):
        raise InvalidArgument(
            f"acks={acks!r}, idempotent={asked!r} do not go with transactional_id; accepted with it: acks='all', idempotent=True"
        )
    if asked is True and acks != "all":
        raise InvalidArgument(f"acks={acks!r} does not go with idempotent=True; accepted with it: 'all'")
    return acks == "all" if asked is None else asked


def _check_backoff(config: Config) -> None:
    if config["retry.backoff.ms"] > config["retry.backoff.max.ms"]:
        first, last = config["retry.backoff.ms"] / 1000, config["retry.backoff.max.ms"] / 1000
        raise InvalidArgument(f"retry_backoff={first:g} is above retry_backoff_max={last:g}; accepted: at most that")
