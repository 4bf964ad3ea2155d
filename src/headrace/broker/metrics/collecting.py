"""A scrape: collectors are asked in slices on the event loop, and what they found is written out in a thread.

Always: one scrape at a time; the loop is kept for no longer than a slice, however many partitions there are.
"""

import asyncio
import zlib
from collections.abc import Generator
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from headrace.broker.housekeeping.slices import in_slices
from headrace.host.clock import Clock
from headrace.metrics.rendering import Form, rendered
from headrace.metrics.scrape import Scrape

# A generator that yields None between two small pieces of work, or a function for a thread, whose result it is sent.
Collecting = Generator[Any, Any, None]
GZIP = 31  # zlib's word for it
FASTEST = 1


class Page(StrEnum):
    """Few series for every installation; and those by topic, partition, group and client."""

    SUMMARY = "/metrics"
    DETAIL = "/metrics/detail"


class Collector(Protocol):
    """Knows the numbers of one part of the broker."""

    def collect(self, scrape: Scrape, page: Page) -> Collecting:
        """Add what there is to say on a page."""
        ...


@runtime_checkable
class Preparing(Protocol):
    """A collector that has to ask somebody else first."""

    async def prepare(self, page: Page) -> None:
        """Return when it is ready to collect."""
        ...


class Collection:
    """All that a broker can say of itself.  Collectors may be added while it runs: at first there is only the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self.collectors: list[Collector] = []

    async def page(self, page: Page, form: Form, *, compressed: bool) -> bytes:
        """One page as it is now."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            scrape = Scrape()
            for collector in list(self.collectors):
                if isinstance(collector, Preparing):
                    await collector.prepare(page)
                await in_slices(loop, self._clock, collector.collect(scrape, page))
            return await loop.run_in_executor(None, _page_bytes, scrape, form, compressed)


def _page_bytes(scrape: Scrape, form: Form, compressed: bool) -> bytes:
    pieces = rendered(scrape, form)
    if not compressed:
        return b"".join(pieces)
    compressor = zlib.compressobj(FASTEST, wbits=GZIP)
    return b"".join([*(compressor.compress(piece) for piece in pieces), compressor.flush()])
