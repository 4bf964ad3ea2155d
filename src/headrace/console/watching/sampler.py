"""Looks at the cluster again and again, as the console itself, and keeps what it saw: the newest snapshot, rates, and history.

Where the console's own principal may not look, callers are shown what they see themselves, without rates and without history.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import aiohttp

from headrace.client.brokers.cluster import Cluster
from headrace.client.errors import HeadraceError, SecurityFailed
from headrace.console.watching.broker_metrics import Counted, addresses, rates, scrape
from headrace.console.watching.history import History
from headrace.console.watching.snapshot import Snapshot, take
from headrace.gateway.serving.problems import sentence

logger = logging.getLogger(__name__)

DISKS_EVERY: Final = 6  # samples: to add up all directories costs brokers more than the rest
RATES_OVER: Final = 4  # samples
SHARE: Final = 10  # it rests so many times as long as it looked: a large cluster is looked at more rarely
SERIES_OF_TOPICS_MAX: Final = 800
SERIES_OF_GROUPS_MAX: Final = 800


class Sampler:
    """`newest` is the last snapshot; `trouble` says why there is none newer."""

    def __init__(self, cluster: Callable[[], Cluster], history: History, every_seconds: float) -> None:
        self._cluster = cluster
        self.history = history
        self._every = every_seconds
        self.newest: Snapshot | None = None
        self.trouble: str | None = None
        self.rates: dict[str, float] = {}
        self.figures: dict[str, float] = {}
        self._seen: deque[tuple[float, dict[str, int]]] = deque(maxlen=RATES_OVER + 1)
        self._counted: tuple[float, dict[int, Counted]] = (0.0, {})
        self._pages: dict[int, str] = {}
        self._samples = 0
        self._waiting: set[asyncio.Event] = set()

    async def run(self) -> None:
        """Sample for as long as the task lasts."""
        async with aiohttp.ClientSession() as session:
            while True:
                began = time.monotonic()
                try:
                    await self._sample(session)
                    self.trouble = None
                except SecurityFailed as error:
                    self.trouble = f"The console itself is not let in: {sentence(error)}"
                except HeadraceError as error:
                    self.trouble = sentence(error)
                self._wake()
                took = time.monotonic() - began
                await asyncio.sleep(max(self._every - took, SHARE * took))

    async def next(self, seconds: float) -> None:
        """Return when there is something newer, or after so many seconds."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await event.wait()
        finally:
            self._waiting.discard(event)

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()

    async def _sample(self, session: aiohttp.ClientSession) -> None:
        with_disks = self._samples % DISKS_EVERY == 0 or self.newest is None
        snapshot = await take(self._cluster(), with_disks=with_disks)
        if with_disks:
            self._pages = await addresses(self._cluster(), snapshot.brokers.values())
        elif self.newest is not None:
            _keep_disks(self.newest, snapshot)
        self._samples += 1
        self._reckon_rates(snapshot)
        counted = (time.monotonic(), await scrape(session, self._pages))
        told = rates(self._counted[1], counted[1], counted[0] - self._counted[0])
        self._counted = counted
        self.figures = {**_figures(snapshot), "records_in": sum(self.rates.values()), **told}
        self.newest = snapshot
        await asyncio.to_thread(self._note, snapshot)

    def _reckon_rates(self, snapshot: Snapshot) -> None:
        self._seen.append((snapshot.at, {name: topic.end for name, topic in snapshot.topics.items()}))
        then, ends = self._seen[0]
        seconds = snapshot.at - then
        self.rates = (
            {name: max(0, topic.end - ends.get(name, topic.end)) / seconds for name, topic in snapshot.topics.items()}
            if seconds > 0
            else {}
        )

    def _note(self, snapshot: Snapshot) -> None:
        values = {f"cluster/{name}": value for name, value in self.figures.items()}
        busiest = sorted(self.rates, key=lambda name: self.rates[name], reverse=True)[:SERIES_OF_TOPICS_MAX]
        values |= {f"topic/{name}/records_in": self.rates[name] for name in busiest}
        behind = sorted((group for group in snapshot.groups.values() if group.lag is not None), key=lambda each: -(each.lag or 0))
        values |= {f"group/{group.name}/lag": float(group.lag or 0) for group in behind[:SERIES_OF_GROUPS_MAX]}
        values |= {
            f"topic/{topic.name}/lag": float(topic.lag)
            for topic in snapshot.topics.values()
            if topic.lag is not None and topic.name in busiest
        }
        try:
            self.history.note(snapshot.at, values)
            if self._samples % 100 == 0:
                self.history.forget_the_oldest()
        except OSError as error:
            logger.warning("the history cannot be written: %s", error)


def _keep_disks(before: Snapshot, now: Snapshot) -> None:
    """Sizes are asked for more rarely than all else."""
    now.has_disks = before.has_disks
    for name, topic in now.topics.items():
        if name in before.topics:
            topic.bytes = before.topics[name].bytes
    for number, broker in now.brokers.items():
        if number in before.brokers:
            broker.disks = before.brokers[number].disks


def _figures(snapshot: Snapshot) -> dict[str, float]:
    """What is charted of a cluster."""
    found = {
        "lag": float(sum(group.lag or 0 for group in snapshot.groups.values())),
        "round_trip": snapshot.round_trip_seconds,
        "under_replicated": float(sum(topic.under_replicated for topic in snapshot.topics.values())),
        "brokers": float(len(snapshot.brokers)),
    }
    disks = [disk for broker in snapshot.brokers.values() for disk in broker.disks if disk.total]
    if disks:
        found["disk_used"] = max(1 - (disk.free or 0) / (disk.total or 1) for disk in disks)
    return found
