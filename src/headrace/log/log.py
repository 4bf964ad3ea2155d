"""The log of one partition on disk: what its parts do together.

It has segments, which `SegmentReader` reads, `SegmentFinder` looks into and `SegmentWriter` writes to; an `Appender`, which
lets batches in; `Durability` and `SmallFiles`, which know what is on the medium and what is not; a `Truncation`, which cuts it.

Always: `flushed <= end`; a sync that failed takes the log offline for good (`failure`), because nobody knows what the medium
holds; what a full disk refused may be tried again (`NoRoom`).  The loop's thread does everything except `sync`, `checkpoint` and
the preparation of cuts.
"""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from headrace.host.clock import Clock
from headrace.host.disk import Disk, is_full
from headrace.log.appending import Appender
from headrace.log.cleaning.retention import apply_retention, remove_below
from headrace.log.durability.durability import SyncFailed
from headrace.log.epochs import EpochStart
from headrace.log.parts import LogParts
from headrace.log.producers.producer_snapshot import SnapshotEntry
from headrace.log.producers.snapshots import write_snapshot
from headrace.log.recovery.opening import open_parts
from headrace.log.results import RemovedSegment
from headrace.log.segments.files import FilePool
from headrace.log.segments.finding import SegmentFinder
from headrace.log.segments.reading import SegmentReader
from headrace.model.errors import ErrorCode, NoRoom, RequestError, StorageError
from headrace.model.topic_settings import LogConfig


