"""Files that nobody needs any more go beside the event loop: each when its delay is over, or at once where the disk is full."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count

from headrace.broker.health.disk_space import DiskSpace
from headrace.broker.metrics.figures import DiskFigures
from headrace.log.interface import RemovedSegment
from headrace.model.errors import StorageError

logger = logging.getLogger(__name__)


class FileRemoval:
    """What waits to be unlinked.  What is left when the broker stops goes at the next start."""

    def __init__(self, loop: asyncio.AbstractEventLoop, space: DiskSpace, figures: DiskFigures | None = None) -> None:
        self._figures = figures or DiskFigures()
        self._loop = loop
        self._space = space
        self._leaving: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._more_leave = asyncio.Event()

    def unlink_soon(self, removed: Sequence[RemovedSegment]) -> None:
        """Let the files of removed segments go."""
        for segment in removed:
            self._figures.removed_segments[segment.reason] += 1
            self._figures.removed_bytes[segment.reason] += segment.size_bytes
            logger.info(
                "removed the segment at offset %d (%d bytes): %s", segment.base_offset, segment.size_bytes, segment.reason
            )
            self.unlink_later(segment.unlink, segment.delay_ms)

    def unlink_later(self, unlink: Callable[[], None], delay_ms: int) -> None:
        """Let files go when their delay is over, or at once where the disk is full."""
        due = self._loop.time() + max(0, delay_ms) / 1000
        heappush(self._leaving, (due, next(self._numbers), unlink))
        self._more_leave.set()

    def __len__(self) -> int:
        """How many files, or sets of files, still wait."""
        return len(self._leaving)

    def make_room(self) -> None:
        """The disk is full: files that wait for their delay to be over go now."""
        self._more_leave.set()

    async def unlink_for_ever(self) -> None:
        """Unlink each file when its delay is over."""
        while True:
            self._more_leave.clear()
            left = self._leaving[0][0] - self._loop.time() if self._leaving else None
            if left is None or (left > 0 and not self._space.is_short):
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._more_leave.wait()
                continue
            _, _, unlink = heappop(self._leaving)
            try:
                await self._loop.run_in_executor(None, unlink)
            except (StorageError, OSError) as error:
                logger.error("could not remove files; they go at the next start: %s", error)
