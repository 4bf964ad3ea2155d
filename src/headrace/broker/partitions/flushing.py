"""Group commit: appends of one turn of the event loop share a flush, and appends made during a flush share the next one.

A flush is one `fdatasync` per dirty partition, in a few threads at a time.  There is no write-ahead log that would
write everything twice: see docs/decisions/0011.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from headrace.broker.metrics.figures import DiskFigures
from headrace.model.errors import StorageError

logger = logging.getLogger(__name__)

FLUSH_THREADS = 16
PORTION_ITEMS_MIN = 8  # a thread for less is not worth it
TIMES_MAX = 5_000  # of the latest flushes, remembered


Item = TypeVar("Item")
Report = Callable[[str, Exception], None]
# What was flushed, up to where or why not, and how long it took in seconds.
Synced = tuple["Flushable", int | StorageError, float]


class Flushable(Protocol):
    """What can be flushed: a partition's log, and whoever wants to hear of it."""

    def sync(self) -> int:
        """In a thread: write everything down, return the offset below which all is durable."""
        ...

    def on_flushed(self, offset: int) -> None:
        """On the event loop: everything below `offset` is durable."""
        ...

    def on_storage_failure(self, error: StorageError) -> None:
        """On the event loop: the disk failed."""
        ...


class FlushTimes:
    """How long flushes took lately, one file each, and how long those under way have been."""

    def __init__(self) -> None:
        self._taken: deque[tuple[float, float]] = deque(maxlen=TIMES_MAX)  # when it ended, seconds for each file
        self._began: dict[asyncio.Future[Sequence[Synced]], tuple[float, int]] = {}

    def begin(self, job: "asyncio.Future[Sequence[Synced]]", files: int, now: float) -> None:
        self._began[job] = now, files

    def end(self, job: "asyncio.Future[Sequence[Synced]]", now: float) -> None:
        began, files = self._began.pop(job)
        self._taken.append((now, (now - began) / files))

    def since(self, moment: float) -> list[float]:
        """Seconds that each file took, of flushes that ended since."""
        return [seconds for ended, seconds in self._taken if ended >= moment]

    def under_way(self, now: float) -> float:
        return max(((now - began) / files for began, files in self._began.values()), default=0.0)


def _log(kind: str, error: Exception) -> None:
    logger.error("%s failed", kind, exc_info=error)


class Flusher:
    """Runs flushes so that each partition has at most one under way, and nobody waits for a partition they did not write to."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: int = FLUSH_THREADS,
        report: Report = _log,
        *,
        figures: DiskFigures | None = None,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        """`report` hears of callbacks that fail; `monotonic` is the clock by which flushes are measured, in any thread."""
        self._figures = figures or DiskFigures()
        self._monotonic = monotonic or loop.time
        self._loop = loop
        self._report = report
        self._threads_free = threads
        self._dirty: dict[Flushable, None] = {}
        self._running: set[Flushable] = set()
        self._again: dict[Flushable, None] = {}
        self._scheduled = False
        self.times = FlushTimes()
        self._idle = asyncio.Event()
        self._idle.set()

    def request(self, partition: Flushable) -> None:
        """Have a partition flushed soon."""
        if partition in self._running:
            self._again[partition] = None
            return
        self._dirty[partition] = None
        if not self._scheduled and self._threads_free:
            # At the end of this turn of the loop, so that everything that arrived with this append shares the flush.
            self._scheduled = True
            self._idle.clear()
            self._loop.call_soon(self._start)

    async def drain(self) -> None:
        """Return when nothing is left to flush."""
        await self._idle.wait()

    def _start(self) -> None:
        self._scheduled = False
        while self._dirty and self._threads_free:
            count = -(-len(self._dirty) // self._threads_free)
            batch = [self._dirty.popitem()[0] for _ in range(count)]
            self._running.update(batch)
            self._threads_free -= 1
            job = self._loop.run_in_executor(None, _sync_all, batch, self._monotonic)
            self.times.begin(job, len(batch), self._loop.time())
            job.add_done_callback(self._finish)

    def _finish(self, job: "asyncio.Future[Sequence[Synced]]") -> None:
        self._threads_free += 1
        self.times.end(job, self._loop.time())
        if job.cancelled():
            return
        for partition, result, seconds in job.result():
            self._figures.flushes.observe(seconds)
            if isinstance(result, StorageError):
                self._figures.flush_failures += 1
            self._running.discard(partition)
            if partition in self._again:
                del self._again[partition]
                if not isinstance(result, StorageError):
                    self._dirty[partition] = None
            try:
                if isinstance(result, StorageError):
                    partition.on_storage_failure(result)
                else:
                    partition.on_flushed(result)
            except Exception as error:
                # The thread goes on: others wait for their flushes.
                self._report("flush callback", error)
        if self._dirty:
            self._start()
        if not self._dirty and not self._running:
            self._idle.set()


def _sync_all(partitions: Sequence[Flushable], monotonic: Callable[[], float]) -> Sequence[Synced]:
    results: list[Synced] = []
    for partition in partitions:
        began = monotonic()
        result = _synced(partition)
        results.append((partition, result, monotonic() - began))
    return results


def _synced(partition: Flushable) -> int | StorageError:
    try:
        return partition.sync()
    except StorageError as error:
        return error
    except Exception as error:
        if not isinstance(error, OSError):
            # Not the disk's fault but ours: whoever mends it needs to see where.
            logger.error("the flush of %s failed", partition, exc_info=error)
        return StorageError(partition, "flush", error)


def portions_for_threads(items: Sequence[Item], threads_max: int) -> list[Sequence[Item]]:
    """Parts of about equal length, in order, for as many threads; few items make few portions."""
    size = max(PORTION_ITEMS_MIN, -(-len(items) // threads_max))
    return [items[start : start + size] for start in range(0, len(items), size)]
