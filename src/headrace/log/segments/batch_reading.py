"""Cutting whole batches out of a segment for a reader.

Batches of the active segment that this process appended were checked when they came; only their lengths are looked at, and only
where the read has to be cut.  Every other batch is checked each time it is read: its CRC, and what the CRC does not cover: that
its offset lies between those of its neighbours, and that its leader epoch is the one of that offset.
"""

from headrace.log.epochs import EpochCache
from headrace.log.results import CorruptBatch, Read
from headrace.log.segments.scanning import header_fault
from headrace.log.segments.segment import Segment
from headrace.model.identity import NO_EPOCH
from headrace.records.header import (
    FRAME,
    FRAME_BYTES,
    HEADER_BYTES,
    BatchHeader,
    base_offset_of,
    crc_matches,
    next_offset_of,
    read_header,
)

_unpack_frame = FRAME.unpack_from


def read_segment(
    segment: Segment,
    position: int,
    offset: int,
    max_bytes: int,
    up_to: int,
    bound: int,
    epochs: EpochCache,
    *,
    at_least_one: bool,
    as_stored: bool,
) -> tuple[Read, int]:
    """Batches from a position on, and the position after them.  `bound`: no offset in this segment reaches it.

    Without data and with a later offset than asked for: there were only batches without records, and they were passed over."""
    available = segment.size - position
    wanted = min(max_bytes, available)
    trusted = position >= segment.trusted_from and (as_stored or not segment.has_empty)
    # One header more shows what offset the last batch must stay below.
    data = segment.log.file().read_at(position, wanted if trusted else min(wanted + HEADER_BYTES, available))
    if len(data) < min(wanted, available):
        raise CorruptBatch(segment.log.path, position, offset, "the file is shorter than it was")
    if trusted and wanted == available and up_to == bound:
        return Read(data, base_offset_of(data), bound), segment.size
    first_bytes = _first_batch_bytes(segment, data, position, offset)
    if first_bytes > wanted:
        if not at_least_one:
            return Read(b"", -1, offset), position
        wanted = first_bytes
        data = segment.log.file().read_at(position, min(wanted if trusted else wanted + HEADER_BYTES, available))
    if trusted:
        end, first_offset, next_offset = _trusted_cut(data, wanted, up_to)
        empty: list[tuple[int, int]] = []
    else:
        end, first_offset, next_offset, empty = _checked_cut(segment, data, position, offset, wanted, up_to, bound, epochs)
    if end == 0:
        return Read(b"", -1, offset), position
    if empty and not as_stored:
        kept, end, next_offset = _without(memoryview(data)[:end], empty, next_offset)
        return Read(kept, base_offset_of(kept) if kept else -1, next_offset), position + end
    return Read(data if end == len(data) else memoryview(data)[:end], first_offset, next_offset), position + end


def _first_batch_bytes(segment: Segment, data: bytes, position: int, offset: int) -> int:
    head = data if len(data) >= HEADER_BYTES else segment.log.file().read_at(position, HEADER_BYTES)
    fault = "the file ends within a header"
    if len(head) >= HEADER_BYTES:
        header = read_header(head)
        fault = header_fault(header, segment.size - position, segment.base_offset) or ""
        if not fault:
            return header.size
    hole = segment.hole_at(position, offset, fault)
    raise CorruptBatch(segment.log.path, position, hole.first_offset, hole.reason)


def _trusted_cut(data: bytes, wanted: int, up_to: int) -> tuple[int, int, int]:
    """Where the last whole batch below `up_to` ends; the first base offset; the next offset."""
    position = last = 0
    limit = min(wanted, len(data))
    while position + FRAME_BYTES <= limit:
        base_offset, length = _unpack_frame(data, position)
        if base_offset >= up_to or position + FRAME_BYTES + length > limit:
            break
        last = position
        position += FRAME_BYTES + length
    if position == 0:
        return 0, -1, -1
    first_offset = base_offset_of(data)
    next_offset = next_offset_of(data, last)
    if next_offset > up_to:
        # `up_to` lies within the last batch: that batch is not for this reader yet.
        if last == 0:
            return 0, -1, -1
        return last, first_offset, base_offset_of(data, last)
    return position, first_offset, next_offset


def _checked_cut(
    segment: Segment, data: bytes, start: int, offset: int, wanted: int, up_to: int, bound: int, epochs: EpochCache
) -> tuple[int, int, int, list[tuple[int, int]]]:
    """The same, each batch proved, and where batches without records lie.  Damage at the first batch raises; damage later ends
    the read before it."""
    empty: list[tuple[int, int]] = []
    view = memoryview(data)
    position, first_offset, next_offset = 0, -1, -1
    expected = segment.base_offset
    limit = min(wanted, len(data))
    while position + HEADER_BYTES <= limit:
        header = read_header(view, position)
        end = position + header.size
        fault = header_fault(header, segment.size - start - position, expected)
        if fault is None:
            if end > limit:
                break
            fault = _neighbour_fault(view, end, header.next_offset, bound) or _epoch_fault(header, epochs)
            if fault is None and not crc_matches(view[position:end]):
                fault = "its CRC does not match its bytes"
        if fault is not None:
            hole = segment.hole_at(start + position, max(expected, offset if first_offset < 0 else 0), fault)
            if first_offset < 0:
                raise CorruptBatch(segment.log.path, start + position, hole.first_offset, fault)
            break
        if header.next_offset > up_to:
            # Proved first: a wrong offset beyond the bound would keep the reader waiting for ever.
            break
        if first_offset < 0:
            first_offset = header.base_offset
        if not header.record_count:
            empty.append((position, end))
        expected = next_offset = header.next_offset
        position = end
    return position, first_offset, next_offset, empty


def _without(data: memoryview, empty: list[tuple[int, int]], next_offset: int) -> tuple[bytes, int, int]:
    """Batches without the empty ones among them; where they end and the offset after them, or after all when all are empty."""
    parts, position = [], 0
    for start, end in empty:
        parts.append(data[position:start])
        position = end
    kept = b"".join([*parts, data[position:]])
    if not kept or position < len(data):
        return kept, len(data), next_offset
    # It ends with empty ones: the reader comes back for the first of them.
    start = position
    for first, end in reversed(empty):
        if end != start:
            break
        start = first
    return kept, start, base_offset_of(data, start)


def _epoch_fault(header: BatchHeader, epochs: EpochCache) -> str | None:
    """The CRC does not cover the leader epoch either: a follower that believed a wrong one could not find where logs part."""
    known = epochs.epoch_at(header.base_offset)
    if known in (NO_EPOCH, header.leader_epoch):
        return None
    return f"its leader epoch is {header.leader_epoch}, and not {known}"


def _neighbour_fault(view: memoryview, end: int, next_offset: int, bound: int) -> str | None:
    """An offset that reaches into the next batch, or out of the segment, is not the one that was written."""
    limit = bound
    if end + FRAME_BYTES <= len(view):
        following = base_offset_of(view, end)
        # The neighbour may be the broken one: it is believed only as far as it is possible at all.
        limit = min(bound, following) if following >= 0 else bound
    return None if next_offset <= limit else f"its last offset {next_offset - 1} is not below {limit}"
