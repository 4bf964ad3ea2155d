"""The log of one partition without any file: gone with the process, bounded by count and by bytes.

Always: the same answers as the log on disk.  A full log refuses new records or drops its oldest, as `memory.full.policy` says.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.host.clock import Clock
from headrace.host.disk import Buffer
from headrace.log.cleaning.memory_cleaning import MemoryCleaning
from headrace.log.cleaning.steps import Steps, finish
from headrace.log.core import LogCore
from headrace.log.indexes.aborted_index import AbortedEntry
from headrace.log.producers.producer_state import CompletedTransaction
from headrace.log.segments.segment import StoredBatch
from headrace.log.values import AbortedTransaction, FoundOffset, Read, RemovedSegment
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.topic_settings import LogConfig
from headrace.records.control import build_step_over, read_marker
from headrace.records.header import CONTROL_BIT, read_header
from headrace.records.record import read_records

# Dropped batches leave the list in bulk, so that dropping one costs nothing to speak of.
_SHRINK_AT = 1024


class HeldBatch:
    """A batch in memory."""

    __slots__ = ("base_offset", "data", "max_timestamp", "next_expiry_ms", "next_offset", "records")

    def __init__(self, base_offset: int, next_offset: int, max_timestamp: int, records: int, data: bytes) -> None:
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.max_timestamp = max_timestamp
        self.records = records
        # Nothing is left of a batch without bytes; it leaves the list with the next cleaning.
        self.data = data
        # When its first record expires; None while nobody has looked, and when none does.
        self.next_expiry_ms: int | None = None


class MemoryLog(LogCore):
    """A partition's log in memory."""

    def __init__(self, config: LogConfig, clock: Clock) -> None:
        super().__init__(config, clock)
        self._batches: list[HeldBatch] = []
        # Where the log begins in the list; what lies before was dropped.
        self._head = 0
        self._size = 0
        self._records = 0
        self.aborted: list[AbortedEntry] = []
        # Below `looked_to` it is known of each batch when its first record expires, and when the first of all does.
        self.looked_to = 0
        self.next_expiry_ms: int | None = None
        self.compacted_to = 0
        # Bytes of batches that end above `compacted_to`.
        self.dirty_bytes = 0
        # How often the log was cut: whoever works on it in steps must begin anew.
        self.truncations = 0

    # -- what it is

    def place_of(self, offset: int) -> tuple[Path, int] | None:
        return None

    @property
    def flushed_offset(self) -> int:
        """Nothing is ever safer than it is at once."""
        return self._end_offset

    @property
    def damaged_from(self) -> int | None:
        return None

    @property
    def size_bytes(self) -> int:
        return self._size

    @property
    def record_count(self) -> int:
        return self._records

    @property
    def segment_count(self) -> int:
        return 1

    @property
    def unflushed_messages(self) -> int:
        return 0

    def describe(self) -> dict[str, Any]:
        return {
            "start_offset": self._start_offset,
            "end_offset": self._end_offset,
            "size_bytes": self._size,
            "records": self._records,
            "producers": len(self.producers),
        }

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config

    def sync(self) -> int:
        return self._end_offset

    def checkpoint(self) -> int:
        return self._end_offset

    def roll(self) -> None:
        return

    def close(self) -> None:
        return

    def delete(self) -> None:
        self._batches, self._head, self._size, self._records = [], 0, 0, 0
        self.dirty_bytes = 0
        self.truncations += 1
        self.epochs.let_log_go()

    # -- writing

    def _store(self, batches: Sequence[StoredBatch], parts: Sequence[Buffer], next_offset: int, now_ms: int) -> None:
        size = sum(batch.size for batch in batches)
        records = sum(batch.header.record_count for batch in batches)
        self._make_room(size, records)
        data = b"".join(parts)
        position = 0
        for batch in batches:
            header = batch.header
            self._batches.append(
                HeldBatch(
                    batch.base_offset,
                    batch.base_offset + header.last_offset_delta + 1,
                    batch.max_timestamp,
                    header.record_count,
                    data if len(batches) == 1 else data[position : position + batch.size],
                )
            )
            position += batch.size
        self._size += size
        self._records += records
        self.dirty_bytes += size

    def _make_room(self, size: int, records: int) -> None:
        config = self.config
        if size > config.memory_max_bytes or records > config.memory_max_messages:
            raise RequestError(
                ErrorCode.MESSAGE_TOO_LARGE, f"{size} bytes are more than memory.max.bytes={config.memory_max_bytes}"
            )
        while self._size + size > config.memory_max_bytes or self._records + records > config.memory_max_messages:
            if config.memory_full_policy == "reject":
                raise RequestError(
                    ErrorCode.POLICY_VIOLATION,
                    f"the partition is full: {self._records} messages, {self._size} bytes in memory, "
                    "and memory.full.policy=reject",
                )
            self.drop_first()

    def drop_first(self) -> None:
        """Let the oldest batch go; the log begins behind it."""
        batch = self._batches[self._head]
        # The slot keeps its offsets for the search and lets its bytes go.
        self._size -= len(batch.data)
        self._records -= batch.records
        if batch.next_offset > self.compacted_to:
            self.dirty_bytes -= len(batch.data)
        batch.data, batch.records = b"", 0
        self._head += 1
        self._start_offset = max(self._start_offset, min(batch.next_offset, self._end_offset))
        if self._head >= _SHRINK_AT and self._head * 2 >= len(self._batches):
            del self._batches[: self._head]
            self._head = 0

    def _note_aborted(self, completed: CompletedTransaction) -> None:
        stable = self.producers.stable_offset_after(completed)
        self.aborted.append(AbortedEntry(completed.producer_id, completed.first_offset, completed.last_offset, stable))

    # -- reading

    def _index_of(self, offset: int) -> int:
        """The batch that holds an offset, or the next one."""
        return bisect_right(self._batches, offset, lo=self._head, key=lambda batch: batch.next_offset)

    def read(self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool, as_stored: bool = False) -> Read:
        if offset < self._start_offset or offset > self._end_offset:
            raise RequestError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not between {self._start_offset} and {self._end_offset}"
            )
        parts: list[bytes] = []
        size, next_offset, first_offset, passed_to = 0, offset, -1, offset
        index = self._index_of(offset)
        while index < len(self._batches):
            batch = self._batches[index]
            index += 1
            if batch.next_offset > up_to:
                break
            if not batch.data or (not batch.records and not as_stored):
                passed_to = batch.next_offset
                continue
            if size + len(batch.data) > max_bytes and (parts or not at_least_one):
                break
            if not parts:
                first_offset = batch.base_offset
            parts.append(batch.data)
            size += len(batch.data)
            next_offset = batch.next_offset
        if not parts and passed_to > offset and (passed_to >= up_to or at_least_one):
            step = build_step_over(offset, passed_to, self.epochs.epoch_at(offset))
            return Read(step, offset, passed_to)
        return Read(parts[0] if len(parts) == 1 else b"".join(parts), first_offset, next_offset)

    def offset_for_timestamp(self, timestamp: int, up_to: int) -> FoundOffset | None:
        for batch in self._batches[self._head :]:
            if batch.base_offset >= up_to:
                return None
            if batch.records and batch.max_timestamp >= timestamp:
                for record in read_records(batch.data):
                    if record.timestamp >= timestamp and self._start_offset <= record.offset < up_to:
                        return FoundOffset(record.timestamp, record.offset, read_header(batch.data).leader_epoch)
        return None

    def offset_of_max_timestamp(self, up_to: int) -> FoundOffset | None:
        greatest = max(
            (batch.max_timestamp for batch in self._batches[self._head :] if batch.records and batch.base_offset < up_to),
            default=-1,
        )
        return None if greatest < 0 else self.offset_for_timestamp(greatest, up_to)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        first = bisect_left(self.aborted, start, key=lambda entry: entry.last_offset)
        found = []
        for entry in self.aborted[first:]:
            if entry.first_offset < end:
                found.append(AbortedTransaction(entry.producer_id, entry.first_offset))
            if entry.last_stable_offset >= end:
                break
        return found

    # -- less of it

    def delete_before(self, offset: int) -> list[RemovedSegment]:
        if offset > self._end_offset or offset < 0:
            raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is beyond the end, {self._end_offset}")
        while self._head < len(self._batches) and self._batches[self._head].next_offset <= offset:
            self.drop_first()
        self._start_offset = max(self._start_offset, offset)
        self.forget_below_start()
        return []

    def forget_below_start(self) -> None:
        """Epochs and aborted transactions that ended before the log begins."""
        self.epochs.truncate_from_start(self._start_offset)
        first = bisect_left(self.aborted, self._start_offset, key=lambda entry: entry.last_offset)
        del self.aborted[:first]

    def apply_retention(self, now_ms: int, high_watermark: int) -> list[RemovedSegment]:
        finish(self.retention_steps(now_ms, high_watermark))
        return []

    def retention_steps(self, now_ms: int, high_watermark: int) -> Steps[None]:
        """The same in short steps: retention, expiry and compaction, between which the log may be used."""
        return MemoryCleaning(self, now_ms, high_watermark).steps()

    def has_expiry_work(self, now_ms: int, high_watermark: int) -> bool:
        """Whether there is something to look at, or something to remove."""
        if not self.config.message_ttl_enable:
            return False
        due = self.next_expiry_ms is not None and self.next_expiry_ms < now_ms
        return due or self.looked_to < min(high_watermark, self._end_offset)

    def expiry_steps(self, now_ms: int, high_watermark: int) -> Steps[None]:
        """Only records whose time to live is over, in short steps."""
        return MemoryCleaning(self, now_ms, high_watermark).expiry_steps()

    # -- for the cleaning

    def first_batch(self) -> HeldBatch | None:
        return self._batches[self._head] if self._head < len(self._batches) else None

    def batches_from(self, offset: int, count: int) -> list[HeldBatch]:
        """Some batches, from the one that holds an offset on."""
        index = self._index_of(offset)
        return self._batches[index : index + count]

    def replace(self, batch: HeldBatch, data: bytes) -> None:
        """Put what is left of a batch in its place; no bytes: nothing is left."""
        header = read_header(data) if data else None
        records = header.record_count if header is not None else 0
        self._size += len(data) - len(batch.data)
        self._records += records - batch.records
        if batch.next_offset > self.compacted_to:
            self.dirty_bytes += len(data) - len(batch.data)
        if records and header is not None:
            # Without records it keeps the age it had: retention goes by it.
            batch.max_timestamp = header.max_timestamp
        batch.data, batch.records = data, records

    def note_compacted(self, bound: int) -> None:
        """Everything below is compacted."""
        self.compacted_to = bound
        self.dirty_bytes = sum(len(batch.data) for batch in self._batches[self._index_of(bound) :])

    def shrink(self, offset: int, count: int) -> int | None:
        """Let go of batches without bytes among the next so many; where to go on."""
        index = self._index_of(offset)
        some = self._batches[index : index + count]
        if not some:
            return None
        self._batches[index : index + count] = [batch for batch in some if batch.data]
        return some[-1].next_offset

    def truncate_to(self, offset: int) -> list[RemovedSegment]:
        if offset >= self._end_offset:
            return []
        if offset < self._start_offset:
            return self.truncate_fully_and_start_at(offset)
        keep = self._index_of(offset)
        removed = self._batches[keep:]
        del self._batches[keep:]
        self._size -= sum(len(batch.data) for batch in removed)
        self._records -= sum(batch.records for batch in removed)
        self._end_offset = min([offset, *(batch.base_offset for batch in removed[:1])])
        self._start_offset = min(self._start_offset, self._end_offset)
        self.truncations += 1
        self.looked_to = min(self.looked_to, self._end_offset)
        self.note_compacted(min(self.compacted_to, self._end_offset))
        self.epochs.truncate_from_end(self._end_offset)
        self._replay()
        return []

    def _replay(self) -> None:
        """The producers and aborted transactions as the remaining batches say."""
        self.producers.clear()
        self.aborted.clear()
        for batch in self._batches[self._head :]:
            header = read_header(batch.data) if batch.data else None
            if header is None or header.producer_id < 0:
                continue
            if not header.attributes & CONTROL_BIT:
                self.producers.apply(header, header.base_offset)
            elif (marker := read_marker(batch.data)) is not None:
                completed = self.producers.apply_marker(header, header.base_offset, marker)
                if completed is not None and completed.aborted:
                    self._note_aborted(completed)

    def truncate_fully_and_start_at(self, offset: int) -> list[RemovedSegment]:
        self.delete()
        self.aborted.clear()
        self._start_offset = self._end_offset = self.compacted_to = self.looked_to = offset
        self.next_expiry_ms = None
        self.epochs.clear()
        self.producers.clear()
        return []
