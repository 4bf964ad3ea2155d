"""The end of all logs: what is not on disk yet is flushed, in many threads at once, and then everything is written down."""

import asyncio
from collections.abc import Iterable

from headrace.broker.health.step_reports import StepReports
from headrace.broker.housekeeping.housekeeping import positions
from headrace.broker.partitions.flushing import FLUSH_THREADS, Flusher, portions_for_threads
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.storage import Storage


async def close_logs(
    partitions: Iterable[Partition], flusher: Flusher, storage: Storage, loop: asyncio.AbstractEventLoop, reports: StepReports
) -> None:
    """Nobody appends any more."""
    reports.at(lambda: flushing(partitions))
    for partition in _unflushed(partitions):
        flusher.request(partition)
    await flusher.drain()
    high_watermarks, logs = positions(partitions)
    reports.at(lambda: f"closing {len(logs):,} partitions")
    portions = [dict(portion) for portion in portions_for_threads(list(logs.items()), FLUSH_THREADS)]
    await asyncio.gather(*(loop.run_in_executor(None, storage.close_many, portion) for portion in portions))
    await loop.run_in_executor(None, storage.close, high_watermarks, logs)


def flushing(partitions: Iterable[Partition]) -> str:
    """How far that is, for people."""
    return f"flushing; partitions with records that are not on disk yet: {len(_unflushed(partitions)):,}"


def _unflushed(partitions: Iterable[Partition]) -> list[Partition]:
    return [each for each in partitions if each.failure is None and each.log.unflushed_messages]
