"""How many requests a principal may make in a second: a bucket that fills at that rate and holds two seconds' worth."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from headrace.gateway.serving.problems import Problem

HELD_SECONDS: Final = 2.0
KNOWN_MAX: Final = 10_000


class Rates:
    """Buckets by principal."""

    def __init__(self, per_second: float, now: Callable[[], float]) -> None:
        self._per_second = per_second
        self._now = now
        self._buckets: dict[str, tuple[float, float]] = {}  # what is in it, and when that was so

    def take(self, name: str) -> None:
        """One request; a Problem when the bucket is empty."""
        if not self._per_second:
            return
        now, full = self._now(), max(1.0, self._per_second * HELD_SECONDS)
        held, since = self._buckets.get(name, (full, now))
        held = min(full, held + (now - since) * self._per_second)
        if held < 1:
            wait = math.ceil((1 - held) / self._per_second)
            raise Problem(
                429,
                "too_many_requests",
                "This principal has made more requests than it may in a second.",
                "Wait as Retry-After says.",
                headers={"Retry-After": str(wait)},
            )
        if len(self._buckets) >= KNOWN_MAX and name not in self._buckets:
            self._buckets = {each: (left, at) for each, (left, at) in self._buckets.items() if now - at < HELD_SECONDS}
        self._buckets[name] = (held - 1, now)
