"""What a log answers: what became of an append, what was read or found, what was removed; and the error for broken bytes."""

from collections.abc import Callable
from typing import NamedTuple

from headrace.declaring import dataclass
from headrace.model.errors import StorageError


class CorruptBatch(StorageError):
    """Bytes on disk are not the batch that was written.  Counted; never served."""

    def __init__(self, path: object, position: int, offset: int, reason: str) -> None:
        super().__init__(path, f"reading the batch at position {position}, offset {offset} or after ({reason}),")
        self.position = position
        self.offset = offset
        self.reason = reason

    def __reduce__(self) -> tuple[type["CorruptBatch"], tuple[object, int, int, str]]:
        # It comes back from worker processes.
        return CorruptBatch, (self.path, self.position, self.offset, self.reason)


class Appended(NamedTuple):
    """What became of an append."""

    base_offset: int
    last_offset: int
    # The time given to the records where the topic asks for the broker's time, else -1.
    log_append_time: int
    log_start_offset: int
    # The batch was already there: offsets are those of the first time, nothing was written.
    duplicate: bool


class Read(NamedTuple):
    """Whole batches, ready for the wire."""

    data: bytes | memoryview
    # The base offset of the first batch, at or below the offset asked for; -1 when there is no data.
    first_offset: int
    # Where the next read goes on: after the last batch; the offset asked for when there is no data.
    next_offset: int


class FoundOffset(NamedTuple):
    """A record found by its time."""

    timestamp: int
    offset: int
    leader_epoch: int


class AbortedTransaction(NamedTuple):
    """One producer's transaction that does not count, by where it began."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class RemovedSegment:
    """A segment that has left the log: renamed already, its files still to be unlinked where that may take its time."""

    base_offset: int
    size_bytes: int
    # "retention.ms", "retention.bytes", "local retention", "log start", "compaction" or "truncation"
    reason: str
    unlink: Callable[[], None]
    # How long its files stay, under another name: file.delete.delay.ms.
    delay_ms: int = 0
