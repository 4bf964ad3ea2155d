"""The sparse time index of a segment: where to start looking for a point in time.  Kafka's `.timeindex`.

Entries of 12 bytes: timestamp, offset relative to the segment's base.  An entry (t, o) says: t is the greatest timestamp up to
and including offset o, and the batch that ends with o carries it.  The last entry of a closed segment is its greatest timestamp.
Always: timestamps and offsets increase from entry to entry; as with the offset index, only the newest entries are in memory.
"""

import struct
from bisect import bisect_right
from typing import Final, NamedTuple

from crc32c import crc32c

from headrace.log.files import Handle

ENTRY_BYTES: Final = 12
PENDING_BYTES_MAX: Final = 4080
_BLOCK_ENTRIES = 340

_ENTRY = struct.Struct(">qi")
_TIMESTAMP = struct.Struct(">q")


class TimeEntry(NamedTuple):
    """The greatest timestamp up to an offset.  For an empty index: -1 and the segment's base."""

    timestamp: int
    offset: int


class TimeIndex:
    """One time index file and the entries that are not in it yet."""

    __slots__ = ("_count", "_handle", "_last", "_pending", "base_offset")

    def __init__(self, handle: Handle, base_offset: int, *, is_new: bool = False) -> None:
        self.base_offset = base_offset
        self._handle = handle
        # Entries in the file; -1 until it was looked at, which for most closed segments is never.
        self._count = 0 if is_new else -1
        self._pending = bytearray()
        self._last: TimeEntry | None = None

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

    def append(self, timestamp: int, offset: int) -> None:
        """Note a new greatest timestamp; one that is not greater is nothing new."""
        last = self._last or self.last()
        if timestamp <= last.timestamp or (len(self) and offset <= last.offset):
            return
        self._pending += _ENTRY.pack(timestamp, offset - self.base_offset)
        self._last = TimeEntry(timestamp, offset)
        if len(self._pending) >= PENDING_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        if self._pending:
            self._stored()
            self._handle.file().append([bytes(self._pending)])
            self._count += len(self._pending) // ENTRY_BYTES
            self._pending.clear()

    def lookup(self, timestamp: int) -> TimeEntry:
        """The last entry at or before a time, or the segment's beginning."""
        if self._pending and _TIMESTAMP.unpack_from(self._pending)[0] <= timestamp:
            block: bytes | bytearray = self._pending
        else:
            block = self._block_holding(timestamp)
        index = bisect_right(
            range(len(block) // ENTRY_BYTES), timestamp, key=lambda i: _TIMESTAMP.unpack_from(block, i * ENTRY_BYTES)[0]
        )
        return self._entry(block, index - 1)

    def _entry(self, block: bytes | bytearray, index: int) -> TimeEntry:
        if index < 0:
            return TimeEntry(-1, self.base_offset)
        timestamp, relative = _ENTRY.unpack_from(block, index * ENTRY_BYTES)
        return TimeEntry(timestamp, self.base_offset + relative)

    def _block_holding(self, timestamp: int) -> bytes:
        low, high = 0, self._stored()
        if not high:
            return b""
        file = self._handle.file()
        while high - low > _BLOCK_ENTRIES:
            middle = (low + high) // 2
            entry = file.read_at(middle * ENTRY_BYTES, ENTRY_BYTES)
            if len(entry) == ENTRY_BYTES and _TIMESTAMP.unpack(entry[:8])[0] <= timestamp:
                low = middle
            else:
                high = middle
        block = file.read_at(low * ENTRY_BYTES, (high - low) * ENTRY_BYTES)
        return block[: len(block) - len(block) % ENTRY_BYTES]

    def last(self) -> TimeEntry:
        """The newest entry, or the segment's beginning."""
        if self._last is None:
            if self._pending:
                self._last = self._entry(self._pending, len(self._pending) // ENTRY_BYTES - 1)
            elif self._stored():
                block = self._handle.file().read_at((self._count - 1) * ENTRY_BYTES, ENTRY_BYTES)
                self._last = self._entry(block, 0 if len(block) == ENTRY_BYTES else -1)
            else:
                self._last = TimeEntry(-1, self.base_offset)
        return self._last

    def seal_checksum(self) -> int:
        """Of the size and the last entry: what a segment's greatest timestamp hangs on.  For a closed segment."""
        size = self._stored() * ENTRY_BYTES
        last = self._handle.file().read_at(size - ENTRY_BYTES, ENTRY_BYTES) if size else b""
        return int(crc32c(b"%d " % size + last))

    def truncate_to(self, offset: int) -> None:
        """Forget entries at and after an offset."""
        self.flush()
        self._last = None
        relative = offset - self.base_offset
        low, high = 0, self._stored()
        file = self._handle.file() if high else None
        while low < high and file is not None:
            middle = (low + high) // 2
            if _ENTRY.unpack(file.read_at(middle * ENTRY_BYTES, ENTRY_BYTES))[1] < relative:
                low = middle + 1
            else:
                high = middle
        if file is not None and low < self._count:
            file.truncate(low * ENTRY_BYTES)
        self._count = low

    def clear(self) -> None:
        self._pending.clear()
        self._last = None
        self._handle.file().truncate(0)
        self._count = 0
