"""The segments of one log, in one directory.

Always: offsets increase from segment to segment, and each begins where the one before ends; the last one is appended to.  What
leaves is renamed first and unlinked by the caller where that may take its time.  Whoever asks a segment something its indexes
know asks here: an index that does not describe its segment is noticed, counted, and made anew.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import overload

from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.log.durability.durability import Durability
from headrace.log.durability.small_files import SmallFiles
from headrace.log.indexes.aborted_index import AbortedEntry
from headrace.log.indexes.time_index import TimeEntry
from headrace.log.producers.producer_state import ProducerStates
from headrace.log.recovery.replay import replay_producers
from headrace.log.results import RemovedSegment
from headrace.log.segments.files import FilePool
from headrace.log.segments.segment import ABORTED_SUFFIX, LOG_SUFFIX, NEVER_LOOKED, IndexMismatch, Segment, segment_path
from headrace.log.segments.swapping import mark_deleted, unlink
from headrace.log.state import LogState


class Segments(Sequence[Segment]):
    """Oldest first."""

    def __init__(
        self,
        directory: Path,
        state: LogState,
        durability: Durability,
        small_files: SmallFiles,
        *,
        disk: Disk,
        clock: Clock,
        files: FilePool,
    ) -> None:
        self.directory = directory
        self.disk = disk
        self.files = files
        self.all: list[Segment] = []
        self.bases: list[int] = []
        self.size_bytes = 0
        # Where compaction has got to: everything below is clean.
        self.clean_offset = 0
        # Positions where readers stopped, so that the next read needs no search.
        self.visited: dict[int, tuple[Segment, int]] = {}
        self._state = state
        self._durability = durability
        self._small_files = small_files
        self._clock = clock

    def __repr__(self) -> str:
        return f"<{len(self.all)} segments of {self.size_bytes} bytes in {self.directory}>"

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.all)

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...
    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        return self.all[index]

    def holding(self, offset: int) -> int:
        """Which segment an offset lies in, by its place; -1 when it lies before them all."""
        return bisect_right(self.bases, offset) - 1

    @property
    def damaged_from(self) -> int | None:
        """Where the first segment begins of which something cannot be read any more."""
        start = self._state.local_start
        for segment in self.all:
            if any(hole.next_offset > start for hole in segment.holes):
                return max(segment.base_offset, start)
        return None

    # -- in and out

    def take_over(self, segments: list[Segment]) -> None:
        """These are all there are."""
        self.all = segments
        self.bases = [segment.base_offset for segment in segments]
        self.size_bytes = sum(segment.size for segment in segments)

    def create(self, base_offset: int, now_ms: int) -> Segment:
        """An empty segment, which `add` or `take_over` lets in."""
        segment = Segment(
            self.files,
            self.directory,
            base_offset,
            index_interval_bytes=self._state.config.index_interval_bytes,
            created_ms=now_ms,
            is_new=True,
        )
        # Files of that name can only be debris of a truncation or of a roll that failed.
        segment.log.file().truncate(0)
        for handle in segment.handles()[1:]:
            self.disk.remove(handle.path)
        self._durability.log_file_written(segment.log)
        self._durability.names_changed()
        return segment

    def add(self, segment: Segment) -> None:
        self.all.append(segment)
        self.bases.append(segment.base_offset)

    def remove_oldest(self, count: int, reason: str) -> list[RemovedSegment]:
        removed = [self._rename_away(segment, reason) for segment in self.all[:count]]
        del self.all[:count], self.bases[:count]
        return removed

    def remove_newest(self, kept: int, reason: str) -> list[RemovedSegment]:
        """All but so many of the oldest.  From the end: a power failure half way leaves a shorter log, and no gap."""
        removed = [self._rename_away(segment, reason) for segment in reversed(self.all[kept:])]
        del self.all[kept:], self.bases[kept:]
        return removed

    def _rename_away(self, segment: Segment, reason: str, *, with_snapshot: bool = True) -> RemovedSegment:
        """Rename a segment's files and forget it; the caller takes it off the list."""
        self.visited.clear()
        self._durability.forget(segment.handles())
        for handle in segment.handles():
            handle.discard()
        try:
            paths = mark_deleted(self.disk, self.directory, segment.base_offset, with_snapshot=with_snapshot)
        except OSError as error:
            raise self._state.fail("removing a segment", segment.log.path, error) from error
        self.size_bytes -= segment.size
        delay_ms = self._state.config.file_delete_delay_ms
        return RemovedSegment(segment.base_offset, segment.size, reason, lambda: unlink(self.disk, paths), delay_ms)

    def replace(
        self, bases: Sequence[int], finish: Callable[[Disk, Path, Sequence[int]], None], next_expiry_ms: int | None
    ) -> list[RemovedSegment]:
        """Put a compacted segment, ready under `.swap`, in the place of neighbours."""
        self._state.require_working()
        index = self.bases.index(bases[0])
        old = self.all[index : index + len(bases)]
        removed = [self._rename_away(segment, "compaction", with_snapshot=segment is not old[0]) for segment in old]
        try:
            finish(self.disk, self.directory, bases[:1])
            segment = self._load(bases[0])
            segment.next_expiry_ms = next_expiry_ms
            segment.looked_to = 0 if next_expiry_ms == NEVER_LOOKED else segment.size
            self._small_files.note_sealed(segment, 0)
        except OSError as error:
            raise self._state.fail("putting a compacted segment in place", self.directory, error) from error
        self.all[index : index + len(bases)] = [segment]
        self.bases[index : index + len(bases)] = [bases[0]]
        self.size_bytes += segment.size
        return removed

    def _load(self, base_offset: int) -> Segment:
        aborted_path = segment_path(self.directory, base_offset, ABORTED_SUFFIX)
        return Segment(
            self.files,
            self.directory,
            base_offset,
            index_interval_bytes=self._state.config.index_interval_bytes,
            size=self.disk.size(segment_path(self.directory, base_offset, LOG_SUFFIX)),
            created_ms=self._clock.wall_ms(),
            aborted_bytes=self.disk.size(aborted_path) if self.disk.exists(aborted_path) else 0,
        )

    # -- what their indexes know

    def locate(self, segment: Segment, offset: int) -> int:
        """The position of the batch that holds an offset, or of the next one; the end when there is none."""
        known = len(segment.holes)
        try:
            return segment.locate(offset)
        except IndexMismatch as mismatch:
            self.rebuild(segment, mismatch)
            return segment.locate(offset)
        finally:
            self._state.corruption_count += len(segment.holes) - known

    def position_before(self, segment: Segment, timestamp: int) -> int:
        """A position in a segment before which no record is as late as a time."""
        try:
            return segment.position_before(timestamp)
        except IndexMismatch as mismatch:
            self.rebuild(segment, mismatch)
            return segment.position_before(timestamp)

    def largest_timestamp(self, segment: Segment) -> int:
        """A segment's greatest timestamp; -1 for none."""
        try:
            return segment.largest_timestamp()
        except IndexMismatch as mismatch:
            self.rebuild(segment, mismatch)
            return segment.largest_timestamp()

    def latest_before(self, segment: Segment, offset: int) -> TimeEntry:
        """The greatest timestamp of a segment's batches that end below an offset, and the offset that carries it."""
        try:
            return segment.latest_before(offset)
        except IndexMismatch as mismatch:
            self.rebuild(segment, mismatch)
            return segment.latest_before(offset)

    def rebuild(self, segment: Segment, mismatch: IndexMismatch) -> None:
        self._state.corruption_count += 1
        self._state.findings.append(f"{mismatch}; the indexes were made anew")
        segment.rebuild_indexes()

    def aborted_of(self, segment: Segment, start: int) -> list[AbortedEntry]:
        """The aborted transactions that ended in a segment, at or after an offset."""
        if segment.aborted.is_empty:
            return []
        try:
            return segment.aborted.reaching(start)
        except ValueError as error:
            self._state.corruption_count += 1
            self._state.findings.append(f"{segment.aborted.handle.path.name}: {error}; it was made anew")
            segment.aborted.replace(self._aborted_from_log(segment))
            self.sync_aborted_along(segment)
            return segment.aborted.reaching(start)

    def _aborted_from_log(self, segment: Segment) -> list[AbortedEntry]:
        upto = self.all[: self.bases.index(segment.base_offset) + 1]
        met = replay_producers(
            self.disk, self.directory, upto, ProducerStates(self._clock.monotonic), snapshot_up_to=segment.base_offset
        )
        return met.get(segment.base_offset, [])

    def sync_aborted_along(self, segment: Segment) -> None:
        """What was noted of aborted transactions is durable with the log."""
        if segment.aborted.is_unsynced:
            segment.aborted.is_unsynced = False
            self._durability.companion_written(segment.aborted.handle.path)

    # -- files

    def leave_the_pool(self) -> None:
        """From here on nobody else closes these files to open others; what is held for a sync is not closed anyway."""
        own_files = FilePool(self.disk)
        for segment in self.all:
            for handle in segment.handles():
                if not handle.held:
                    handle.move_to(own_files)

    def release(self) -> None:
        """Let the files go as they are."""
        for segment in self.all:
            segment.close()
