"""Cold reads.  A log belongs to the event loop's thread; what is not in memory is first brought there by another thread.

The thread finds and reads the bytes through descriptors of its own and forgets them: the loop's own read or search then finds
them in the page cache and does not wait for the disk.  That the read itself may fail is for the read to tell.  A search for a
time may have to look at every batch, and is done by the thread alone.
"""

import asyncio
from typing import Final

from headrace.broker.partitions.partition import Partition
from headrace.host.disk import Disk
from headrace.log.results import FoundOffset

# A search is done again when the log was cut or cleaned meanwhile, so many times at most.
SEARCHES_MAX: Final = 3


def is_warm(partition: Partition, offset: int) -> bool:
    """Whether what lies at an offset is in memory, most likely: asking a thread for it would cost more than reading it."""
    return partition.written_lately is None or partition.written_lately.is_warm(offset)


async def warm_up(loop: asyncio.AbstractEventLoop, disk: Disk, partition: Partition, offset: int, size: int) -> None:
    """Bring what a read will want into memory."""
    ahead = partition.log.ahead_of_read(offset, size)
    if ahead is not None:
        await loop.run_in_executor(None, ahead.run, disk)


async def search(
    loop: asyncio.AbstractEventLoop, disk: Disk, partition: Partition, timestamp: int | None, up_to: int
) -> FoundOffset | None:
    """The first record at or after a time; without one, that with the greatest."""
    log = partition.log
    for _ in range(SEARCHES_MAX):
        searching = log.time_search(timestamp, up_to)
        if searching is None:
            break
        got_through = await loop.run_in_executor(None, searching.run, disk)
        if searching.accept():
            if got_through:
                return searching.found
            break
    # Something is wrong with its files, which its owner mends or tells; or it is cut or cleaned all the time.
    return log.offset_of_max_timestamp(up_to) if timestamp is None else log.offset_for_timestamp(timestamp, up_to)
