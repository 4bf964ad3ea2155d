"""Finding records by their time: through the time index to a batch, then record by record."""

from collections.abc import Iterator
from typing import Protocol

from headrace.host.disk import Disk
from headrace.log.indexes.time_index import TimeEntry
from headrace.log.results import FoundOffset
from headrace.log.segments.segment import Segment
from headrace.records.record import read_records


class TimeSearch(Protocol):
    """A search in the log as it was when the search was made, for another thread."""

    # What it found, when it ran.
    found: FoundOffset | None

    def run(self, disk: Disk) -> bool:
        """In any thread.  Whether it got through: only the log's owner mends what it meets."""
        ...

    def accept(self) -> bool:
        """For the log's owner: keep what it learnt; False when the log changed meanwhile, and it is to be done again."""
        ...


class Segments(Protocol):
    """Segments, oldest first, and what their indexes know."""

    def __iter__(self) -> Iterator[Segment]: ...
    def locate(self, segment: Segment, offset: int) -> int: ...
    def position_before(self, segment: Segment, timestamp: int) -> int: ...
    def largest_timestamp(self, segment: Segment) -> int: ...
    def latest_before(self, segment: Segment, offset: int) -> TimeEntry: ...


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
    seen = [segment for segment in segments if segment.size and segment.base_offset < up_to]
    greatest = max((_greatest_in(segments, start_offset, segment, up_to) for segment in seen), default=-1)
    return first_at_or_after(segments, start_offset, greatest, up_to) if greatest >= 0 else None


def _greatest_in(segments: Segments, start_offset: int, segment: Segment, up_to: int) -> int:
    found = segments.latest_before(segment, up_to)
    if found.offset >= start_offset or found.timestamp < 0:
        return found.timestamp
    # It lies before the start, in the one segment that the log begins in.
    headers = (header for _, header in segment.headers(segments.locate(segment, start_offset)))
    return max((header.max_timestamp for header in headers if header.next_offset <= up_to), default=-1)


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
