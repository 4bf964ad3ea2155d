"""The cluster as the caller of a request may see it.

What the console samples for itself is shown to those who are the same principal.  Anybody else is shown what the brokers tell
them, looked at again after a few seconds; the console adds only how fast it grew.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.console.reach import console_of
from headrace.console.watching.snapshot import Snapshot, take
from headrace.gateway.api.call import Call
from headrace.gateway.serving.problems import no_broker

if TYPE_CHECKING:
    from headrace.gateway.callers.caller import Caller

FRESH_S: Final = 4.0
KEPT_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class View:
    """A snapshot, how many records a second each topic got, and the figures of the whole cluster."""

    snapshot: Snapshot
    rates: dict[str, float]
    figures: dict[str, float]


class Views:
    """Snapshots of callers, for a few seconds each."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, Snapshot]] = {}
        self._taking: dict[str, asyncio.Lock] = {}

    async def of(self, caller: Caller) -> Snapshot:
        async with self._taking.setdefault(caller.key, asyncio.Lock()):
            at, snapshot = self._kept.pop(caller.key, (0.0, None))
            if snapshot is None or time.monotonic() - at > FRESH_S:
                at, snapshot = time.monotonic(), await take(caller.cluster)
            while len(self._kept) >= KEPT_MAX:
                oldest = next(iter(self._kept))
                del self._kept[oldest]
                self._taking.pop(oldest, None)
            self._kept[caller.key] = (at, snapshot)
        return snapshot


async def view_of(call: Call) -> View:
    """What the caller sees."""
    console = console_of(call)
    sampler = console.sampler
    if console.is_own_principal(call.caller):
        if sampler.newest is None:
            await sampler.next(FRESH_S)
        if sampler.newest is None:
            raise no_broker(sampler.trouble or "No broker has answered yet.")
        return View(sampler.newest, sampler.rates, sampler.figures)
    snapshot = await console.views.of(call.caller)
    return View(snapshot, {name: rate for name, rate in sampler.rates.items() if name in snapshot.topics}, sampler.figures)
