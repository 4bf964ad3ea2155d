"""What the two indexes of a segment have in common: a file of sorted entries of fixed size, found by bisection.

The first number of an entry is what it is looked up by, and rises from entry to entry, as do the offsets in it.
Always: the newest entries wait in memory, at most a page of them while the disk has room for more; everything else is read from
the file where it is needed, so memory does not grow with the log.
"""

import struct
from bisect import bisect_right
from typing import ClassVar, Final, Self

from headrace.host.disk import is_full
from headrace.log.segments.files import Handle

_PAGE_BYTES: Final = 4096
_TRIED_AGAIN_AFTER: Final = 64  # entries, when the disk had no room for a page


class SparseIndex:
    """One index file and the entries that are not in it yet."""

    __slots__ = ("_count", "_handle", "_pending", "base_offset")

    ENTRY: ClassVar[struct.Struct]
    # Which number of an entry is the offset, relative to the segment's base.
    OFFSET_FIELD: ClassVar[int]

    def __init__(self, handle: Handle, base_offset: int, *, is_new: bool = False) -> None:
        self.base_offset = base_offset
        self._handle = handle
        # Entries in the file; -1 until it was looked at, which for most closed segments is never.
        self._count = 0 if is_new else -1
        self._pending = bytearray()

    def __repr__(self) -> str:
        known = "unread" if self._count < 0 else f"{len(self)} entries"
        return f"<{self._handle.path.name}: {known}>"

    @property
    def handle(self) -> Handle:
        return self._handle

    @property
    def size_bytes(self) -> int:
        return self._stored() * self.ENTRY.size + len(self._pending)

    def __len__(self) -> int:
        return self._stored() + len(self._pending) // self.ENTRY.size

    def _stored(self) -> int:
        if self._count < 0:
            file, size = self._handle.file(), self.ENTRY.size
            self._count = file.size() // size
            if file.size() % size:
                # Half an entry would put every later one out of step.
                file.truncate(self._count * size)
        return self._count

    def take_over(self, other: Self) -> None:
        """Know what another knows that has the same file."""
        self._pending, self._count = other._pending[:], other._count

    def _add(self, *fields: int) -> None:
        self._pending += self.ENTRY.pack(*fields)
        waiting, size = len(self._pending), self.ENTRY.size
        if waiting + size > _PAGE_BYTES and (waiting <= _PAGE_BYTES or waiting // size % _TRIED_AGAIN_AFTER == 0):
            try:
                self.flush()
            except OSError as error:
                # The batch is in the log by now: its entry waits, with the others, for room or for the end of the segment.
                if not is_full(error):
                    raise

    def flush(self) -> None:
        """Hand what waits to the file.  When that fails because the disk is full, it goes on waiting, and nothing is torn."""
        if self._pending:
            stored = self._stored()
            file = self._handle.file()
            try:
                file.append([bytes(self._pending)])
            except OSError as error:
                if is_full(error):
                    file.truncate(stored * self.ENTRY.size)
                raise
            self._count += len(self._pending) // self.ENTRY.size
            self._pending.clear()

    def _find(self, key: int, field: int = 0) -> tuple[int, ...] | None:
        """The last entry of which a number, the first unless told otherwise, is at or below the key."""
        unpack, size = self.ENTRY.unpack_from, self.ENTRY.size
        if self._pending and unpack(self._pending)[field] <= key:
            block: bytes | bytearray = self._pending
        else:
            block = self._block_holding(key, field)
        index = bisect_right(range(len(block) // size), key, key=lambda each: unpack(block, each * size)[field])
        return unpack(block, (index - 1) * size) if index else None

    def _block_holding(self, key: int, field: int) -> bytes:
        low, high = 0, self._stored()
        if not high:
            return b""
        file, size = self._handle.file(), self.ENTRY.size
        # Below a page of entries the rest of a search is one read.
        while (high - low) * size > _PAGE_BYTES:
            middle = (low + high) // 2
            entry = file.read_at(middle * size, size)
            if len(entry) == size and self.ENTRY.unpack(entry)[field] <= key:
                low = middle
            else:
                high = middle
        block = file.read_at(low * size, (high - low) * size)
        return block[: len(block) - len(block) % size]

    def _last_fields(self) -> tuple[int, ...] | None:
        size = self.ENTRY.size
        if self._pending:
            return self.ENTRY.unpack_from(self._pending, len(self._pending) - size)
        block = self._handle.file().read_at((self._count - 1) * size, size) if self._stored() else b""
        return self.ENTRY.unpack(block) if len(block) == size else None

    def truncate_to(self, offset: int) -> None:
        """Forget entries at and after an offset."""
        relative, size = offset - self.base_offset, self.ENTRY.size
        while self._pending and self.ENTRY.unpack_from(self._pending, len(self._pending) - size)[self.OFFSET_FIELD] >= relative:
            del self._pending[-size:]
        if self._pending:
            return  # what is in the file lies before that
        low, high = 0, self._stored()
        file = self._handle.file() if high else None
        while low < high and file is not None:
            middle = (low + high) // 2
            if self.ENTRY.unpack(file.read_at(middle * size, size))[self.OFFSET_FIELD] < relative:
                low = middle + 1
            else:
                high = middle
        if file is not None and low < self._count:
            file.truncate(low * size)
        self._count = low

    def clear(self) -> None:
        """Forget everything: a rebuild follows."""
        self._pending.clear()
        self._handle.file().truncate(0)
        self._count = 0
