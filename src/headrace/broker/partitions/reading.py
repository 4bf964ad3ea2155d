"""Cold reads.  A log belongs to the event loop's thread; what is not in memory is first brought there by another thread.

The thread reads the bytes through a descriptor of its own and forgets them: the loop's own read then finds them in the page cache
and does not wait for the disk.
"""

import asyncio
import logging
from pathlib import Path

from headrace.broker.partitions.partition import Partition
from headrace.host.disk import Disk
from headrace.model.errors import StorageError

logger = logging.getLogger(__name__)

# What is read and forgotten is held in pieces of this size: many may read at once.
PIECE_BYTES = 1024 * 1024


def is_warm(partition: Partition, offset: int) -> bool:
    """Whether what lies at an offset is in memory, most likely: asking a thread for it would cost more than reading it."""
    return partition.written_lately is None or partition.written_lately.is_warm(offset)


async def warm_up(loop: asyncio.AbstractEventLoop, disk: Disk, partition: Partition, offset: int, size: int) -> None:
    """Bring what a read will want into memory.  That the read itself may fail is for the read to tell."""
    try:
        place = partition.log.place_of(offset)
    except StorageError:
        return
    if place is not None:
        await loop.run_in_executor(None, _read_and_forget, disk, *place, size)


def _read_and_forget(disk: Disk, path: Path, position: int, size: int) -> None:
    try:
        file = disk.open(path)
    except OSError:
        return
    try:
        for start in range(position, position + size, PIECE_BYTES):
            if not file.read_at(start, min(PIECE_BYTES, position + size - start)):
                break
    except OSError as error:
        logger.warning("could not read ahead in %s: %s", path, error)
    finally:
        file.close()
