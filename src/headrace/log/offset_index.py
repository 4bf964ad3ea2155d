"""The sparse offset index of a segment: where to start looking for an offset.  Kafka's `.index`.

Entries of 8 bytes: offset relative to the segment's base, position in the log file; about one per `index.interval.bytes`.  An
entry (o, p) says: the batch at position p ends with offset o.
Always: the newest entries wait in memory, at most a page of them; everything else is read from the file where it is needed, so
memory does not grow with the log.  Nothing here is trusted: the reader compares the batch at the position with the entry, and a
wrong or lost index is rebuilt from the log.
"""

import struct
from bisect import bisect_right
from typing import Final, NamedTuple

from headrace.log.files import Handle

ENTRY_BYTES: Final = 8
PENDING_BYTES_MAX: Final = 4096
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
# Below this many entries the rest of a search is one read.
_BLOCK_ENTRIES = 512

_ENTRY = struct.Struct(">ii")
_RELATIVE = struct.Struct(">i")


class IndexEntry(NamedTuple):
    """The batch at `position` ends with `offset`.  For the beginning of the segment: the offset below its base."""

    offset: int
    position: int


class OffsetIndex:
    """One index file and the entries that are not in it yet."""

    __slots__ = ("_count", "_handle", "_pending", "base_offset")

    def __init__(self, handle: Handle, base_offset: int, *, is_new: bool = False) -> None:
        self.base_offset = base_offset
        self._handle = handle
        # Entries in the file; -1 until it was looked at, which for most closed segments is never.
        self._count = 0 if is_new else -1
        self._pending = bytearray()

    @property
    def handle(self) -> Handle:
        return self._handle

    @property
    def size_bytes(self) -> int:
        return self._stored() * ENTRY_BYTES + len(self._pending)

    def __len__(self) -> int:
        return self._stored() + len(self._pending) // ENTRY_BYTES

    def _stored(self) -> int:
        if self._count < 0:
            file = self._handle.file()
            self._count = file.size() // ENTRY_BYTES
            if file.size() % ENTRY_BYTES:
                # Half an entry would put every later one out of step.
                file.truncate(self._count * ENTRY_BYTES)
        return self._count

    def append(self, offset: int, position: int) -> None:
        self._pending += _ENTRY.pack(offset - self.base_offset, position)
        if len(self._pending) >= PENDING_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Hand what waits to the file."""
        if self._pending:
            self._stored()
            self._handle.file().append([bytes(self._pending)])
            self._count += len(self._pending) // ENTRY_BYTES
            self._pending.clear()

    def lookup(self, offset: int) -> IndexEntry:
        """The last entry at or below an offset, or the segment's beginning."""
        relative = offset - self.base_offset
        if self._pending and _RELATIVE.unpack_from(self._pending)[0] <= relative:
            block: bytes | bytearray = self._pending
        else:
            block = self._block_holding(relative)
        index = bisect_right(
            range(len(block) // ENTRY_BYTES), relative, key=lambda i: _RELATIVE.unpack_from(block, i * ENTRY_BYTES)[0]
        )
        if index == 0:
            return IndexEntry(self.base_offset - 1, 0)
        found, position = _ENTRY.unpack_from(block, (index - 1) * ENTRY_BYTES)
        return IndexEntry(self.base_offset + found, position)

    def _block_holding(self, relative: int) -> bytes:
        low, high = 0, self._stored()
        if not high:
            return b""
        file = self._handle.file()
        while high - low > _BLOCK_ENTRIES:
            middle = (low + high) // 2
            entry = file.read_at(middle * ENTRY_BYTES, ENTRY_BYTES)
            if len(entry) == ENTRY_BYTES and _RELATIVE.unpack(entry[:4])[0] <= relative:
                low = middle
            else:
                high = middle
        block = file.read_at(low * ENTRY_BYTES, (high - low) * ENTRY_BYTES)
        return block[: len(block) - len(block) % ENTRY_BYTES]

    def last(self) -> IndexEntry:
        """The newest entry, or the segment's beginning."""
        return self.lookup(self.base_offset + RELATIVE_OFFSET_MAX)

    def truncate_to(self, offset: int) -> None:
        """Forget entries at and after an offset."""
        self.flush()
        relative = offset - self.base_offset
        low, high = 0, self._stored()
        file = self._handle.file() if high else None
        while low < high and file is not None:
            middle = (low + high) // 2
            if _RELATIVE.unpack(file.read_at(middle * ENTRY_BYTES, 4))[0] < relative:
                low = middle + 1
            else:
                high = middle
        if file is not None and low < self._count:
            file.truncate(low * ENTRY_BYTES)
        self._count = low

    def clear(self) -> None:
        """Forget everything: a rebuild follows."""
        self._pending.clear()
        self._handle.file().truncate(0)
        self._count = 0
