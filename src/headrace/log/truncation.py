"""Cutting a log on disk, at its end or altogether.

Always: whoever keeps a recovery point for the log hears of a cut before it happens.  So a cut has two steps, because what was
written down of the log must be lowered on the medium first: `begin` on the loop's thread, `prepare` in any other, then
`truncate_to` on the loop's, then `end`; the same with `begin_starting_over` and `start_over_at`.  Called by themselves those two
prepare the cut in place.
"""

from collections.abc import Callable
from itertools import islice

from headrace.declaring import dataclass
from headrace.host.clock import Clock
from headrace.log.durability.durability import Durability
from headrace.log.epochs import EpochCache
from headrace.log.producers.producer_state import ProducerStates
from headrace.log.producers.snapshots import snapshot_offsets
from headrace.log.recovery.replay import replay_producers
from headrace.log.results import RemovedSegment
from headrace.log.segments.segment import SNAPSHOT_SUFFIX, IndexMismatch, Segment, segment_path
from headrace.log.segments.segments import Segments
from headrace.log.segments.swapping import prepare_beginning, put_beginning_in_place
from headrace.log.segments.writing import SegmentWriter
from headrace.log.state import LogState
from headrace.model.errors import StorageError


@dataclass(slots=True, eq=False)
class Cut:
    """A cut that is being prepared: where the log will end, and nothing beyond is promised until it does."""

    end: int
    is_prepared: bool = False


