"""Cold reads.  A log belongs to the event loop's thread; what is not in memory is first brought there by another thread.

The thread finds and reads the bytes through descriptors of its own and forgets them: the loop's own read or search then finds
them in the page cache and does not wait for the disk.  That the read itself may fail is for the read to tell.
"""

import asyncio

from headrace.broker.partitions.partition import Partition
from headrace.host.disk import Disk


def is_warm(partition: Partition, offset: int) -> bool:
    """Whether what lies at an offset is in memory, most likely: asking a thread for it would cost more than reading it."""
    return partition.written_lately is None or partition.written_lately.is_warm(offset)


async def warm_up(loop: asyncio.AbstractEventLoop, disk: Disk, partition: Partition, offset: int, size: int) -> None:
    """Bring what a read will want into memory."""
    ahead = partition.log.ahead_of_read(offset, size)
    if ahead is not None:
        await loop.run_in_executor(None, ahead.run, disk)


async def warm_up_search(
    loop: asyncio.AbstractEventLoop, disk: Disk, partition: Partition, timestamp: int | None, up_to: int
) -> None:
    """Bring what a search for a time will want into memory; without one, what a search for the greatest will."""
    if is_warm(partition, partition.log.start_offset):
        return
    ahead = partition.log.ahead_of_search(timestamp, up_to)
    if ahead is not None:
        await loop.run_in_executor(None, ahead.run, disk)
