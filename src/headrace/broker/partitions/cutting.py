"""Cutting a replica's log, so that the event loop does not wait for the disk.

What is written down of a log must not reach beyond its end, so that is lowered on the medium first, in a thread; the cut itself
is then a matter of names and of file sizes.  Between the two anything may happen: whoever wants a cut says until when.
"""

import asyncio
from collections.abc import Callable

from headrace.broker.housekeeping.file_removal import FileRemoval
from headrace.broker.partitions.partition import Partition
from headrace.log.interface import RemovedSegment
from headrace.log.log import Log
from headrace.log.truncation import Cut


class LogCutter:
    """Cuts the logs of one broker's replicas."""

    def __init__(self, loop: asyncio.AbstractEventLoop, removal: FileRemoval) -> None:
        self._loop = loop
        self._removal = removal

    async def truncate_to(self, partition: Partition, offset: int, is_wanted: Callable[[], bool]) -> bool:
        """Remove everything at and after an offset; whether that was still wanted when it came to it.  Raises StorageError."""
        log = partition.log
        begun = log.truncation.begin(offset) if isinstance(log, Log) else None
        return await self._cut(partition, begun, is_wanted, lambda: log.truncate_to(offset))

    async def start_over_at(self, partition: Partition, offset: int, is_wanted: Callable[[], bool]) -> bool:
        """Remove everything; the next record gets this offset.  Whether it was still wanted.  Raises StorageError."""
        log = partition.log
        begun = log.truncation.begin_starting_over(offset) if isinstance(log, Log) else None
        return await self._cut(partition, begun, is_wanted, lambda: log.truncate_fully_and_start_at(offset))

    async def _cut(
        self,
        partition: Partition,
        begun: Cut | None,
        is_wanted: Callable[[], bool],
        shorten: Callable[[], list[RemovedSegment]],
    ) -> bool:
        log = partition.log
        if begun is None or not isinstance(log, Log):
            self._removal.unlink_soon(shorten())
            partition.on_truncated()
            return True
        try:
            await self._loop.run_in_executor(None, log.truncation.prepare, begun)
            if not is_wanted():
                return False
            self._removal.unlink_soon(shorten())
            partition.on_truncated()
            return True
        finally:
            log.truncation.end(begun)
            if partition.config.flush == "ack":
                # What a flush did not dare to promise meanwhile.
                partition.flush_soon()
