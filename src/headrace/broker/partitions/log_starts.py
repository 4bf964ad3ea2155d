"""Where logs begin, written down before anybody is told that what lies below is gone.

Many logs share a write, and one write is under way at a time: log starts that move meanwhile share the next.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import field

from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.storage import Storage
from headrace.declaring import dataclass
from headrace.model.errors import StorageError

logger = logging.getLogger(__name__)

Outcome = dict[Partition, int] | StorageError


@dataclass(slots=True)
class _Write:
    """Partitions whose log starts are written together, and who waits for that."""

    outcome: "asyncio.Future[StorageError | None]"
    partitions: dict[Partition, None] = field(default_factory=dict)


class LogStarts:
    """Writes log starts down, beside the event loop."""

    def __init__(self, storage: Storage, loop: asyncio.AbstractEventLoop) -> None:
        self._storage = storage
        self._loop = loop
        self._next: _Write | None = None
        self._is_writing = False

    async def write(self, partitions: Iterable[Partition]) -> None:
        """Return when the log starts of these partitions, as they are now, are durable.  Raises StorageError."""
        if self._next is None:
            self._next = _Write(self._loop.create_future())
        write = self._next
        write.partitions.update(dict.fromkeys(partitions))
        if not self._is_writing:
            self._begin()
        # Shielded: others wait for the same write.
        error = await asyncio.shield(write.outcome)
        if error is not None:
            raise error

    def _begin(self) -> None:
        write, self._next = self._next, None
        self._is_writing = write is not None
        if write is not None:
            job = self._loop.run_in_executor(None, self._write, list(write.partitions))
            job.add_done_callback(lambda job, write=write: self._finish(job, write))  # type: ignore[misc]

    def _write(self, partitions: list[Partition]) -> Outcome:
        """In a thread."""
        try:
            written = self._storage.write_log_starts({partition.identity: partition.log for partition in partitions})
        except StorageError as error:
            return error
        except Exception as error:
            logger.exception("log starts could not be written down")
            return StorageError(self._storage.name, "writing down where logs begin", error)
        return {partition: written[partition.identity] for partition in partitions if partition.identity in written}

    def _finish(self, job: "asyncio.Future[Outcome]", write: _Write) -> None:
        outcome: Outcome = StorageError(self._storage.name, "writing down where logs begin") if job.cancelled() else job.result()
        if isinstance(outcome, dict):
            for partition, start_offset in outcome.items():
                partition.durable_start = start_offset
        if not write.outcome.done():
            write.outcome.set_result(outcome if isinstance(outcome, StorageError) else None)
        self._begin()
