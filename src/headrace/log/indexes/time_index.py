"""The sparse time index of a segment: where to start looking for a point in time.  Kafka's `.timeindex`.

Entries of 12 bytes: timestamp, offset relative to the segment's base.  An entry (t, o) says: t is the greatest timestamp up to
and including offset o, and the batch that ends with o carries it.  The last entry of a closed segment is its greatest timestamp.
"""

import struct
from typing import NamedTuple

from headrace.log.indexes.sparse_index import SparseIndex
from headrace.log.segments.files import Handle
from headrace.records.checksum import crc32c


class TimeEntry(NamedTuple):
    """The greatest timestamp up to an offset.  For an empty index: -1 and the segment's base."""

    timestamp: int
    offset: int


class TimeIndex(SparseIndex):
    """Timestamps and the offsets that carry them."""

    __slots__ = ("_last",)

    ENTRY = struct.Struct(">qi")
    OFFSET_FIELD = 1

    def __init__(self, handle: Handle, base_offset: int, *, is_new: bool = False) -> None:
        super().__init__(handle, base_offset, is_new=is_new)
        self._last: TimeEntry | None = None

    def append(self, timestamp: int, offset: int) -> None:
        """Note a new greatest timestamp; one that is not greater is nothing new."""
        last = self._last or self.last()
        if timestamp <= last.timestamp or (len(self) and offset <= last.offset):
            return
        self._last = TimeEntry(timestamp, offset)
        self._add(timestamp, offset - self.base_offset)

    def lookup(self, timestamp: int) -> TimeEntry:
        """The last entry at or before a time, or the segment's beginning."""
        return self._entry(self._find(timestamp))

    def greatest_before(self, offset: int) -> TimeEntry:
        """The last entry below an offset, or the segment's beginning."""
        return self._entry(self._find(offset - 1 - self.base_offset, self.OFFSET_FIELD))

    def last(self) -> TimeEntry:
        """The newest entry, or the segment's beginning."""
        if self._last is None:
            self._last = self._entry(self._last_fields())
        return self._last

    def _entry(self, fields: tuple[int, ...] | None) -> TimeEntry:
        return TimeEntry(-1, self.base_offset) if fields is None else TimeEntry(fields[0], self.base_offset + fields[1])

    def seal_checksum(self) -> int:
        """Of the size and the last entry: what a segment's greatest timestamp hangs on.  For a closed segment."""
        size = self._stored() * self.ENTRY.size
        last = self._handle.file().read_at(size - self.ENTRY.size, self.ENTRY.size) if size else b""
        return int(crc32c(b"%d " % size + last))

    def truncate_to(self, offset: int) -> None:
        super().truncate_to(offset)
        self._last = None

    def clear(self) -> None:
        super().clear()
        self._last = None
