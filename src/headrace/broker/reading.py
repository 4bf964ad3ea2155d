"""Reads beside the event loop where they may have to wait for the disk, and on it where the bytes are surely in memory."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from headrace.broker.partition import Partition

Result = TypeVar("Result")

# What was written last is still in the page cache; asking a thread for it would cost more than reading it.
WARM_BYTES = 64 * 1024 * 1024


def is_warm(partition: Partition, offset: int) -> bool:
    """Whether what lies at an offset was, by the log's average, written recently enough to be in memory."""
    log = partition.log
    if log.size_bytes <= WARM_BYTES:
        return True
    records = log.end_offset - log.start_offset
    return (log.end_offset - offset) * (log.size_bytes / max(1, records)) <= WARM_BYTES


async def in_thread_if_cold(
    loop: asyncio.AbstractEventLoop, partition: Partition, read: Callable[..., Result], *arguments: Any
) -> Result:
    """Run a search over a partition's log, in a thread when the log is larger than what is surely in memory."""
    if partition.log.size_bytes <= WARM_BYTES:
        return read(*arguments)
    return await loop.run_in_executor(None, read, *arguments)
