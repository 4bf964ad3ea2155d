"""Changes that are sent twice and done once: the answer to an `Idempotency-Key` is kept for a while, and given again.

It is this gateway's memory.  Behind a balancer, what must hold over all gateways is asked for with `If-Match`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from headrace.gateway.serving.problems import Problem

KEPT_MAX: Final = 10_000
BYTES_MAX: Final = 64 * 1024 * 1024
KEPT_SECONDS: Final = 24 * 3600.0


@dataclass(slots=True)
class Attempt:
    """One key of one caller."""

    fingerprint: bytes
    began_at: float
    answer: tuple[int, bytes] | None = None
    is_counted: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Memory:
    """Answers by caller and key."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._kept: OrderedDict[tuple[str, str], Attempt] = OrderedDict()
        self._bytes = 0  # of the answers that are kept

    @asynccontextmanager
    async def attempt(self, caller: str, key: str, fingerprint: bytes) -> AsyncIterator[Attempt]:
        """The attempt with this key; who comes while it is under way waits for its answer.  A change that fails is forgotten,
        so that it can be tried again."""
        self._forget_old()
        while True:
            attempt = self._kept.setdefault((caller, key), Attempt(fingerprint, self._now()))
            if attempt.fingerprint != fingerprint:
                raise Problem(
                    422,
                    "idempotency_key_reused",
                    "This Idempotency-Key belongs to another request.",
                    "Use a new key for each change.",
                )
            async with attempt.lock:
                if self._kept.get((caller, key)) is not attempt:
                    continue  # it failed and is forgotten: whoever waited begins anew, one after the other
                try:
                    yield attempt
                finally:
                    self._settle((caller, key), attempt)
                return

    def _settle(self, name: tuple[str, str], attempt: Attempt) -> None:
        if self._kept.get(name) is not attempt:
            return
        if attempt.answer is None:
            del self._kept[name]
        elif not attempt.is_counted:
            attempt.is_counted = True
            self._bytes += len(attempt.answer[1])

    def _forget_old(self) -> None:
        oldest = self._now() - KEPT_SECONDS
        while self._kept:
            # What is under way has no answer yet, and is not forgotten.
            name = next((name for name, each in self._kept.items() if each.answer is not None), None)
            is_full = len(self._kept) >= KEPT_MAX or self._bytes > BYTES_MAX
            if name is None or not (is_full or self._kept[name].began_at < oldest):
                return
            answer = self._kept.pop(name).answer
            self._bytes -= 0 if answer is None else len(answer[1])
