"""Looking for things in a log's segments: a time, the greatest time, transactions that were aborted."""

from headrace.log.indexes.time_search import first_at_or_after, latest
from headrace.log.results import AbortedTransaction, FoundOffset
from headrace.log.segments.segments import Segments
from headrace.log.state import LogState
from headrace.model.errors import StorageError


class SegmentFinder:
    """Looks into one log."""

    def __init__(self, segments: Segments, state: LogState) -> None:
        self._segments = segments
        self._state = state

    def offset_for_timestamp(self, timestamp: int, up_to: int) -> FoundOffset | None:
        self._state.require_working()
        try:
            return first_at_or_after(self._segments, self._state.local_start, timestamp, up_to)
        except OSError as error:
            raise StorageError(self._segments.directory, f"looking for time {timestamp}", error) from error

    def offset_of_max_timestamp(self, up_to: int) -> FoundOffset | None:
        self._state.require_working()
        try:
            return latest(self._segments, self._state.local_start, up_to)
        except OSError as error:
            raise StorageError(self._segments.directory, "looking for the greatest time", error) from error

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        self._state.require_working()
        try:
            return self._aborted(start, end)
        except OSError as error:
            raise StorageError(self._segments.directory, "looking for aborted transactions", error) from error

    def _aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        found: dict[int, AbortedTransaction] = {}
        for segment in self._segments[max(0, self._segments.holding(start)) :]:
            for entry in self._segments.aborted_of(segment, start):
                if entry.first_offset < end:
                    found[entry.last_offset] = AbortedTransaction(entry.producer_id, entry.first_offset)
                if entry.last_stable_offset >= end:
                    return list(found.values())
        return list(found.values())
