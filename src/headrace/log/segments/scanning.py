"""Reading a segment file from one end to the other, trusting nothing.

A batch counts only when its header makes sense, its offset follows the one before and its CRC is right.  Where one does not,
the scan looks for the next batch that does: what lies between is a hole (broken bytes with sound ones after them), and broken
bytes up to the end of the file are a bad tail (as a crash in the middle of a write leaves it).
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.host.disk import File
from headrace.records.header import (
    ATTRIBUTES_POSITION,
    FRAME_BYTES,
    HEADER_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    crc_matches,
    read_header,
)

CHUNK_BYTES: Final = 1024 * 1024
PAGE_BYTES: Final = 4096
# Offsets within a segment are 31 bits from its base; a jump of more cannot be.
OFFSET_JUMP_MAX: Final = 2**31
_ZERO_PAGE = bytes(PAGE_BYTES)
_MAGIC_BYTE = bytes((MAGIC,))


class ScannedBatch(NamedTuple):
    """A sound batch and where it lies."""

    header: BatchHeader
    position: int
    data: memoryview


class Hole(NamedTuple):
    """Broken bytes.  The offsets [first_offset, next_offset) cannot be served."""

    start: int
    end: int
    first_offset: int
    next_offset: int
    reason: str


def header_fault(header: BatchHeader, room: int, expected_offset: int) -> str | None:
    """Why a header cannot be right, given the bytes left in the file and the lowest offset it may have; None when it can."""
    if header.magic != MAGIC:
        return f"its magic is {header.magic}"
    if header.batch_length < HEADER_BYTES - FRAME_BYTES:
        return f"its length is {header.batch_length}"
    if header.size > room:
        return "it reaches beyond the end of the file"
    if header.base_offset < expected_offset:
        return f"its offset is {header.base_offset}"
    if header.last_offset_delta < 0 or header.record_count < 0 or header.base_offset - expected_offset > OFFSET_JUMP_MAX:
        return "its counts make no sense"
    return None


def jump_fault(header: BatchHeader, following: BatchHeader | None, expected_offset: int) -> str | None:
    """Why an offset that does not simply follow the one before is wrong: the next batch would lie below it.

    Base offsets are outside the CRC, and compaction leaves gaps; a flipped bit makes a gap that the next batch contradicts.
    """
    if header.base_offset == expected_offset or following is None or following.magic != MAGIC:
        return None
    if expected_offset <= following.base_offset < header.next_offset:
        return f"its offset {header.base_offset} is not below the next one, {following.base_offset}"
    return None


class Scanner:
    """One pass over a segment file.  After the iteration: `holes`, `end` (after the last sound batch) and `bad_tail`."""

    def __init__(
        self,
        file: File,
        base_offset: int,
        *,
        start: int = 0,
        size: int | None = None,
        bound: int | None = None,
        ends_without_gap: bool = False,
        end_offset: int | None = None,
    ) -> None:
        self._file = file
        # No offset in this file reaches it: the next segment begins there.
        self._bound = bound
        # For the last batch there is no next one that could contradict a wrong offset: it follows the one before it, or it ends
        # where the log is known to have ended.
        self._ends_without_gap = ends_without_gap
        self._end_offset = end_offset
        self._size = file.size() if size is None else size
        self._chunk = memoryview(b"")
        self._chunk_start = 0
        self.next_offset = base_offset
        self.end = start
        self.holes: list[Hole] = []
        self.bad_tail: str | None = None

    def __iter__(self) -> Iterator[ScannedBatch]:
        while self.end < self._size:
            found, reason = self._batch_at(self.end, self.next_offset)
            if found is None:
                found = self._resume(reason)
                if found is None:
                    self.bad_tail = reason
                    return
            self.end = found.position + found.header.size
            self.next_offset = found.header.next_offset
            yield found

    def _resume(self, reason: str) -> ScannedBatch | None:
        found = self._next_sound(self.end + 1)
        if found is not None:
            self.holes.append(Hole(self.end, found.position, self.next_offset, found.header.base_offset, reason))
        return found

    def _batch_at(self, position: int, expected_offset: int) -> tuple[ScannedBatch | None, str]:
        room = self._size - position
        if room < HEADER_BYTES:
            return None, "the file ends within a header"
        header = read_header(self._bytes(position, HEADER_BYTES))
        fault = header_fault(header, room, expected_offset)
        if fault:
            return None, fault
        following = self._header_at(position + header.size)
        fault = jump_fault(header, following, expected_offset)
        if following is None and header.base_offset != expected_offset and self._is_wrong_end(header):
            fault = f"its offset is {header.base_offset}, not {expected_offset}"
        if fault is None and self._bound is not None and header.next_offset > self._bound:
            fault = f"its last offset {header.last_offset} is not below {self._bound}"
        if fault:
            return None, fault
        data = self._bytes(position, header.size)
        if not crc_matches(data):
            return None, "its CRC does not match its bytes"
        return ScannedBatch(header, position, data), ""

    def _is_wrong_end(self, header: BatchHeader) -> bool:
        return self._ends_without_gap if self._end_offset is None else header.next_offset != self._end_offset

    def _header_at(self, position: int) -> BatchHeader | None:
        return read_header(self._bytes(position, HEADER_BYTES)) if position + HEADER_BYTES <= self._size else None

    def _next_sound(self, position: int) -> ScannedBatch | None:
        """The next position at which a batch is right in every respect."""
        while position + HEADER_BYTES <= self._size:
            window = bytes(self._bytes(position, min(CHUNK_BYTES, self._size - position)))
            index = window.find(_MAGIC_BYTE, MAGIC_POSITION)
            while index >= 0:
                found, _ = self._batch_at(position + index - MAGIC_POSITION, self.next_offset)
                if found is not None:
                    return found
                index = window.find(_MAGIC_BYTE, index + 1)
            # A header may lie across the window's end.
            position += max(1, len(window) - ATTRIBUTES_POSITION)
        return None

    def _bytes(self, position: int, size: int) -> memoryview:
        offset = position - self._chunk_start
        if offset < 0 or offset + size > len(self._chunk):
            self._chunk = memoryview(self._file.read_at(position, min(max(size, CHUNK_BYTES), self._size - position)))
            self._chunk_start, offset = position, 0
            if len(self._chunk) < size:
                raise OSError(f"{self._file.path} is shorter than it was: {size} bytes wanted at {position}")
        return self._chunk[offset : offset + size]


def holds_zero_page(file: File, start: int, end: int) -> bool:
    """Whether a whole page in [start, end) is zero: what a power failure leaves of a page that was never written down.

    The first page may have been written down once, when it was not yet full: then its rest is zero.
    """
    position = -(-start // PAGE_BYTES) * PAGE_BYTES
    if position - start >= HEADER_BYTES and position <= end and not any(file.read_at(start, position - start)):
        return True
    while position + PAGE_BYTES <= end:
        if file.read_at(position, PAGE_BYTES) == _ZERO_PAGE:
            return True
        position += PAGE_BYTES
    return False
