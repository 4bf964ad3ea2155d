"""Clients that tell their metrics: what each was asked for, when it was last heard of, and the numbers it told.

Always bounded: so many clients, so many series of each and of all.  Who is not heard of for three intervals is forgotten.
"""

import math
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final
from uuid import UUID

from headrace.broker.telemetry.otlp import Labels, Point
from headrace.broker.telemetry.subscriptions import ALL, INTERVAL_MS_DEFAULT, Subscription
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode

INSTANCES_MAX: Final = 2000
SERIES_PER_INSTANCE_MAX: Final = 200
SERIES_MAX: Final = 20_000
SILENT_MS_MAX: Final = 60_000
PREFIX: Final = "org.apache.kafka."
NEVER: Final = -math.inf

# A metric and the labels that tell its series apart.
SeriesKey = tuple[str, Labels]
KEPT_LABELS: Final = ("node_id", "topic", "partition")


@dataclass(slots=True)
class Series:
    """One number of a client."""

    value: float
    only_grows: bool


@dataclass(slots=True)
class Instance:
    """One client, as long as its process lives; another broker may know it, too."""

    instance_id: UUID
    client: Mapping[str, str]
    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int
    asked_at_ms: float = NEVER
    pushed_at_ms: float = NEVER
    heard_at_ms: float = NEVER
    is_ending: bool = False
    last_error: ErrorCode = ErrorCode.NONE
    series: dict[SeriesKey, Series] = field(default_factory=dict)

    def may_ask(self, now_ms: float) -> bool:
        """Once in an interval; and at once where it was just told that what it knows is wrong."""
        if self.last_error in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
            return True
        return now_ms - max(self.asked_at_ms, self.pushed_at_ms) >= self.interval_ms

    def may_push(self, now_ms: float) -> bool:
        """Once in an interval; the first time after it asked, earlier: clients spread their first push (KIP-714)."""
        return self.asked_at_ms > self.pushed_at_ms or now_ms - self.pushed_at_ms >= self.interval_ms


class Instances:
    """All clients that this broker knows."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[UUID, Instance] = OrderedDict()  # who was heard of last stands last
        self.series_count = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Instance]:
        return iter(list(self._by_id.values()))

    def find(self, instance_id: UUID, now_ms: float) -> Instance | None:
        """Who it is, if it is known; from now on it was heard of now."""
        found = self._by_id.get(instance_id)
        if found is not None:
            self._by_id.move_to_end(instance_id)
            found.heard_at_ms = now_ms
        return found

    def add(self, instance_id: UUID, client: Mapping[str, str], subscriptions: Iterable[Subscription], now_ms: float) -> Instance:
        """Somebody new, or somebody who is asked for other things from now on."""
        metrics, interval_ms = _wanted(client, subscriptions)
        number = _subscription_id(metrics, interval_ms, instance_id)
        if (before := self._by_id.pop(instance_id, None)) is not None:
            self.series_count -= len(before.series)
        instance = Instance(instance_id, client, number, metrics, interval_ms, heard_at_ms=now_ms)
        self._by_id[instance_id] = instance
        if len(self._by_id) > INSTANCES_MAX:
            _, oldest = self._by_id.popitem(last=False)
            self.series_count -= len(oldest.series)
        return instance

    def take(self, instance: Instance, points: Iterable[Point]) -> None:
        """Keep what a client told.  It is forgotten with the client."""
        if self._by_id.get(instance.instance_id) is not instance:
            return
        for point in points:
            if not math.isfinite(point.value):
                continue
            key = point.metric.removeprefix(PREFIX), _kept(point.labels)
            series = instance.series.get(key)
            if series is not None:
                series.value = series.value + point.value if point.is_delta else point.value
            elif len(instance.series) < SERIES_PER_INSTANCE_MAX and self.series_count < SERIES_MAX:
                instance.series[key] = Series(point.value, point.only_grows)
                self.series_count += 1
            else:
                self.dropped += 1

    def forget_silent(self, now_ms: float) -> None:
        """Those who were not heard of for so long that they are gone, or push elsewhere."""
        for instance in self:
            if now_ms - instance.heard_at_ms > max(SILENT_MS_MAX, 3 * instance.interval_ms):
                del self._by_id[instance.instance_id]
                self.series_count -= len(instance.series)


def _kept(labels: Labels) -> Labels:
    named = {name.replace(".", "_"): text for name, text in labels}
    return tuple((name, named[name]) for name in KEPT_LABELS if name in named)


def _wanted(client: Mapping[str, str], subscriptions: Iterable[Subscription]) -> tuple[tuple[str, ...], int]:
    """All that somebody wants of a client, as often as the most impatient wants it."""
    metrics: set[str] = set()
    interval_ms = INTERVAL_MS_DEFAULT
    for subscription in subscriptions:
        if subscription.concerns(client):
            metrics.update(subscription.metrics)
            interval_ms = min(interval_ms, subscription.interval_ms)
    return ((ALL,) if ALL in metrics else tuple(sorted(metrics))), interval_ms


def _subscription_id(metrics: tuple[str, ...], interval_ms: int, instance_id: UUID) -> int:
    """Another number for everything else that is asked; all brokers come to the same."""
    checksum = zlib.crc32(f"{','.join(metrics)} {interval_ms} {instance_id}".encode())
    return checksum - (1 << 32) if checksum >> 31 else checksum
