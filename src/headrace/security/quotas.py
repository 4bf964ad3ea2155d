"""Quotas: how much a user, a client id or a topic may send, receive, have done for it, and keep.

A quota holds for the cluster: each broker enforces its share of it.  Whoever goes over is answered at once, told how long to
wait, and not listened to for that long (KIP-219).  With no quotas set, all of this costs one look at an attribute.
"""

from collections.abc import Callable, Mapping
from typing import Final

from headrace.controller.quotas import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    STORAGE_BYTES,
    limit_for_topic,
    shared_limit_for,
)

BURST_S: Final = 1.0
THROTTLE_S_MAX: Final = 30.0
BUCKETS_MAX: Final = 10_000

Limits = Mapping[str, Mapping[str, str]]


class Bucket:
    """Fills at a rate, empties with use, and may be overdrawn: the debt is the time to wait."""

    __slots__ = ("_filled_at", "_level", "rate")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._level = rate * BURST_S
        self._filled_at = now

    def take(self, amount: float, now: float) -> float:
        """Use something; answer how many seconds to wait before the next use."""
        self._level = min(self.rate * BURST_S, self._level + (now - self._filled_at) * self.rate) - amount
        self._filled_at = now
        return min(THROTTLE_S_MAX, max(0.0, -self._level / self.rate))


class Quotas:
    """Limits from the cluster's metadata, and what is left of them on this broker."""

    def __init__(self, limits: Callable[[], Limits], broker_count: Callable[[], int]) -> None:
        self._limits = limits
        self._broker_count = broker_count
        self._buckets: dict[tuple[str, ...], Bucket] = {}
        self.active = False
        self.on_change()

    def on_change(self) -> None:
        """Limits were set or removed, or brokers came or went."""
        self.active = bool(self._limits())
        self._buckets.clear()

    def on_produced(self, user: str, client_id: str, sizes: Mapping[str, int], now: float) -> float:
        """Bytes were written, by topic; seconds to wait."""
        return self._on_bytes(PRODUCER_BYTE_RATE, user, client_id, sizes, now)

    def on_fetched(self, user: str, client_id: str, sizes: Mapping[str, int], now: float) -> float:
        return self._on_bytes(CONSUMER_BYTE_RATE, user, client_id, sizes, now)

    def on_worked(self, user: str, client_id: str, seconds: float, now: float) -> float:
        """The broker spent time on a request; 100 percent is all of one processor."""
        return self._charge(REQUEST_PERCENTAGE, user, client_id, seconds * 100, now)

    def is_full(self, topic: str, stored_bytes: int) -> bool:
        """Whether a topic, with what this broker leads of it, has used up its share of storage."""
        limit = limit_for_topic(self._limits(), STORAGE_BYTES, topic)
        return limit is not None and stored_bytes >= self._share(limit)

    def _on_bytes(self, quota: str, user: str, client_id: str, sizes: Mapping[str, int], now: float) -> float:
        longest = self._charge(quota, user, client_id, sum(sizes.values()), now)
        for topic, size in sizes.items():
            limit = limit_for_topic(self._limits(), quota, topic)
            if limit is not None:
                longest = max(longest, self._bucket((quota, "topic", topic), limit, now).take(size, now))
        return longest

    def _charge(self, quota: str, user: str, client_id: str, amount: float, now: float) -> float:
        found = shared_limit_for(self._limits(), quota, user, client_id)
        if found is None:
            return 0.0
        limit, sharing = found
        return self._bucket((quota, *sharing), limit, now).take(amount, now)

    def _bucket(self, key: tuple[str, ...], limit: float, now: float) -> Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= BUCKETS_MAX:
                self._buckets.clear()
            bucket = self._buckets[key] = Bucket(self._share(limit), now)
        return bucket

    def _share(self, limit: float) -> float:
        return limit / max(1, self._broker_count())