class Truncation:
    """Cuts one log."""

    def __init__(
        self,
        segments: Segments,
        writer: SegmentWriter,
        state: LogState,
        durability: Durability,
        epochs: EpochCache,
        producers: ProducerStates,
        clock: Clock,
        before_truncation: Callable[[int], None] | None,
    ) -> None:
        self._segments = segments
        self._writer = writer
        self._state = state
        self._durability = durability
        self._epochs = epochs
        self._producers = producers
        self._clock = clock
        self._before_truncation = before_truncation
        self._cuts: list[Cut] = []

    # -- before

    def begin(self, offset: int) -> Cut:
        """The log is about to be cut at an offset: until `end`, nothing is promised of what will be gone."""
        state, segments = self._state, self._segments
        state.require_working()
        end = min(offset, state.end_offset)
        if segments.bases[0] <= offset < state.end_offset:
            try:
                end = self._place_of_cut(offset)[1]
            except OSError as error:
                raise StorageError(segments.directory, f"looking for offset {offset}", error) from error
        return self._begin(end)

    def begin_starting_over(self, offset: int) -> Cut:
        """All of the log is about to go: nothing is promised of any of it, for a power failure may leave any beginning."""
        self._state.require_working()
        return self._begin(min(offset, self._state.local_start))

    def _begin(self, end: int) -> Cut:
        cut = Cut(end)
        self._cuts.append(cut)
        self._durability.limit_to(cut, end)
        return cut

    def prepare(self, cut: Cut) -> None:
        """In any thread: what is written down of the log is lowered to where it will end, and durable.  StorageError when not."""
        try:
            if self._before_truncation is not None:
                self._before_truncation(cut.end)
            self._durability.lower_note(cut.end)
        except OSError as error:
            raise self._state.refused("preparing to truncate", self._segments.directory, error) from error
        cut.is_prepared = True

    def end(self, cut: Cut) -> None:
        """It is done, or not wanted any more."""
        self._cuts.remove(cut)
        self._durability.lift_limit(cut)

    def _prepare_in_place(self, end: int) -> None:
        if not any(cut.is_prepared and cut.end <= end for cut in self._cuts):
            self.prepare(Cut(end))

    # -- the end of it

    def truncate_to(self, offset: int) -> list[RemovedSegment]:
        """Remove everything at and after an offset."""
        self._state.require_working()
        if offset >= self._state.end_offset:
            return []
        if offset < self._segments.bases[0]:
            return self.start_over_at(offset)
        try:
            return self._truncate_to(offset)
        except OSError as error:
            raise self._state.fail("truncating", self._segments.directory, error) from error

    def _place_of_cut(self, offset: int) -> tuple[int, int]:
        """Where in its segment a cut at an offset lies, and where the log then ends."""
        active = self._segments.all[self._segments.holding(offset)]
        if offset == active.base_offset:
            # Nothing of this segment stays, so nothing in it need be sound.
            return 0, offset
        position = self._segments.locate(active, offset)
        # The batch that holds the offset goes whole: half a batch cannot be kept.
        return position, min([offset, *(header.base_offset for _, header in islice(active.headers(position), 1))])

    def _truncate_to(self, offset: int) -> list[RemovedSegment]:
        segments = self._segments
        keep = segments.holding(offset) + 1
        active = segments.all[keep - 1]
        position, end = self._place_of_cut(offset)
        self._prepare_in_place(end)
        self._state.end_offset = end
        self._durability.lower(end)
        segments.visited.clear()
        removed = segments.remove_newest(keep, "truncation")
        if position < active.size:
            segments.size_bytes -= active.size - position
            self._cut(active, position, end)
        self._after_truncation(active)
        return removed

    def _cut(self, segment: Segment, position: int, offset: int) -> None:
        # Reading them repairs them, if they need it, while the whole segment is still there.
        self._segments.aborted_of(segment, segment.base_offset)
        try:
            segment.cut(position, offset)
        except IndexMismatch as mismatch:
            self._segments.rebuild(segment, mismatch)
        self._segments.sync_aborted_along(segment)

    def _after_truncation(self, active: Segment) -> None:
        state, segments = self._state, self._segments
        self._writer.on_cut()
        self._epochs.truncate_from_end(state.end_offset)
        state.start_offset = min(state.start_offset, state.end_offset)
        state.local_start = min(state.local_start, state.end_offset)
        segments.clean_offset = min(segments.clean_offset, state.end_offset)
        self._remove_snapshots(beyond=state.end_offset)
        replay_producers(segments.disk, segments.directory, segments.all, self._producers, snapshot_up_to=state.end_offset)
        self._durability.log_file_written(active.log)
        self._durability.names_changed()

    def _remove_snapshots(self, beyond: int) -> None:
        disk, directory = self._segments.disk, self._segments.directory
        for offset in snapshot_offsets(disk.list_names(directory)):
            if offset > beyond:
                disk.remove(segment_path(directory, offset, SNAPSHOT_SUFFIX))

    # -- all of it

    def start_over_at(self, offset: int) -> list[RemovedSegment]:
        """Remove everything; the next record gets `offset`.  NoRoom when the disk is too full for that: then all is as it was."""
        self._state.require_working()
        self._prepare_in_place(min(offset, self._state.local_start))
        return self.start_over_unprepared(offset)

    def start_over_unprepared(self, offset: int) -> list[RemovedSegment]:
        """The same where nothing that is written down of the log reaches beyond its end."""
        state, segments = self._state, self._segments
        disk, directory = segments.disk, segments.directory
        try:
            prepare_beginning(disk, directory, offset)
        except OSError as error:
            raise state.refused("starting over", directory, error) from error
        try:
            state.end_offset = min(state.end_offset, offset)
            self._durability.lower(offset)
            removed = segments.remove_newest(0, "truncation")
            self._remove_snapshots(beyond=-1)
            put_beginning_in_place(disk, directory, offset)
            segments.take_over([segments.create(offset, self._clock.wall_ms())])
        except OSError as error:
            raise state.fail("starting over", directory, error) from error
        state.local_start = state.end_offset = segments.clean_offset = offset
        self._writer.nothing_waits()
        if state.config.remote_storage_enable:
            # What is in an object store stays part of the log.
            state.start_offset = min(state.start_offset, offset)
            self._epochs.truncate_from_end(offset)
        else:
            state.start_offset = offset
            self._epochs.clear()
        self._producers.clear()
        return removed
