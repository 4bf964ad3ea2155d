"""The log of one partition on disk: how it is opened, shortened and closed.  Appending and reading are in `segmented.py`.

Always: what leaves the log is renamed first and unlinked by the caller where that may take its time; whoever keeps a recovery
point for this log hears of a cut before it happens.

A cut has two steps, because what was written down of the log must be lowered on the medium first: `begin_cut` on the loop's
thread, `prepare_cut` in any other, then `truncate_to` on the loop's; the same with `begin_starting_over` and
`truncate_fully_and_start_at`.  Called by themselves those two prepare the cut in place.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from headrace.host.clock import Clock
from headrace.host.disk import Disk, is_full
from headrace.log.cleaning.retention import apply_retention
from headrace.log.memory import MemoryLog
from headrace.log.producers.snapshots import snapshot_offsets, write_snapshot
from headrace.log.recovery.recovery import Recovery
from headrace.log.recovery.replay import replay_producers
from headrace.log.segmented import Cut, SegmentedLog
from headrace.log.segments.files import FilePool
from headrace.log.segments.segment import (
    ABORTED_SUFFIX,
    LOG_SUFFIX,
    NEVER_LOOKED,
    SNAPSHOT_SUFFIX,
    IndexMismatch,
    Segment,
    segment_path,
)
from headrace.log.segments.swapping import mark_deleted, prepare_beginning, put_beginning_in_place, unlink
from headrace.log.values import RemovedSegment
from headrace.model.errors import ErrorCode, NoRoom, RequestError, StorageError
from headrace.model.topic_settings import LogConfig


class Log(SegmentedLog):
    """A partition's log in a directory of its own."""

    @classmethod
    def open(
        cls,
        directory: Path,
        config: LogConfig,
        *,
        disk: Disk,
        clock: Clock,
        clean: bool,
        recovery_point: int = 0,
        start_offset: int | None = None,
        files: FilePool | None = None,
        before_truncation: Callable[[int], None] | None = None,
    ) -> "Log":
        """Open the log in a directory, or begin one.

        `clean`: the last owner closed it.  Otherwise everything at and above `recovery_point` is read and the torn tail cut.
        `start_offset`: where the log was told to begin (delete-records).  `before_truncation` is called with the new end before
        anything is cut, so that the caller's recovery point never lies beyond it.
        """
        log = cls(directory, config, disk=disk, clock=clock, files=files or FilePool(disk))
        log._before_truncation = before_truncation
        try:
            log._recover(clean=clean, recovery_point=recovery_point, start_offset=start_offset)
        except OSError as error:
            raise (NoRoom if is_full(error) else StorageError)(directory, "opening the log", error) from error
        return log

    @staticmethod
    def in_memory(config: LogConfig, *, clock: Clock) -> MemoryLog:
        """The same interface without files."""
        return MemoryLog(config, clock)

    def _recover(self, *, clean: bool, recovery_point: int, start_offset: int | None) -> None:
        is_new = not self.disk.exists(self.directory)
        self.disk.make_directory(self.directory)
        # Several logs may be opened at once in threads of their own: each with files of its own until it is handed over.
        own_files = FilePool(self.disk, giving_up=self.files.giving_up)
        recovery = Recovery(self.directory, self.config, self.disk, self.clock, own_files, self.epochs, self.producers)
        found = recovery.run(clean=clean and not is_new, recovery_point=recovery_point, first_offset=start_offset or 0)
        self._segments = found.segments
        for segment in self._segments:
            for handle in segment.handles():
                handle.move_to(self.files)
        self._bases = [segment.base_offset for segment in self._segments]
        self._size = sum(segment.size for segment in self._segments)
        self._end_offset = found.end_offset
        self._start_offset = max(self._segments[0].base_offset, min(start_offset or 0, found.end_offset))
        self._checksums = found.checksums
        self.corruption_count = found.corruption_count
        self.findings = found.findings
        self.epochs.truncate_from_start(self._start_offset)
        self.producers.on_high_watermark(self._end_offset)
        self.clean_offset = self._start_offset
        self._durability.is_new = is_new
        is_durable = clean or is_new or self._end_offset <= recovery_point
        self._durability.found(min(found.noted_offset, self._end_offset), self._end_offset if is_durable else self._start_offset)
        if not is_new and (not clean or found.unsure_from < self._end_offset):
            self._settle_found(found.unsure_from, is_durable)
        if (start_offset or 0) > self._end_offset:
            self._go_on_behind_deleted(start_offset or 0)

    def _settle_found(self, unsure_from: int, is_durable: bool) -> None:
        """What a start finds in the page cache may never have reached the medium: it counts as flushed only after a sync."""
        for segment in self._segments:
            if segment.base_offset >= unsure_from:
                self._note_sealed(segment, segment.base_offset)
                self._sync_along(segment)
                if not is_durable:
                    self._durability.written(segment.log)
        if not is_durable or self._durability.has_companions:
            self.sync()

    def _go_on_behind_deleted(self, start_offset: int) -> None:
        """Records that were never flushed, and then deleted, went in a power failure: no other may get their offsets."""
        self.findings.append(f"the log ends at {self._end_offset}, before its start; it goes on at {start_offset}")
        for removed in self._begin_anew_at(start_offset):
            removed.unlink()
        self.sync()

    # -- less of it

    def delete_before(self, offset: int) -> list[RemovedSegment]:
        self._require_working()
        if offset > self._end_offset or offset < 0:
            raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is beyond the end, {self._end_offset}")
        if offset <= self._start_offset:
            return []
        self._start_offset = offset
        self.epochs.truncate_from_start(offset)
        return self.remove_segments_below(offset, "log start")

    def remove_segments_below(self, offset: int, reason: str) -> list[RemovedSegment]:
        """Let go of segments that lie wholly below an offset; the active one stays."""
        count = 0
        while count + 1 < len(self._segments) and self._bases[count + 1] <= offset:
            count += 1
        return self.remove_oldest(count, reason)

    def remove_oldest(self, count: int, reason: str) -> list[RemovedSegment]:
        removed = [self._remove(segment, reason) for segment in self._segments[:count]]
        del self._segments[:count], self._bases[:count]
        if removed:
            self._start_offset = max(self._start_offset, self._segments[0].base_offset)
            self.epochs.truncate_from_start(self._start_offset)
        return removed

    def _remove(self, segment: Segment, reason: str, *, with_snapshot: bool = True) -> RemovedSegment:
        """Rename a segment's files and forget it; the caller takes it off the list."""
        self._visited.clear()
        self._durability.forget(segment.handles())
        for handle in segment.handles():
            handle.discard()
        try:
            paths = mark_deleted(self.disk, self.directory, segment.base_offset, with_snapshot=with_snapshot)
        except OSError as error:
            raise self._fail("removing a segment", segment.log.path, error) from error
        self._size -= segment.size
        return RemovedSegment(
            segment.base_offset, segment.size, reason, lambda: unlink(self.disk, paths), self.config.file_delete_delay_ms
        )

    def replace_segments(
        self, bases: Sequence[int], finish: Callable[[Disk, Path, Sequence[int]], None], next_expiry_ms: int | None
    ) -> list[RemovedSegment]:
        """Put a compacted segment, ready under `.swap`, in the place of neighbours."""
        self._require_working()
        index = self._bases.index(bases[0])
        old = self._segments[index : index + len(bases)]
        removed = [self._remove(segment, "compaction", with_snapshot=segment is not old[0]) for segment in old]
        try:
            finish(self.disk, self.directory, bases[:1])
            segment = self._load_segment(bases[0])
            segment.next_expiry_ms = next_expiry_ms
            segment.looked_to = 0 if next_expiry_ms == NEVER_LOOKED else segment.size
            self._note_sealed(segment, 0)
        except OSError as error:
            raise self._fail("putting a compacted segment in place", self.directory, error) from error
        self._segments[index : index + len(bases)] = [segment]
        self._bases[index : index + len(bases)] = [bases[0]]
        self._size += segment.size
        return removed

    def _load_segment(self, base_offset: int) -> Segment:
        aborted_path = segment_path(self.directory, base_offset, ABORTED_SUFFIX)
        return Segment(
            self.files,
            self.directory,
            base_offset,
            index_interval_bytes=self.config.index_interval_bytes,
            size=self.disk.size(segment_path(self.directory, base_offset, LOG_SUFFIX)),
            created_ms=self.clock.wall_ms(),
            aborted_bytes=self.disk.size(aborted_path) if self.disk.exists(aborted_path) else 0,
        )

    def apply_retention(self, now_ms: int, high_watermark: int) -> list[RemovedSegment]:
        self._require_working()
        return apply_retention(self, now_ms, high_watermark)

    def begin_cut(self, offset: int) -> Cut:
        """The log is about to be cut at an offset: until `end_cut`, nothing is promised of what will be gone."""
        self._require_working()
        if self._segments[0].base_offset <= offset < self._end_offset:
            try:
                end = self._place_of_cut(offset)[1]
            except OSError as error:
                raise StorageError(self.directory, f"looking for offset {offset}", error) from error
        else:
            end = min(offset, self._end_offset)
        return self._begin(Cut(end))

    def begin_starting_over(self, offset: int) -> Cut:
        """All of the log is about to go: nothing is promised of any of it, for a power failure may leave any beginning."""
        self._require_working()
        return self._begin(Cut(min(offset, self._start_offset)))

    def _begin(self, cut: Cut) -> Cut:
        self._cuts.append(cut)
        self._limit_promises()
        return cut

    def prepare_cut(self, cut: Cut) -> None:
        """In any thread: what is written down of the log is lowered to where it will end, and durable.  StorageError when not."""
        try:
            if self._before_truncation is not None:
                self._before_truncation(cut.end)
            self._durability.lower_note(cut.end)
        except OSError as error:
            raise self._refused("preparing to truncate", self.directory, error) from error
        cut.is_prepared = True

    def end_cut(self, cut: Cut) -> None:
        """It is done, or not wanted any more."""
        self._cuts.remove(cut)
        self._limit_promises()

    def _prepare_in_place(self, end: int) -> None:
        if not any(cut.is_prepared and cut.end <= end for cut in self._cuts):
            self.prepare_cut(Cut(end))

    def truncate_to(self, offset: int) -> list[RemovedSegment]:
        self._require_working()
        if offset >= self._end_offset:
            return []
        if offset < self._segments[0].base_offset:
            return self.truncate_fully_and_start_at(offset)
        try:
            return self._truncate_to(offset)
        except OSError as error:
            raise self._fail("truncating", self.directory, error) from error

    def _place_of_cut(self, offset: int) -> tuple[int, int]:
        """Where in its segment a cut at an offset lies, and where the log then ends."""
        active = self._segments[bisect_right(self._bases, offset) - 1]
        if offset == active.base_offset:
            # Nothing of this segment stays, so nothing in it need be sound.
            return 0, offset
        position = self.locate(active, offset)
        # The batch that holds the offset goes whole: half a batch cannot be kept.
        return position, min([offset, *(header.base_offset for _, header in islice(active.headers(position), 1))])

    def _truncate_to(self, offset: int) -> list[RemovedSegment]:
        keep = bisect_right(self._bases, offset)
        active = self._segments[keep - 1]
        position, end = self._place_of_cut(offset)
        self._prepare_in_place(end)
        self._durability.lower(end)
        self._visited.clear()
        self._end_offset = end
        # From the end: a power failure half way leaves a shorter log, and no gap.
        removed = [self._remove(segment, "truncation") for segment in reversed(self._segments[keep:])]
        del self._segments[keep:], self._bases[keep:]
        if position < active.size:
            self._size -= active.size - position
            self._cut(active, position, end)
        self._after_truncation(active)
        return removed

    def _cut(self, segment: Segment, position: int, offset: int) -> None:
        # Reading them repairs them, if they need it, while the whole segment is still there.
        self.aborted_of(segment, segment.base_offset)
        try:
            segment.cut(position, offset)
        except IndexMismatch as mismatch:
            self._rebuild(segment, mismatch)
        self._sync_along(segment)

    def _after_truncation(self, active: Segment) -> None:
        if self._unnoted_from is not None and self._unnoted_from >= self._end_offset:
            self._unnoted_from = None
            self._limit_promises()
        self.epochs.truncate_from_end(self._end_offset)
        self._start_offset = min(self._start_offset, self._end_offset)
        self.clean_offset = min(self.clean_offset, self._end_offset)
        for offset in snapshot_offsets(self.disk.list_names(self.directory)):
            if offset > self._end_offset:
                self.disk.remove(segment_path(self.directory, offset, SNAPSHOT_SUFFIX))
        replay_producers(self.disk, self.directory, self._segments, self.producers, snapshot_up_to=self._end_offset)
        self._durability.written(active.log)
        self._durability.names_changed()

    def truncate_fully_and_start_at(self, offset: int) -> list[RemovedSegment]:
        self._require_working()
        self._prepare_in_place(min(offset, self._start_offset))
        return self._begin_anew_at(offset)

    def _begin_anew_at(self, offset: int) -> list[RemovedSegment]:
        """Throw everything away.  NoRoom when the disk is too full for that: then all is as it was."""
        try:
            prepare_beginning(self.disk, self.directory, offset)
        except OSError as error:
            raise self._refused("starting over", self.directory, error) from error
        try:
            self._durability.lower(offset)
            removed = [self._remove(segment, "truncation") for segment in reversed(self._segments)]
            for stray in snapshot_offsets(self.disk.list_names(self.directory)):
                self.disk.remove(segment_path(self.directory, stray, SNAPSHOT_SUFFIX))
            put_beginning_in_place(self.disk, self.directory, offset)
            segment = self._new_segment(offset, self.clock.wall_ms())
        except OSError as error:
            raise self._fail("starting over", self.directory, error) from error
        self._unnoted_from = None
        self._limit_promises()
        self._segments, self._bases = [segment], [offset]
        self._start_offset = self._end_offset = self.clean_offset = offset
        self._size = 0
        self.epochs.clear()
        self.producers.clear()
        return removed

    # -- the end

    def close(self) -> None:
        """Everything durable, producers and epochs written down, files let go.  A log that failed just lets go.

        Other logs may be closed at the same time in other threads."""
        self._leave_the_pool()
        refused: StorageError | None = None
        if self._failure is None:
            try:
                self.write_what_waits()
                active = self._segments[-1]
                if active.size:
                    self.largest_timestamp(active)
                    active.seal()
                    self._note_sealed(active, 0)
                write_snapshot(self.disk, self.directory, self._end_offset, self.producers.snapshot())
                # Only the log itself must be durable.  Whatever else a power failure takes now, the next start notices.
                self._write_small_files(durable=False)
            except NoRoom as error:
                refused = error
            except OSError as error:
                refused = self._refused("closing", self.directory, error)
                if self._failure is not None:
                    raise refused from error
            if self._durability.flushed_offset < self._end_offset or self._durability.has_companions:
                self.sync()
        self.release()
        if refused is not None:
            raise refused

    def _leave_the_pool(self) -> None:
        """From here on nobody else closes these files to open others; what is held for a sync is not closed anyway."""
        own_files = FilePool(self.disk)
        for segment in self._segments:
            for handle in segment.handles():
                if not handle.held:
                    handle.move_to(own_files)

    def release(self) -> None:
        """Let the files go as they are."""
        for segment in self._segments:
            segment.close()

    def delete(self) -> None:
        self.release()
        try:
            self.disk.remove_tree(self.directory)
            self.disk.sync_directory(self.directory.parent)
        except OSError as error:
            raise self._fail("deleting", self.directory, error) from error
