"""Finding records by their time: through the time index to a batch, then record by record."""

from headrace.log.results import FoundOffset
from headrace.log.segments.segment import Segment
from headrace.log.segments.segments import Segments
from headrace.records.record import read_records


def first_at_or_after(segments: Segments, start_offset: int, timestamp: int, up_to: int) -> FoundOffset | None:
    """The first record at or after a time, of those from a start to an offset."""
    for segment in list(segments):
        if segment.base_offset >= up_to:
            break
        if segment.size and segments.largest_timestamp(segment) >= timestamp:
            found = _first_in(segments, start_offset, segment, timestamp, up_to)
            if found is not None:
                return found
    return None


def latest(segments: Segments, start_offset: int, up_to: int) -> FoundOffset | None:
    """The record with the greatest timestamp, of those from a start to an offset; of several the first."""
    best: Segment | None = None
    for segment in segments:
        if not segment.size or segment.base_offset >= up_to:
            continue
        if best is None or segments.largest_timestamp(segment) > segments.largest_timestamp(best):
            best = segment
    if best is None or segments.largest_timestamp(best) < 0:
        return None
    found = _first_in(segments, start_offset, best, segments.largest_timestamp(best), up_to)
    # The greatest of all may lie beyond `up_to`; then it has to be looked for among what may be seen.
    return found if found is not None else _latest_by_reading(segments, start_offset, up_to)


def _first_in(segments: Segments, start_offset: int, segment: Segment, timestamp: int, up_to: int) -> FoundOffset | None:
    start = segments.position_before(segment, timestamp)
    for position, header in segment.headers(start):
        if header.base_offset >= up_to:
            return None
        if header.max_timestamp < timestamp or header.last_offset < start_offset:
            continue
        for record in read_records(segment.batch_at(position)[1]):
            if record.timestamp >= timestamp and start_offset <= record.offset < up_to:
                return FoundOffset(record.timestamp, record.offset, header.leader_epoch)
    return None


def _latest_by_reading(segments: Segments, start_offset: int, up_to: int) -> FoundOffset | None:
    greatest = -1
    for segment in segments:
        if segment.base_offset >= up_to:
            break
        for _, header in segment.headers(0):
            if header.next_offset <= up_to and header.last_offset >= start_offset:
                greatest = max(greatest, header.max_timestamp)
    return first_at_or_after(segments, start_offset, greatest, up_to) if greatest >= 0 else None
