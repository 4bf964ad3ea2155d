"""A led partition as its coordinator sees it: a log to append to, to wait for and to read from the start."""

import asyncio

from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.reading import is_warm, warm_up
from headrace.host.disk import Disk
from headrace.log.interface import CorruptBatch, Origin
from headrace.model.errors import ErrorCode, RequestError


class LedPartition:
    """Satisfies the coordinators' CoordinatorLog."""

    def __init__(self, partition: Partition, loop: asyncio.AbstractEventLoop, disk: Disk) -> None:
        self.partition = partition
        self._loop = loop
        self._disk = disk

    @property
    def leader_epoch(self) -> int:
        return self.partition.leader_epoch

    @property
    def start_offset(self) -> int:
        return self.partition.log.start_offset

    @property
    def end_offset(self) -> int:
        return self.partition.log.end_offset

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark

    def append(self, batches: bytes, *, transaction_version: int = 0, nobody_waits: bool = False) -> tuple[int, int]:
        self.partition.require_replicas()
        appended = self.partition.append(
            batches, Origin.COORDINATOR, transaction_version=transaction_version, nobody_waits=nobody_waits
        )
        return appended.base_offset, appended.last_offset

    def append_waiting(self, batch: bytes) -> tuple[int, int] | None:
        self.partition.require_replicas()
        appended = self.partition.append(batch, Origin.WAITING)
        return None if appended.duplicate else (appended.base_offset, appended.last_offset)

    def flush_soon(self) -> None:
        self.partition.flush_soon()

    async def wait_for_high_watermark(self, offset: int) -> None:
        await wait_for_high_watermark(self.partition, offset)

    async def read(self, offset: int, max_bytes: int) -> bytes:
        if not is_warm(self.partition, offset):
            await warm_up(self._loop, self._disk, self.partition, offset, max_bytes)
        log = self.partition.log
        try:
            read = log.read(offset, max_bytes=max_bytes, up_to=log.end_offset, at_least_one=True, as_stored=True)
        except CorruptBatch:
            self.partition.note_damage()
            raise
        return bytes(read.data)


async def wait_for_high_watermark(partition: Partition, offset: int) -> None:
    """Return when everything below `offset` is committed; raise RequestError when it will not be as things are."""
    passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_outcome(code: ErrorCode) -> None:
        if passed.done():
            return
        if code is ErrorCode.NONE:
            passed.set_result(None)
        else:
            passed.set_exception(RequestError(code))

    if not partition.when_durable(offset, -1, on_outcome):
        try:
            await passed
        finally:
            if passed.cancelled():
                partition.stop_waiting(on_outcome)
