"""The sparse offset index of a segment: where to start looking for an offset.  Kafka's `.index`.

Entries of 8 bytes: offset relative to the segment's base, position in the log file; about one per `index.interval.bytes`.  An
entry (o, p) says: the batch at position p ends with offset o.  Nothing here is trusted: the reader compares the batch at the
position with the entry, and a wrong or lost index is rebuilt from the log.
"""

import struct
from typing import Final, NamedTuple

from headrace.log.indexes.sparse_index import SparseIndex

RELATIVE_OFFSET_MAX: Final = 2**31 - 1


class IndexEntry(NamedTuple):
    """The batch at `position` ends with `offset`.  For the beginning of the segment: the offset below its base."""

    offset: int
    position: int


class OffsetIndex(SparseIndex):
    """Offsets and where they are."""

    __slots__ = ()

    ENTRY = struct.Struct(">ii")
    OFFSET_FIELD = 0

    def append(self, offset: int, position: int) -> None:
        self._add(offset - self.base_offset, position)

    def lookup(self, offset: int) -> IndexEntry:
        """The last entry at or below an offset, or the segment's beginning."""
        found = self._find(offset - self.base_offset)
        return IndexEntry(self.base_offset - 1, 0) if found is None else IndexEntry(self.base_offset + found[0], found[1])

    def last(self) -> IndexEntry:
        """The newest entry, or the segment's beginning."""
        return self.lookup(self.base_offset + RELATIVE_OFFSET_MAX)
