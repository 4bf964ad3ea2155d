"""Reading a log from its segments: from one to the next, and past what consumers cannot step over by themselves."""

from bisect import bisect_right
from typing import Final, NoReturn

from headrace.log.epochs import EpochCache
from headrace.log.results import CorruptBatch, Read
from headrace.log.segments.batch_reading import read_segment
from headrace.log.segments.reading_ahead import AheadOfRead, ReadAhead, SegmentSearch
from headrace.log.segments.scanning import Hole
from headrace.log.segments.segment import Segment
from headrace.log.segments.segments import Segments
from headrace.log.state import LogState
from headrace.model.errors import ErrorCode, RequestError, StorageError
from headrace.records.control import STEP_OFFSETS_MAX, build_step_over

VISITED_MAX: Final = 32


class SegmentReader:
    """Reads one log."""

    def __init__(self, segments: Segments, state: LogState, epochs: EpochCache) -> None:
        self._segments = segments
        self._state = state
        self._epochs = epochs

    def read(self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool, as_stored: bool = False) -> Read:
        state = self._state
        if state.failure is not None:
            raise state.failure
        end = state.end_offset
        if offset < state.local_start or offset > end:
            self._refuse(offset)
        if offset >= up_to or offset == end:
            if offset == end:
                active = self._segments.all[-1]
                self._visit(end, active, active.size)
            return Read(b"", -1, offset)
        try:
            read = self._read(offset, max_bytes, min(up_to, end), at_least_one, as_stored)
            if read.data or read.next_offset == offset:
                return read
            return self._read_beyond_gap(offset, read.next_offset, max_bytes, min(up_to, end), at_least_one)
        except OSError as error:
            raise StorageError(self._segments.directory, f"reading at offset {offset}", error) from error

    def _refuse(self, offset: int) -> NoReturn:
        state = self._state
        if state.start_offset <= offset < state.local_start:
            raise RequestError(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, f"offset {offset} is in the object store")
        between = f"{state.start_offset} and {state.end_offset}"
        raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not between {between}")

    def _read_beyond_gap(self, offset: int, following: int, max_bytes: int, up_to: int, at_least_one: bool) -> Read:
        """What comes after batches without records, and where that is nothing, something to step over them."""
        while following < up_to:
            read = self._read(following, max_bytes, up_to, at_least_one, False)
            if read.data:
                return read
            if read.next_offset == following:
                break
            following = read.next_offset
        if following < up_to and not at_least_one:
            return Read(b"", -1, offset)
        following = min(following, offset + STEP_OFFSETS_MAX)
        return Read(build_step_over(offset, following, self._epochs.epoch_at(offset)), offset, following)

    def _read(self, offset: int, max_bytes: int, up_to: int, at_least_one: bool, as_stored: bool) -> Read:
        segments, bases = self._segments.all, self._segments.bases
        visited = self._segments.visited.get(offset)
        if visited is not None:
            segment, position = visited
            index = len(segments) - 1 if segment is segments[-1] else bisect_right(bases, segment.base_offset) - 1
        else:
            index = bisect_right(bases, offset) - 1
            segment = segments[index]
            position = self._segments.locate(segment, offset)
        while position >= segment.size:
            index += 1
            if index == len(segments):
                return Read(b"", -1, offset)
            if offset < bases[index]:
                self._lost_end(segment, offset, bases[index])
            # The segment was rolled since this reader was at its end.
            segment, position = segments[index], 0
        bound = self._state.end_offset if index == len(segments) - 1 else bases[index + 1]
        known = len(segment.holes)
        try:
            read, position = read_segment(
                segment, position, offset, max_bytes, up_to, bound, self._epochs, at_least_one=at_least_one, as_stored=as_stored
            )
        finally:
            self._state.corruption_count += len(segment.holes) - known
        if read.data:
            self._visit(read.next_offset, segment, position)
        return read

    def ahead_of_read(self, offset: int, size: int) -> ReadAhead | None:
        state, segments = self._state, self._segments
        if state.failure is not None or not state.local_start <= offset < state.end_offset:
            return None
        segment, position = segments.visited.get(offset, (None, None))
        return AheadOfRead(segment or segments.all[segments.holding(offset)], offset, position, size)

    def time_search(self, timestamp: int | None, up_to: int) -> SegmentSearch | None:
        if self._state.failure is not None:
            return None
        return SegmentSearch(self._segments, self._state, timestamp, up_to)

    def _lost_end(self, segment: Segment, offset: int, next_base: int) -> NoReturn:
        """A segment's last batch ends where the next segment begins, always: when it does not, the end of the file is gone."""
        reason = f"the segment ends before offset {next_base}"
        if not any(hole.start == segment.size for hole in segment.holes):
            segment.holes.append(Hole(segment.size, segment.size, offset, next_base, reason))
            self._state.corruption_count += 1
        raise CorruptBatch(segment.log.path, segment.size, offset, reason)

    def _visit(self, offset: int, segment: Segment, position: int) -> None:
        visited = self._segments.visited
        visited[offset] = segment, position
        if len(visited) > VISITED_MAX:
            del visited[next(iter(visited))]
