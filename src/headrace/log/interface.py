"""What the log of one partition does, on disk or in memory, and the values it speaks in.

All calls are synchronous.  All but `sync` belong to the event loop's thread; `sync` may run in another while appends go on.
Errors: `RequestError` when the caller's bytes or offsets are wrong, `StorageError` when the machine failed.
"""

from typing import Protocol

from headrace.host.disk import Buffer, Disk
from headrace.log.epochs import EpochCache
from headrace.log.indexes.time_search import TimeSearch
from headrace.log.origin import Origin
from headrace.log.producers.producer_state import TRUSTED, ProducerStates, VerificationGuard
from headrace.log.results import AbortedTransaction, Appended, CorruptBatch, FoundOffset, Read, RemovedSegment
from headrace.log.state import LogState
from headrace.model.errors import StorageError
from headrace.model.topic_settings import LogConfig

__all__ = [
    "TRUSTED",
    "AbortedTransaction",
    "Appended",
    "CorruptBatch",
    "FoundOffset",
    "Origin",
    "PartitionLog",
    "Read",
    "ReadAhead",
    "RemovedSegment",
    "TimeSearch",
    "VerificationGuard",
]


class ReadAhead(Protocol):
    """A read or a search that a thread tries first, so that the loop finds what it needs in memory."""

    def run(self, disk: Disk) -> object:
        """In any thread; it never fails."""
        ...


class PartitionLog(Protocol):
    """The log of one partition."""

    # Where it begins and ends, and its settings: `config`, `start_offset` and `end_offset` without a call, for the hot paths.
    state: LogState
    epochs: EpochCache
    # Whoever moves the high watermark tells them.
    producers: ProducerStates

    @property
    def config(self) -> LogConfig: ...

    @property
    def start_offset(self) -> int:
        """The first offset that may be read."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset the next record gets."""
        ...

    @property
    def flushed_offset(self) -> int:
        """Everything below is on the medium."""
        ...

    @property
    def damaged_from(self) -> int | None:
        """Where the first segment begins of which something cannot be read any more; None while nothing is known of damage."""
        ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def unflushed_messages(self) -> int: ...

    @property
    def failure(self) -> StorageError | None:
        """Why the log is offline; None while it works."""
        ...

    def reconfigure(self, config: LogConfig) -> None: ...

    def append(
        self,
        records: Buffer,
        leader_epoch: int,
        *,
        origin: Origin = Origin.CLIENT,
        guard: VerificationGuard | None = TRUSTED,
        transaction_version: int = 0,
    ) -> Appended:
        """Check, stamp and write batches as the leader.  All of them or none; a client sends exactly one.

        `guard` (KIP-890): a broker that verifies transactions calls `producers.begin_verification` first, asks the transaction
        coordinator, and passes what it got.  With the wrong guard or None the first transactional batch of a transaction is
        refused with INVALID_TXN_STATE.  The default trusts the caller.  `transaction_version` counts for markers only: from 2
        on, a marker's epoch must be above the producer's.
        """
        ...

    def append_as_follower(self, records: Buffer) -> Appended:
        """Write batches as the leader has them, offsets and epochs included.  They must begin at or after the end."""
        ...

    def read(self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool, as_stored: bool = False) -> Read:
        """Whole batches from the one that holds `offset`, none reaching `up_to`, at most `max_bytes` of them except that the
        first is returned whatever its size when `at_least_one`.

        Batches of which compaction left no record are for replicas, who read the log `as_stored`.  Consumers are led past them:
        many cannot step over such a batch.  Where nothing else is left below `up_to`, they get a control record to step over.
        """
        ...

    def ahead_of_read(self, offset: int, size: int) -> ReadAhead | None:
        """For a thread, what brings into memory what a read of this offset will want; None where there is nothing to bring."""
        ...

    def time_search(self, timestamp: int | None, up_to: int) -> TimeSearch | None:
        """For a thread, what `offset_for_timestamp` does; without a time, `offset_of_max_timestamp`.  None: it has failed."""
        ...

    def sync(self) -> int:
        """Make everything appended before the call durable; the new flushed offset."""
        ...

    def offset_for_timestamp(self, timestamp: int, up_to: int) -> FoundOffset | None:
        """The first record at or after a time, below `up_to`."""
        ...

    def offset_of_max_timestamp(self, up_to: int) -> FoundOffset | None:
        """The record with the greatest timestamp, below `up_to`."""
        ...

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Those with records in [start, end)."""
        ...

    def delete_before(self, offset: int) -> list[RemovedSegment]:
        """Move the log start up; segments that lie wholly below leave the log."""
        ...

    def truncate_to(self, offset: int) -> list[RemovedSegment]:
        """Remove everything at and after an offset."""
        ...

    def truncate_fully_and_start_at(self, offset: int) -> list[RemovedSegment]:
        """Remove everything; the next record gets `offset`."""
        ...

    def apply_retention(self, now_ms: int, high_watermark: int) -> list[RemovedSegment]:
        """Remove whole segments that are too old, too many, or below the log start.  Cheap: unlink what is returned elsewhere."""
        ...

    def roll(self) -> None:
        """Begin a new segment, unless the active one is empty."""
        ...

    def close(self) -> None:
        """Make everything durable, write down producers and epochs, and let the files go."""
        ...

    def delete(self) -> None:
        """Remove the log with its files."""
        ...
