"""Quotas: how much a user, a client id, an address or a topic may send, receive, have done for it, and keep.

A quota of bytes or of time holds for the cluster: each broker enforces its share of it.  Whoever goes over is answered at once,
told how long to wait, and not listened to for that long (KIP-219).  What a topic keeps is counted where it lies, so its limit is
the whole one.  Changes of the cluster (KIP-599) and new connections (KIP-612) are held to the whole rate by each broker that is
asked, as Kafka does it: clients ask one of them, the controller, for the former, and need a connection to each for the latter.
With no quotas set, all of this costs one look at an attribute.
"""

from collections.abc import Callable, Mapping
from typing import Final

from headrace.controller.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    STORAGE_BYTES,
    limit_for_address,
    limit_for_topic,
    shared_limit_for,
)

BURST_S: Final = 1.0
# Kafka measures both over its windows: eleven of a second each, of which the first ten are whole.
MUTATION_BURST_S: Final = 11.0
CONNECTION_BURST_S: Final = 10.0
THROTTLE_S_MAX: Final = 30.0
TURNED_AWAY_S_MAX: Final = 1.0
BUCKETS_MAX: Final = 10_000

Limits = Mapping[str, Mapping[str, str]]


class Bucket:
    """Fills at a rate, empties with use, and may be overdrawn: the debt is the time to wait."""

    __slots__ = ("_burst", "_filled_at", "_level", "rate")

    def __init__(self, rate: float, now: float, burst_s: float = BURST_S) -> None:
        self.rate = rate
        self._burst = self._level = rate * burst_s
        self._filled_at = now

    def take(self, amount: float, now: float) -> float:
        """Use something; answer how many seconds to wait before the next use."""
        self._level = min(self._burst, self._level + (now - self._filled_at) * self.rate) - amount
        self._filled_at = now
        return self.wait_for(0.0, now)

    def wait_for(self, amount: float, now: float) -> float:
        """How many seconds until there is so much, or, for nothing at all, until there is no debt."""
        return max(0.0, (amount - min(self._burst, self._level + (now - self._filled_at) * self.rate)) / self.rate)


class Quotas:
    """Limits from the cluster's metadata, and what is left of them on this broker."""

    def __init__(self, limits: Callable[[], Limits], broker_count: Callable[[], int]) -> None:
        self._limits = limits
        self._broker_count = broker_count
        self._buckets: dict[tuple[str, ...], Bucket] = {}
        self.active = False
        self.on_change()

    def on_change(self) -> None:
        """Limits were set or removed, or brokers came or went.  Who owes under a limit that stays goes on owing."""
        self.active = bool(self._limits())
        if not self.active:
            self._buckets.clear()

    def on_produced(self, user: str, client_id: str, sizes: Mapping[str, int], now: float) -> float:
        """Bytes were written, by topic; seconds to wait."""
        return self._on_bytes(PRODUCER_BYTE_RATE, user, client_id, sizes, now)

    def on_fetched(self, user: str, client_id: str, sizes: Mapping[str, int], now: float) -> float:
        return self._on_bytes(CONSUMER_BYTE_RATE, user, client_id, sizes, now)

    def on_worked(self, user: str, client_id: str, seconds: float, now: float) -> float:
        """The broker spent time on a request; 100 percent is all of one processor."""
        return self._charge(REQUEST_PERCENTAGE, user, client_id, seconds * 100, now)

    def storage_limit(self, topic: str) -> float | None:
        """How many bytes all partitions of a topic together may hold, each counted once."""
        return limit_for_topic(self._limits(), STORAGE_BYTES, topic)

    def on_connected(self, address: str, now: float) -> float:
        """Somebody connects: 0 when it may, or how long to leave it waiting before it is turned away (KIP-612)."""
        limit = limit_for_address(self._limits(), CONNECTION_CREATION_RATE, address)
        if limit is None:
            return 0.0
        bucket = self._bucket((CONNECTION_CREATION_RATE, address), limit, now, CONNECTION_BURST_S)
        wait = min(TURNED_AWAY_S_MAX, bucket.wait_for(1, now))
        if not wait:
            # Who is turned away uses nothing up: else one that tries too often would never get in.
            bucket.take(1, now)
        return wait

    def mutations(self, user: str, client_id: str, now: float) -> Bucket | None:
        """What is left of a client's partitions to create and delete; None where nothing limits them."""
        found = shared_limit_for(self._limits(), CONTROLLER_MUTATION_RATE, user, client_id)
        if found is None:
            return None
        limit, sharing = found
        return self._bucket((CONTROLLER_MUTATION_RATE, *sharing), limit, now, MUTATION_BURST_S)

    def _on_bytes(self, quota: str, user: str, client_id: str, sizes: Mapping[str, int], now: float) -> float:
        longest = self._charge(quota, user, client_id, sum(sizes.values()), now)
        for topic, size in sizes.items():
            limit = limit_for_topic(self._limits(), quota, topic)
            if limit is not None:
                bucket = self._bucket((quota, "topic", topic), self._share(limit), now)
                longest = max(longest, min(THROTTLE_S_MAX, bucket.take(size, now)))
        return longest

    def _charge(self, quota: str, user: str, client_id: str, amount: float, now: float) -> float:
        found = shared_limit_for(self._limits(), quota, user, client_id)
        if found is None:
            return 0.0
        limit, sharing = found
        return min(THROTTLE_S_MAX, self._bucket((quota, *sharing), self._share(limit), now).take(amount, now))

    def _bucket(self, key: tuple[str, ...], rate: float, now: float, burst_s: float = BURST_S) -> Bucket:
        bucket = self._buckets.get(key)
        if bucket is None or bucket.rate != rate:
            if len(self._buckets) >= BUCKETS_MAX:
                # The oldest only: whoever comes under ever new names does not forgive everybody else.
                del self._buckets[next(iter(self._buckets))]
            bucket = self._buckets[key] = Bucket(rate, now, burst_s)
        return bucket

    def _share(self, limit: float) -> float:
        return limit / max(1, self._broker_count())