class Log:
    """A partition's log in a directory of its own."""

    def __init__(self, parts: LogParts) -> None:
        self.directory = parts.segments.directory
        self.disk = parts.segments.disk
        self.clock = parts.clock
        self.epochs = parts.epochs
        self.producers = parts.producers
        self.segments = parts.segments
        self.truncation = parts.truncation
        self.state = parts.state
        self._durability = parts.durability
        self._small_files = parts.small_files
        # One sync at a time, and one checkpoint, which a sync does not wait for.
        self._sync_lock = threading.Lock()
        self._checkpoint_lock = threading.Lock()
        # What a part does by itself is that part's: no call lies between.
        appender = Appender(parts.state, parts.clock, parts.epochs, parts.producers, parts.writer)
        reader = SegmentReader(parts.segments, parts.state, parts.epochs)
        finder = SegmentFinder(parts.segments, parts.state)
        self.append = appender.append
        self.append_as_follower = appender.append_as_follower
        self.read = reader.read
        self.ahead_of_read = reader.ahead_of_read
        self.time_search = reader.time_search
        self.offset_for_timestamp = finder.offset_for_timestamp
        self.offset_of_max_timestamp = finder.offset_of_max_timestamp
        self.aborted_transactions = finder.aborted_transactions
        self.roll = parts.writer.roll
        self.write_what_waits = parts.writer.write_what_waits
        self.write_partition_metadata = parts.small_files.write_partition_metadata
        self.truncate_to = parts.truncation.truncate_to
        self.truncate_fully_and_start_at = parts.truncation.start_over_at
        self.release = parts.segments.release

    def __repr__(self) -> str:
        return f"<{self.directory.name}: {self.state}>"

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
        files = files or FilePool(disk)
        parts = LogParts(directory, config, disk=disk, clock=clock, files=files, before_truncation=before_truncation)
        log = cls(parts)
        try:
            open_parts(parts, log.sync, clean=clean, recovery_point=recovery_point, start_offset=start_offset or 0)
        except OSError as error:
            raise (NoRoom if is_full(error) else StorageError)(directory, "opening the log", error) from error
        return log

    # -- what it is

    @property
    def config(self) -> LogConfig:
        return self.state.config

    def reconfigure(self, config: LogConfig) -> None:
        self.state.config = config
        for segment in self.segments:
            segment.index_interval_bytes = config.index_interval_bytes

    @property
    def start_offset(self) -> int:
        return self.state.start_offset

    @property
    def end_offset(self) -> int:
        return self.state.end_offset

    @property
    def flushed_offset(self) -> int:
        return self._durability.flushed_offset

    @property
    def settled_end(self) -> int:
        """Up to where the log is and stays, though it may be about to be cut: no more may be written down of it."""
        return min(self.state.end_offset, self._durability.limit)

    @property
    def unflushed_messages(self) -> int:
        return self.state.end_offset - self._durability.flushed_offset

    @property
    def is_new(self) -> bool:
        """Whether there was nothing in its directory when it was opened."""
        return self._durability.is_new

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def damaged_from(self) -> int | None:
        return self.segments.damaged_from

    @property
    def failure(self) -> StorageError | None:
        return self.state.failure

    @property
    def corruption_count(self) -> int:
        """Broken batches found in recovery and in reads since the log was opened."""
        return self.state.corruption_count

    @property
    def findings(self) -> list[str]:
        """What was found wrong in it, and mended, since it was opened."""
        return self.state.findings

    # -- flushing

    def sync(self) -> int:
        """In any thread.  One at a time; appends go on meanwhile and are covered by the next."""
        state, durability = self.state, self._durability
        with self._sync_lock:
            state.require_working()
            try:
                self._small_files.write_epochs()
                return durability.sync(lambda: state.end_offset)
            except SyncFailed as error:
                raise state.fail("flushing", durability.path, error) from error
            except OSError as error:
                raise state.refused("flushing", durability.path, error) from error

    def checkpoint(self) -> int:
        """In any thread: write down what spares the next start a scan; the offset it may then start from."""
        state, durability = self.state, self._durability
        with self._checkpoint_lock:
            state.require_working()
            recovery_point = min(durability.flushed_offset, durability.limit)
            try:
                durability.sync_indexes()
            except OSError as error:
                raise state.fail("writing a checkpoint", durability.path, error) from error
            try:
                self._small_files.write_all(self.segments.bases, durable=True)
            except OSError as error:
                raise state.refused("writing a checkpoint", durability.path, error) from error
            return recovery_point

    # -- less of it, from the start

    def begin_at(self, offset: int) -> None:
        """The log begins here from now on."""
        self.state.start_offset = offset
        self.state.local_start = max(offset, self.state.local_start)
        self.epochs.truncate_from_start(offset)

    def delete_before(self, offset: int) -> list[RemovedSegment]:
        self.state.require_working()
        if offset > self.state.end_offset or offset < 0:
            raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is beyond the end, {self.state.end_offset}")
        if offset <= self.state.start_offset:
            return []
        self.begin_at(offset)
        return remove_below(self, offset)

    def release_below(self, offset: int) -> list[RemovedSegment]:
        """What lies below an offset is in an object store: whole segments of it leave the disk, and stay part of the log."""
        self.state.require_working()
        bases = self.segments.bases
        count = sum(1 for following in bases[1:] if following <= offset)
        removed = self.segments.remove_oldest(count, "local retention")
        if removed:
            self.state.local_start = max(self.state.local_start, bases[0])
        return removed

    def continue_remote(self, epochs: Iterable[EpochStart], producers: list[SnapshotEntry]) -> None:
        """The log, which has just been begun anew behind what an object store has of it, goes on from there."""
        state = self.state
        assert state.local_start == state.end_offset, f"{self} has records of its own"
        for epoch in epochs:
            self.epochs.assign(*epoch)
        self.producers.load(producers)
        write_snapshot(self.disk, self.directory, state.end_offset, producers)

    def apply_retention(self, now_ms: int, high_watermark: int) -> list[RemovedSegment]:
        self.state.require_working()
        return apply_retention(self, now_ms, high_watermark)

    # -- the end

    def close(self) -> None:
        """Everything durable, producers and epochs written down, files let go.  A log that failed just lets go.

        Other logs may be closed at the same time in other threads."""
        state, durability = self.state, self._durability
        self.segments.leave_the_pool()
        refused: StorageError | None = None
        if state.failure is None:
            try:
                self._write_down()
            except NoRoom as error:
                refused = error
            except OSError as error:
                refused = state.refused("closing", self.directory, error)
                if state.failure is not None:
                    raise refused from error
            if durability.flushed_offset < state.end_offset or durability.has_companions:
                self.sync()
        self.release()
        if refused is not None:
            raise refused

    def _write_down(self) -> None:
        self.write_what_waits()
        active = self.segments[-1]
        if active.size:
            self.segments.largest_timestamp(active)
            active.seal()
            self._small_files.note_sealed(active, 0)
        write_snapshot(self.disk, self.directory, self.state.end_offset, self.producers.snapshot())
        # Only the log itself must be durable.  Whatever else a power failure takes now, the next start notices.
        self._small_files.write_all(self.segments.bases, durable=False)

    def delete(self) -> None:
        self.release()
        try:
            self.disk.remove_tree(self.directory)
            self.disk.sync_directory(self.directory.parent)
        except OSError as error:
            raise self.state.fail("deleting", self.directory, error) from error
