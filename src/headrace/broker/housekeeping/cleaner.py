"""Compaction and expiry, one log at a time: decided on the event loop, done in a worker process, put in place on the loop.

The worker process is started when there is something to clean and ended when there is not, so that an idle broker is one process.
What is cleaned is never what producers append to; readers see the old segments until the new ones are in place.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from headrace.broker.housekeeping.file_removal import FileRemoval
from headrace.broker.metrics.figures import DiskFigures
from headrace.broker.partitions.partition import Partition
from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.host.worker import WorkerLost, WorkerProcess
from headrace.log.cleaning.compaction import (
    CompactionPlan,
    CompactionResult,
    compact,
    discard,
    plan_compaction,
    publish,
    swap_in,
)
from headrace.log.cleaning.expiry import Look, close_for_expiry, has_expiry_work, is_outdated, look, note, plan_expiry, plan_look
from headrace.log.log import Log
from headrace.log.results import CorruptBatch
from headrace.model.errors import StorageError

logger = logging.getLogger(__name__)

# A worker that takes longer than so long, and longer than reading so slowly takes, stands still.
WORK_SECONDS_MIN = 60.0
WORK_BYTES_PER_S_MIN = 128 * 1024

Plan = TypeVar("Plan", CompactionPlan, Look)
Result = TypeVar("Result")


class Cleaner:
    """Cleans the logs of a broker."""

    def __init__(
        self,
        replicas: Iterable[Partition],
        removal: FileRemoval,
        *,
        clock: Clock,
        disk: Disk,
        loop: asyncio.AbstractEventLoop,
        in_processes: bool,
        figures: DiskFigures | None = None,
    ) -> None:
        """Worker processes know only the real disk: `in_processes` says whether the logs are on it."""
        self._figures = figures or DiskFigures()
        self._replicas = replicas
        self._removal = removal
        self._clock = clock
        self._disk = disk
        self._loop = loop
        self._in_processes = in_processes
        self._worker: WorkerProcess | None = None
        self._starting = threading.Lock()
        self._closed = False
        # One log at a time, whoever asks: two rounds over one log would write the same files.
        self._turn = asyncio.Lock()
        # Logs that cannot be cleaned until a person has looked at them.
        self._given_up: set[Partition] = set()

    async def clean_all(self) -> None:
        """Clean what is due, the dirtiest first as the partitions come."""
        try:
            for partition in list(self._candidates()):
                await self.clean(partition)
        finally:
            # Not while another round is using it.
            async with self._turn:
                await self._end_worker()

    async def expire_all(self) -> None:
        """Clean what has expired, and look at what was written lately."""
        now = self._clock.wall_ms()
        for partition in list(self._candidates()):
            if isinstance(partition.log, Log) and has_expiry_work(partition.log, now):
                await self.clean(partition)

    def _candidates(self) -> Iterator[Partition]:
        for partition in self._replicas:
            config = partition.config
            if (
                partition.failure is None
                and partition not in self._given_up
                and (config.is_compacted or config.message_ttl_enable)
            ):
                yield partition

    async def clean(self, partition: Partition) -> bool:
        """Clean one log if it is due; whether it was."""
        log = partition.log
        if not isinstance(log, Log):
            # In memory there are no segments to write anew: retention takes out what has expired or was superseded.
            return False
        async with self._turn:
            return await self._clean(partition, log)

    async def _clean(self, partition: Partition, log: Log) -> bool:
        try:
            await self._look_for_expiries(log)
            plan = self._plan(log, partition.high_watermark)
            if plan is None:
                return False
            began = self._clock.monotonic()
            result = await self._call_elsewhere(compact, plan)
            await self._put_in_place(partition, log, result)
            self._figures.on_cleaned(self._clock.monotonic() - began, result.bytes_before, result.bytes_after)
            return True
        except CorruptBatch as error:
            self._figures.failed_cleanings += 1
            self._given_up.add(partition)
            logger.error(
                "%s is not compacted any more: %s; `headrace log verify` shows what is broken", partition.identity, error
            )
        except StorageError as error:
            partition.on_storage_failure(error)
        except (OSError, WorkerLost) as error:
            self._figures.failed_cleanings += 1
            await self._end_worker()
            logger.error("%s could not be compacted and is tried again later: %s", partition.identity, error)
        return False

    def _plan(self, log: Log, high_watermark: int) -> CompactionPlan | None:
        now = self._clock.wall_ms()
        return plan_compaction(log, now, high_watermark) or plan_expiry(log, now, high_watermark)

    async def _look_for_expiries(self, log: Log) -> None:
        """Learn when records that were written lately expire, and close the active segment if some have."""
        plan = plan_look(log)
        if plan is not None:
            try:
                note(log, plan, await self._call_elsewhere(look, plan))
            except (CorruptBatch, OSError):
                if not is_outdated(log, plan):
                    raise
        close_for_expiry(log, self._clock.wall_ms())

    async def _call_elsewhere(self, function: Callable[[Plan, Disk | None], Result], plan: Plan) -> Result:
        if self._in_processes:
            return await self._loop.run_in_executor(None, self._call_worker, function, plan)
        return await self._loop.run_in_executor(None, function, plan, self._disk)

    def _call_worker(self, function: Callable[[Plan, Disk | None], Result], plan: Plan) -> Result:
        # In a thread: a process takes a while to start.
        with self._starting:
            if self._closed:
                raise WorkerLost("the broker is closing")
            worker = self._worker = self._worker or WorkerProcess()
        return worker.call(function, plan, None, seconds_max=WORK_SECONDS_MIN + plan.bytes_to_read / WORK_BYTES_PER_S_MIN)

    async def _put_in_place(self, partition: Partition, log: Log, result: CompactionResult) -> None:
        if partition.failure is not None or log.failure is not None:
            await self._loop.run_in_executor(None, discard, result, self._disk)
            return
        await self._loop.run_in_executor(None, publish, result, self._disk)
        self._removal.unlink_soon(swap_in(log, result))
        logger.info(
            "cleaned %s: %d of %d records and %d of %d bytes stay",
            partition.identity,
            result.records_kept,
            result.records_read,
            result.bytes_after,
            result.bytes_before,
        )

    async def _end_worker(self) -> None:
        # In a thread: another may be starting the process, and the kernel takes a while to end it.
        await asyncio.shield(self._loop.run_in_executor(None, self._end_worker_now))

    def _end_worker_now(self) -> None:
        with self._starting:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()

    async def close(self) -> None:
        self._closed = True
        await self._end_worker()
