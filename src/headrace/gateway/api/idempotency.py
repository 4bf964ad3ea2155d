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
KEPT_SECONDS: Final = 24 * 3600.0


@dataclass(slots=True)
class Attempt:
    """One key of one caller."""

    fingerprint: bytes
    began_at: float
    answer: tuple[int, bytes] | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Memory:
    """Answers by caller and key."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._kept: OrderedDict[tuple[str, str], Attempt] = OrderedDict()

    @asynccontextmanager
    async def attempt(self, caller: str, key: str, fingerprint: bytes) -> AsyncIterator[Attempt]:
        """The attempt with this key; who comes while it is under way waits for its answer.  A change that fails is forgotten,
        so that it can be tried again."""
        self._forget_old()
        attempt = self._kept.setdefault((caller, key), Attempt(fingerprint, self._now()))
        if attempt.fingerprint != fingerprint:
            raise Problem(
                422,
                "idempotency_key_reused",
                "This Idempotency-Key belongs to another request.",
                "Use a new key for each change.",
            )
        async with attempt.lock:
            try:
                yield attempt
            finally:
                if attempt.answer is None and self._kept.get((caller, key)) is attempt:
                    del self._kept[caller, key]

    def _forget_old(self) -> None:
        oldest = self._now() - KEPT_SECONDS
        while self._kept and (len(self._kept) >= KEPT_MAX or next(iter(self._kept.values())).began_at < oldest):
            self._kept.popitem(last=False)
