"""Finding things in the bytes of a segment of which one has only pieces: batches, offsets, times, aborted transactions.

The indexes are Kafka's, as `log/indexes` writes them: pairs of a relative offset and a position, or of a time and an offset."""

import struct
from bisect import bisect_right
from typing import Final, NamedTuple

from headrace.records.header import FRAME_BYTES, HEADER_BYTES, BatchHeader, crc_matches, read_header
from headrace.records.record import read_records

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_ABORTED_ENTRY: Final = struct.Struct(">hqqqq")


class BatchBroken(ValueError):
    """Bytes that should be a batch are none."""


class Cut(NamedTuple):
    """Whole batches out of a piece of a segment."""

    start: int  # where they begin and end in the piece
    end: int
    first_offset: int  # -1 when there are none
    next_offset: int
    # How many bytes the piece would have to have for the next batch to be whole; 0 when nothing is missing.
    wanted: int


class Aborted(NamedTuple):
    """An aborted transaction; `last_offset` is its marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class FoundTime(NamedTuple):
    """A record found by its time."""

    timestamp: int
    offset: int
    leader_epoch: int


class _Entries:
    """The entries of an index, read where they lie."""

    def __init__(self, data: bytes, entry: struct.Struct, field: int) -> None:
        self._data = data
        self._entry = entry
        self._field = field

    def __len__(self) -> int:
        return len(self._data) // self._entry.size

    def __getitem__(self, index: int) -> int:
        return int(self.fields(index)[self._field])

    def fields(self, index: int) -> tuple[int, ...]:
        return self._entry.unpack_from(self._data, index * self._entry.size)


def position_of(offset_index: bytes, base_offset: int, offset: int) -> int:
    """From where to look for an offset."""
    entries = _Entries(offset_index, _OFFSET_ENTRY, 0)
    index = bisect_right(entries, offset - base_offset)
    return entries.fields(index - 1)[1] if index else 0


def offset_before(time_index: bytes, base_offset: int, timestamp: int) -> int:
    """An offset at or before which no record is as late as a time; below the base when there is none."""
    entries = _Entries(time_index, _TIME_ENTRY, 0)
    index = bisect_right(entries, timestamp - 1)
    return base_offset + entries.fields(index - 1)[1] if index else base_offset - 1


def aborted_of(aborted_index: bytes) -> list[Aborted]:
    """All of them, in the order in which they ended."""
    return [Aborted(*fields) for _, *fields in _ABORTED_ENTRY.iter_unpack(aborted_index)]


def cut_batches(piece: bytes | memoryview, offset: int, end_offset: int, bytes_max: int) -> Cut:
    """The batches from the one that holds an offset on, none reaching an end, and one at least if it is whole.

    Their checksums are compared: the bytes come from elsewhere.  Raises BatchBroken."""
    position = start = 0
    first, following = -1, offset
    view = memoryview(piece)
    while position < len(view):
        if position + HEADER_BYTES > len(view):
            return _ended(start, position, first, following, position + HEADER_BYTES)
        header = _checked_header(view, position)
        if header.base_offset >= end_offset:
            break
        if header.last_offset < offset:
            position += header.size
            start = position
            continue
        if position + header.size > len(view):
            return _ended(start, position, first, following, position + header.size)
        if first >= 0 and position + header.size - start > bytes_max:
            break
        if not crc_matches(view[position : position + header.size]):
            raise BatchBroken(f"the batch at offset {header.base_offset} does not match its checksum")
        first = header.base_offset if first < 0 else first
        following = header.next_offset
        position += header.size
    return Cut(start, max(start, position if first >= 0 else start), first, following, 0)


def _ended(start: int, position: int, first: int, following: int, wanted: int) -> Cut:
    """The piece ends within a batch: that matters only where it would be the first."""
    return Cut(start, position if first >= 0 else start, first, following, 0 if first >= 0 else wanted)


def _checked_header(view: memoryview, position: int) -> BatchHeader:
    header = read_header(view, position)
    if header.magic != 2 or header.batch_length < HEADER_BYTES - FRAME_BYTES or header.last_offset_delta < 0:
        raise BatchBroken(f"there is no batch at {position}")
    return header


def trimmed(data: bytes | memoryview, bytes_max: int, up_to: int, *, at_least_one: bool) -> tuple[memoryview, int]:
    """So many bytes at most of whole batches, none reaching an offset, and where the next read goes on; -1 for nothing."""
    view = memoryview(data)
    position, following = 0, -1
    while position < len(view):
        header = read_header(view, position)
        if header.next_offset > up_to or (position + header.size > bytes_max and not (at_least_one and position == 0)):
            break
        position += header.size
        following = header.next_offset
    return view[:position], following


def first_at_or_after(piece: bytes | memoryview, timestamp: int, start_offset: int, end_offset: int) -> FoundTime | None:
    """The first record at or after a time in whole batches."""
    view = memoryview(piece)
    position = 0
    while position + HEADER_BYTES <= len(view):
        header = _checked_header(view, position)
        if header.base_offset >= end_offset or position + header.size > len(view):
            return None
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            for record in read_records(view[position : position + header.size]):
                if record.timestamp >= timestamp and start_offset <= record.offset < end_offset:
                    return FoundTime(record.timestamp, record.offset, header.leader_epoch)
        position += header.size
    return None
