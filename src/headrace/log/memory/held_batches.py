"""The batches of a log in memory: bounded by count and by bytes.

Always: batches lie one after the other with increasing offsets.  When they are full, new ones are refused or the oldest dropped,
as `memory.full.policy` says.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from headrace.host.disk import Buffer
from headrace.log.indexes.aborted_index import AbortedEntry
from headrace.log.segments.segment import StoredBatch
from headrace.log.state import LogState
from headrace.model.errors import ErrorCode, RequestError
from headrace.records.header import read_header

# Dropped batches leave the list in bulk, so that dropping one costs nothing to speak of; but not so many at once that it does.
_SHRINK_AT: Final = 1024
_SHRINK_SHARE: Final = 64


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

    def __repr__(self) -> str:
        return f"<{self.records} records in [{self.base_offset}, {self.next_offset})>"


class HeldBatches:
    """Oldest first, and what is known of aborted transactions among them.  A `BatchStore`."""

    def __init__(self, state: LogState) -> None:
        self.size_bytes = 0
        self.record_count = 0
        self.aborted: list[AbortedEntry] = []
        # Everything below is compacted; the bytes of batches that end above.
        self.compacted_to = 0
        self.dirty_bytes = 0
        # Where the log begins in the list; what lies before was dropped.
        self.all: list[HeldBatch] = []
        self._head = 0
        self._state = state

    def __repr__(self) -> str:
        return f"<{self.record_count} records of {self.size_bytes} bytes in memory>"

    # -- in

    def store(self, batches: Sequence[StoredBatch], parts: Sequence[Buffer], next_offset: int, now_ms: int) -> None:
        size = sum(batch.size for batch in batches)
        records = sum(batch.header.record_count for batch in batches)
        self._make_room(size, records)
        data = b"".join(parts)
        position = 0
        for batch in batches:
            header = batch.header
            self.all.append(
                HeldBatch(
                    batch.base_offset,
                    batch.base_offset + header.last_offset_delta + 1,
                    batch.max_timestamp,
                    header.record_count,
                    data if len(batches) == 1 else data[position : position + batch.size],
                )
            )
            position += batch.size
        self.size_bytes += size
        self.record_count += records
        self.dirty_bytes += size

    def _make_room(self, size: int, records: int) -> None:
        config = self._state.config
        if size > config.memory_max_bytes or records > config.memory_max_messages:
            raise RequestError(
                ErrorCode.MESSAGE_TOO_LARGE, f"{size} bytes are more than memory.max.bytes={config.memory_max_bytes}"
            )
        while self.size_bytes + size > config.memory_max_bytes or self.record_count + records > config.memory_max_messages:
            if config.memory_full_policy == "reject":
                raise RequestError(
                    ErrorCode.POLICY_VIOLATION,
                    f"the partition is full: {self.record_count} messages, {self.size_bytes} bytes in memory, "
                    "and memory.full.policy=reject",
                )
            self.drop_first()

    def drop_first(self) -> None:
        """Let the oldest batch go; the log begins behind it."""
        batch = self.all[self._head]
        # The slot keeps its offsets for the search and lets its bytes go.
        self.size_bytes -= len(batch.data)
        self.record_count -= batch.records
        if batch.next_offset > self.compacted_to:
            self.dirty_bytes -= len(batch.data)
        batch.data, batch.records = b"", 0
        self._head += 1
        self._state.start_offset = max(self._state.start_offset, min(batch.next_offset, self._state.end_offset))
        if self._head >= _SHRINK_AT and self._head * _SHRINK_SHARE >= len(self.all):
            del self.all[: self._head]
            self._head = 0

    def note_aborted(self, entry: AbortedEntry) -> None:
        self.aborted.append(entry)

    # -- which there are

    def index_of(self, offset: int) -> int:
        """The batch that holds an offset, or the next one."""
        return bisect_right(self.all, offset, lo=self._head, key=lambda batch: batch.next_offset)

    def first(self) -> HeldBatch | None:
        return self.all[self._head] if self._head < len(self.all) else None

    def last(self) -> HeldBatch | None:
        return self.all[-1] if self._head < len(self.all) else None

    def in_log(self) -> list[HeldBatch]:
        return self.all[self._head :]

    def some_from(self, offset: int, count: int) -> list[HeldBatch]:
        """So many, from the one that holds an offset on."""
        index = self.index_of(offset)
        return self.all[index : index + count]

    # -- less of them

    def replace(self, batch: HeldBatch, data: bytes) -> None:
        """Put what is left of a batch in its place; no bytes: nothing is left."""
        header = read_header(data) if data else None
        records = header.record_count if header is not None else 0
        self.size_bytes += len(data) - len(batch.data)
        self.record_count += records - batch.records
        if batch.next_offset > self.compacted_to:
            self.dirty_bytes += len(data) - len(batch.data)
        if records and header is not None:
            # Without records it keeps the age it had: retention goes by it.
            batch.max_timestamp = header.max_timestamp
        batch.data, batch.records = data, records

    def note_compacted(self, bound: int, count: int) -> bool:
        """Everything below is compacted.  Counts so many batches at most; whether that was all."""
        batches = self.some_from(self.compacted_to, count)
        compacted = [batch for batch in batches if batch.next_offset <= bound]
        self.dirty_bytes -= sum(len(batch.data) for batch in compacted)
        if len(compacted) == count:
            self.compacted_to = compacted[-1].next_offset
            return False
        self.compacted_to = max(self.compacted_to, bound)
        return True

    def shrink(self, offset: int, count: int) -> int | None:
        """Let go of batches without bytes among the next so many; where to go on."""
        index = self.index_of(offset)
        some = self.all[index : index + count]
        if not some:
            return None
        self.all[index : index + count] = [batch for batch in some if batch.data]
        return some[-1].next_offset

    def drop_below(self, offset: int) -> None:
        """Let go of batches that lie wholly below an offset."""
        while (batch := self.first()) is not None and batch.next_offset <= offset:
            self.drop_first()

    def forget_aborted_below(self, offset: int) -> None:
        first = bisect_left(self.aborted, offset, key=lambda entry: entry.last_offset)
        del self.aborted[:first]

    def forget_aborted_at(self, marker_offset: int) -> None:
        """Its marker is gone, and its records before it: who still heard of it would leave out what its producer wrote later."""
        index = bisect_left(self.aborted, marker_offset, key=lambda entry: entry.last_offset)
        if index < len(self.aborted) and self.aborted[index].last_offset == marker_offset:
            del self.aborted[index]

    def cut(self, offset: int) -> int:
        """Let go of everything from the batch that holds an offset on; where they end then."""
        keep = self.index_of(offset)
        removed = self.all[keep:]
        del self.all[keep:]
        self.size_bytes -= sum(len(batch.data) for batch in removed)
        self.dirty_bytes -= sum(len(batch.data) for batch in removed if batch.next_offset > self.compacted_to)
        self.record_count -= sum(batch.records for batch in removed)
        end = min([offset, *(batch.base_offset for batch in removed[:1])])
        self.compacted_to = min(self.compacted_to, end)
        return end

    def clear(self) -> None:
        self.all, self._head, self.size_bytes, self.record_count = [], 0, 0, 0
        self.dirty_bytes = 0
        self.aborted.clear()
