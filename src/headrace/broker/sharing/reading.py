"""Reads for a share group: what the log has from the first free record on, and which of it is the member's from now on."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.reading import is_warm, warm_up
from headrace.broker.sharing.led import LedSharePartition
from headrace.coordination.share.partition import Acquired, LogBatch, SharePartition, Wish
from headrace.host.disk import Disk
from headrace.log.results import AbortedTransaction
from headrace.model.errors import RequestError, StorageError
from headrace.records.batch import iterate_batches
from headrace.records.control import read_marker


class Delivery(NamedTuple):
    """Batches as they lie in the log, and the records among them that are the member's."""

    records: bytes
    acquired: tuple[Acquired, ...]

    @property
    def record_count(self) -> int:
        return sum(each.end - each.first for each in self.acquired)


NOTHING = Delivery(b"", ())
# There is something: it is on its way from an object store, or there is no memory for it now.
NOT_YET = Delivery(b"", ())
# How long a share group's member waits for an object store before it hears that there is nothing yet.
REMOTE_WAIT_S = 0.5


async def deliver(
    led: LedSharePartition,
    wish: Wish,
    room: Callable[[], int],
    disk: Disk,
    is_wanted: Callable[[], bool],
    *,
    may_wait: bool = True,
) -> Delivery:
    """What the member gets of one partition, if it is still wanted, and there is room, by the time it is known.

    Without `may_wait` only what need not be brought from a disk or an object store.  Raises RequestError."""
    share = await led.loaded()
    partition = led.partition
    now = led.now()
    if led.is_paused or not share.can_acquire(now):
        return NOTHING
    offset = share.next_fetch_offset(now)
    is_remote = offset < partition.log.state.local_start and partition.remote is not None
    if not may_wait and (is_remote or not is_warm(partition, offset)):
        return NOTHING
    if is_remote:
        assert partition.remote is not None
        await asyncio.wait([partition.remote.bring(offset, room())], timeout=REMOTE_WAIT_S)
        return _deliver_remote(led, share, wish, offset, room(), is_wanted)
    if not is_warm(partition, offset):
        await warm_up(asyncio.get_running_loop(), disk, partition, offset, room() or 1)
        now = led.now()
        offset = share.next_fetch_offset(now)  # somebody may have been quicker
    partition.require_leader()
    if led.is_over or not is_wanted() or not share.can_acquire(now):
        return NOTHING
    committed_only = led.settings.committed_only
    up_to = partition.readable_to(committed_only=committed_only)
    if offset >= up_to:
        return NOTHING
    if not (max_bytes := room()):
        return NOT_YET
    try:
        read = partition.log.read(offset, max_bytes=max_bytes, up_to=up_to, at_least_one=True)
    except StorageError as error:
        raise RequestError(partition.on_failed_read(error)) from error
    data = bytes(read.data)
    batches = list(_batches(partition, data, committed_only))
    acquired = led.acquire(share, wish, batches, now)
    return Delivery(_needed(data, acquired), acquired)


def _deliver_remote(
    led: LedSharePartition, share: SharePartition, wish: Wish, offset: int, max_bytes: int, is_wanted: Callable[[], bool]
) -> Delivery:
    """What was brought from an object store; nothing while it is on its way.  Raises RequestError."""
    partition, now = led.partition, led.now()
    partition.require_leader()
    if partition.remote is None or led.is_over or not is_wanted() or not share.can_acquire(now):
        return NOTHING
    up_to = partition.readable_to(committed_only=led.settings.committed_only)
    if share.next_fetch_offset(now) != offset or not max_bytes:
        return NOT_YET  # somebody was quicker, or took the memory
    read = partition.remote.take(offset, max_bytes=max_bytes, up_to=up_to, at_least_one=True)
    if read is None:
        return NOT_YET
    if not read.data:
        return NOTHING
    data = bytes(read.data)
    batches = list(_batches(partition, data, led.settings.committed_only, read.aborted))
    acquired = led.acquire(share, wish, batches, now)
    return Delivery(_needed(data, acquired), acquired)


def _batches(
    partition: Partition, data: bytes, committed_only: bool, also_aborted: tuple[AbortedTransaction, ...] = ()
) -> Iterator[LogBatch]:
    """For who wants only what is committed, batches of aborted transactions are delivered to nobody."""
    batches = list(iterate_batches(data))
    begun: deque[tuple[int, int]] = deque()
    if committed_only and batches:
        start, end = batches[0][0].base_offset, batches[-1][0].next_offset
        aborted = {*also_aborted, *partition.log.aborted_transactions(start, end)}
        begun.extend(sorted((each.first_offset, each.producer_id) for each in aborted))
    aborting: set[int] = set()
    for header, batch in batches:
        while begun and begun[0][0] < header.next_offset:
            aborting.add(begun.popleft()[1])
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None and not marker.committed:
                aborting.discard(header.producer_id)
            yield LogBatch(header.base_offset, header.next_offset, False)
            continue
        is_aborted = header.is_transactional and header.producer_id in aborting
        yield LogBatch(header.base_offset, header.next_offset, not is_aborted)


def _needed(data: bytes, acquired: Iterable[Acquired]) -> bytes:
    """Without batches of which the member has nothing."""
    ends = iter([(each.first, each.end) for each in acquired])
    first, end = next(ends, (0, 0))
    needed = []
    for header, batch in iterate_batches(data):
        while end and end <= header.base_offset:
            first, end = next(ends, (0, 0))
        if first < header.next_offset and header.base_offset < end:
            needed.append(batch)
    return b"".join(needed)
