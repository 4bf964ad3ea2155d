"""Cutting a replica's log, so that the event loop does not wait for the disk.

What is written down of a log must not reach beyond its end, so that is lowered on the medium first, in a thread; the cut itself
is then a matter of names and of file sizes.  Between the two anything may happen: whoever wants a cut says until when.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.broker.partitions.partition import Partition
from headrace.log.interface import PartitionLog, RemovedSegment
from headrace.log.log import Log

if TYPE_CHECKING:
    from headrace.broker.app import Broker


async def truncate_to(broker: "Broker", partition: Partition, offset: int, is_wanted: Callable[[], bool]) -> bool:
    """Remove everything at and after an offset; whether that was still wanted when it came to it.  Raises StorageError."""
    return await _cut(broker, partition, offset, is_wanted, lambda log: log.truncate_to(offset))


async def start_over_at(broker: "Broker", partition: Partition, offset: int, is_wanted: Callable[[], bool]) -> bool:
    """Remove everything; the next record gets this offset."""
    return await _cut(broker, partition, offset, is_wanted, lambda log: log.truncate_fully_and_start_at(offset))


async def _cut(
    broker: "Broker",
    partition: Partition,
    offset: int,
    is_wanted: Callable[[], bool],
    carry_out: Callable[[PartitionLog], list[RemovedSegment]],
) -> bool:
    log = partition.log
    if not isinstance(log, Log):
        broker.housekeeping.unlink_soon(carry_out(log))
        partition.on_truncated()
        return True
    cut = log.begin_cut(offset)
    try:
        await broker.loop.run_in_executor(None, log.prepare_cut, cut)
        if not is_wanted():
            return False
        broker.housekeeping.unlink_soon(carry_out(log))
        partition.on_truncated()
        return True
    finally:
        log.end_cut(cut)
        if partition.config.flush == "ack":
            # What a flush did not dare to promise meanwhile.
            partition.flush_soon()
