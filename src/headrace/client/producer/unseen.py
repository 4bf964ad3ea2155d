"""Failures of deliveries that nobody has looked at: `close` raises the first of them, so that none is lost in silence.

Always: of those that nobody has looked at the oldest is kept; memory is bounded however many there are.
"""

from __future__ import annotations

import threading
from typing import Any

from headrace.client.errors import DeliveryFailed
from headrace.client.producer.receipts import DeliveryFuture

KEPT_MAX = 100


class UnseenFailures:
    def __init__(self) -> None:
        self._kept: list[tuple[DeliveryFuture[Any], DeliveryFailed]] = []
        self._lock = threading.Lock()

    def remember(self, future: DeliveryFuture[Any], failure: DeliveryFailed) -> None:
        if future.observed:
            return
        with self._lock:
            if len(self._kept) >= KEPT_MAX:
                self._kept = [each for each in self._kept if not each[0].observed]
            if len(self._kept) < KEPT_MAX:
                self._kept.append((future, failure))

    def first(self) -> DeliveryFailed | None:
        with self._lock:
            return next((failure for future, failure in self._kept if not future.observed), None)
