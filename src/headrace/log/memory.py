"""The log of one partition without any file: gone with the process, bounded by count and by bytes.

Always: the same answers as the log on disk.  A full log refuses new records or drops its oldest, as `memory.full.policy` says.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.host.clock import Clock
from headrace.host.disk import Buffer
from headrace.log.aborted_index import AbortedEntry
from headrace.log.cleaning import BatchCleaner, KeyMap, LastWritten, TransactionTracker
from headrace.log.core import LogCore
from headrace.log.producer_state import CompletedTransaction
from headrace.log.segment import StoredBatch
from headrace.log.values import AbortedTransaction, FoundOffset, Read, RemovedSegment
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.topic_settings import LogConfig
from headrace.records.control import read_marker
from headrace.records.header import CONTROL_BIT, read_header
from headrace.records.record import read_records

# Dropped batches leave the list in bulk, so that dropping one costs nothing to speak of.
_SHRINK_AT = 1024


class HeldBatch:
    """A batch in memory."""

    __slots__ = ("base_offset", "data", "max_timestamp", "next_offset", "records")

    def __init__(self, base_offset: int, next_offset: int, max_timestamp: int, records: int, data: bytes) -> None:
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.max_timestamp = max_timestamp
        self.records = records
        self.data = data


class MemoryLog(LogCore):
    """A partition's log in memory."""

    def __init__(self, config: LogConfig, clock: Clock) -> None:
        super().__init__(config, clock)
        self._batches: list[HeldBatch] = []
        # Where the log begins in the list; what lies before was dropped.
        self._head = 0
        self._size = 0
        self._records = 0
        self._aborted: list[AbortedEntry] = []
        self._next_expiry_ms: int | None = 0
        self._compacted_to = 0

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
        if self.config.message_ttl_enable and self._next_expiry_ms is None:
            self._next_expiry_ms = now_ms

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
            self._drop_first()

    def _drop_first(self) -> None:
        batch = self._batches[self._head]
        # The slot keeps its offsets for the search and lets its bytes go.
        self._size -= len(batch.data)
        self._records -= batch.records
        batch.data = b""
        self._head += 1
        self._start_offset = max(self._start_offset, min(batch.next_offset, self._end_offset))
        if self._head >= _SHRINK_AT and self._head * 2 >= len(self._batches):
            del self._batches[: self._head]
            self._head = 0

    def _note_aborted(self, completed: CompletedTransaction) -> None:
        stable = self.producers.stable_offset_after(completed)
        self._aborted.append(AbortedEntry(completed.producer_id, completed.first_offset, completed.last_offset, stable))

    # -- reading

    def _index_of(self, offset: int) -> int:
        """The batch that holds an offset, or the next one."""
        return bisect_right(self._batches, offset, lo=self._head, key=lambda batch: batch.next_offset)

    def read(self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool) -> Read:
        if offset < self._start_offset or offset > self._end_offset:
            raise RequestError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not between {self._start_offset} and {self._end_offset}"
            )
        parts: list[bytes] = []
        size, next_offset, first_offset = 0, offset, -1
        index = self._index_of(offset)
        while index < len(self._batches):
            batch = self._batches[index]
            if batch.next_offset > up_to or (size + len(batch.data) > max_bytes and (parts or not at_least_one)):
                break
            if not parts:
                first_offset = batch.base_offset
            parts.append(batch.data)
            size += len(batch.data)
            next_offset = batch.next_offset
            index += 1
        return Read(parts[0] if len(parts) == 1 else b"".join(parts), first_offset, next_offset)

    def offset_for_timestamp(self, timestamp: int, up_to: int) -> FoundOffset | None:
        for batch in self._batches[self._head :]:
            if batch.base_offset >= up_to:
                return None
            if batch.max_timestamp >= timestamp:
                for record in read_records(batch.data):
                    if record.timestamp >= timestamp and self._start_offset <= record.offset < up_to:
                        return FoundOffset(record.timestamp, record.offset, read_header(batch.data).leader_epoch)
        return None

    def offset_of_max_timestamp(self, up_to: int) -> FoundOffset | None:
        greatest = max((batch.max_timestamp for batch in self._batches[self._head :] if batch.base_offset < up_to), default=-1)
        return None if greatest < 0 else self.offset_for_timestamp(greatest, up_to)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        first = bisect_left(self._aborted, start, key=lambda entry: entry.last_offset)
        found = []
        for entry in self._aborted[first:]:
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
            self._drop_first()
        self._start_offset = max(self._start_offset, offset)
        self.epochs.truncate_from_start(self._start_offset)
        first = bisect_left(self._aborted, self._start_offset, key=lambda entry: entry.last_offset)
        del self._aborted[:first]
        return []

    def apply_retention(self, now_ms: int, high_watermark: int) -> list[RemovedSegment]:
        config = self.config
        self.producers.remove_expired(config.producer_id_expiration_ms)
        if "delete" in config.cleanup_policy:
            self._remove_old(now_ms, high_watermark)
        if config.is_compacted or (
            config.message_ttl_enable and self._next_expiry_ms is not None and self._next_expiry_ms <= now_ms
        ):
            self._clean(now_ms, high_watermark)
        return self.delete_before(self._start_offset)

    def _remove_old(self, now_ms: int, high_watermark: int) -> None:
        config = self.config
        while self._head < len(self._batches):
            batch = self._batches[self._head]
            too_old = config.retention_ms >= 0 and 0 <= batch.max_timestamp < now_ms - config.retention_ms
            too_many = config.retention_bytes >= 0 and self._size - len(batch.data) >= config.retention_bytes
            if batch.next_offset > high_watermark or not (too_old or too_many):
                return
            self._drop_first()

    def _clean(self, now_ms: int, high_watermark: int) -> None:
        """Compact, or remove what expired.  Below the first open transaction and the high watermark only."""
        bound = high_watermark if self.first_unstable_offset is None else min(high_watermark, self.first_unstable_offset)
        keys = None
        if self.config.is_compacted:
            if not self._is_dirty_enough(bound):
                return
            keys = self._keys_below(bound)
        cleaner = BatchCleaner(
            now_ms=now_ms,
            delete_retention_ms=self.config.delete_retention_ms,
            ttl_enabled=self.config.message_ttl_enable,
            keys=keys,
            transactions=TransactionTracker(self._aborted),
            last_written={state.producer_id: LastWritten(state.last_data_offset, state.epoch) for state in self.producers},
        )
        kept: list[HeldBatch] = []
        for batch in self._batches[self._head :]:
            data = cleaner.clean(read_header(batch.data), memoryview(batch.data)) if batch.next_offset <= bound else batch.data
            if data is not None:
                kept.append(_held(batch, data))
        self._batches, self._head = kept, 0
        self._size = sum(len(batch.data) for batch in kept)
        self._records = sum(batch.records for batch in kept)
        self._next_expiry_ms = cleaner.next_expiry_ms
        self._compacted_to = bound

    def _is_dirty_enough(self, bound: int) -> bool:
        dirty = total = 0
        for batch in self._batches[self._head :]:
            if batch.next_offset <= bound:
                total += len(batch.data)
                dirty += len(batch.data) if batch.next_offset > self._compacted_to else 0
        return dirty > 0 and dirty / total >= self.config.min_cleanable_dirty_ratio

    def _keys_below(self, bound: int) -> KeyMap:
        keys = KeyMap()
        tracker = TransactionTracker(self._aborted)
        for batch in self._batches[self._head :]:
            if batch.next_offset > bound:
                break
            header = read_header(batch.data)
            if header.attributes & CONTROL_BIT:
                tracker.marker_stands_alone(header, memoryview(batch.data))
            elif not tracker.is_aborted(header):
                for record in read_records(batch.data):
                    if record.key is not None and not keys.put(record.key, record.offset):
                        return keys
            keys.latest_offset = header.last_offset
        return keys

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
        self._compacted_to = min(self._compacted_to, self._end_offset)
        self.epochs.truncate_from_end(self._end_offset)
        self._replay()
        return []

    def _replay(self) -> None:
        """The producers and aborted transactions as the remaining batches say."""
        self.producers.clear()
        self._aborted.clear()
        for batch in self._batches[self._head :]:
            header = read_header(batch.data)
            if header.producer_id < 0:
                continue
            if not header.attributes & CONTROL_BIT:
                self.producers.apply(header, header.base_offset)
            elif (marker := read_marker(batch.data)) is not None:
                completed = self.producers.apply_marker(header, header.base_offset, marker)
                if completed is not None and completed.aborted:
                    self._note_aborted(completed)

    def truncate_fully_and_start_at(self, offset: int) -> list[RemovedSegment]:
        self.delete()
        self._aborted.clear()
        self._start_offset = self._end_offset = self._compacted_to = offset
        self.epochs.clear()
        self.producers.clear()
        return []


def _held(batch: HeldBatch, data: bytes | memoryview) -> HeldBatch:
    if data is batch.data or isinstance(data, memoryview):
        return batch
    header = read_header(data)
    return HeldBatch(header.base_offset, header.next_offset, header.max_timestamp, header.record_count, data)
