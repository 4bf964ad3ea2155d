"""The log of one partition on disk, as far as appending, flushing and reading go: segments in a directory, the last one appended
to.

Always: offsets increase from segment to segment, and each segment begins where the one before ends; `flushed <= end`; a write
or sync that failed takes the log offline for good (`failure`), because nobody knows what the medium holds.  Except a write for
which the disk had no room: what there is of it is cut off again, the log is as it was, and the write may be tried again
(`NoRoom`).  The loop's thread does everything except `sync` and `checkpoint`.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from headrace.host.clock import Clock
from headrace.host.disk import Buffer, Disk, is_full
from headrace.log.core import LogCore
from headrace.log.durability.checksums import FILE_NAME as CHECKSUMS_FILE_NAME
from headrace.log.durability.checksums import Checksums
from headrace.log.durability.durability import NO_LIMIT, Durability, SyncFailed
from headrace.log.epochs import FILE_NAME as EPOCHS_FILE_NAME
from headrace.log.indexes.aborted_index import AbortedEntry
from headrace.log.indexes.time_search import first_at_or_after, latest
from headrace.log.producers.producer_state import CompletedTransaction, ProducerStates
from headrace.log.producers.snapshots import write_snapshot
from headrace.log.recovery.replay import replay_producers
from headrace.log.segments.batch_reading import read_segment
from headrace.log.segments.files import FilePool
from headrace.log.segments.scanning import Hole
from headrace.log.segments.segment import (
    ABORTED_SUFFIX,
    TIME_INDEX_SUFFIX,
    IndexMismatch,
    Segment,
    StoredBatch,
)
from headrace.log.values import AbortedTransaction, CorruptBatch, FoundOffset, Read
from headrace.model.errors import ErrorCode, NoRoom, RequestError, StorageError
from headrace.model.topic_settings import LogConfig
from headrace.records.control import STEP_OFFSETS_MAX, build_step_over

# Positions where readers stopped, so that the next read needs no search.
VISITED_MAX = 32
NOTED_SUFFIXES = (ABORTED_SUFFIX, TIME_INDEX_SUFFIX)


@dataclass(slots=True, eq=False)
class Cut:
    """A cut that is being prepared: where the log will end."""

    end: int
    is_prepared: bool = False


class SegmentedLog(LogCore):
    """Segments, and what is read from and written to them."""

    def __init__(self, directory: Path, config: LogConfig, *, disk: Disk, clock: Clock, files: FilePool) -> None:
        super().__init__(config, clock)
        self.directory = directory
        self.disk = disk
        self.files = files
        self.findings: list[str] = []
        # Where compaction has got to: everything below is clean.
        self.clean_offset = 0
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._size = 0
        self._visited: dict[int, tuple[Segment, int]] = {}
        self._durability = Durability(directory, disk)
        # Read when the log is opened.
        self._checksums: Checksums
        # One sync at a time, and one checkpoint, which a sync does not wait for; small files belong to one of them at a time.
        self._sync_lock = threading.Lock()
        self._checkpoint_lock = threading.Lock()
        self._small_files_lock = threading.Lock()
        self._sealed: dict[str, int] = {}
        self._sealed_lock = threading.Lock()
        self._epochs_written = -1
        self._cuts: list[Cut] = []
        # The offset of the first marker whose aborted transaction could not be written down yet, because the disk is full.
        self._unnoted_from: int | None = None
        self._before_truncation: Callable[[int], None] | None = None

    # -- what it is

    @property
    def flushed_offset(self) -> int:
        return self._durability.flushed_offset

    @property
    def settled_end(self) -> int:
        """Up to where the log is and stays, though it may be about to be cut: no more may be written down of it."""
        return min(self._end_offset, self._durability.cut_limit)

    @property
    def damaged_from(self) -> int | None:
        for segment in self._segments:
            if any(hole.next_offset > self._start_offset for hole in segment.holes):
                return max(segment.base_offset, self._start_offset)
        return None

    @property
    def size_bytes(self) -> int:
        return self._size

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def segments(self) -> Sequence[Segment]:
        return self._segments

    @property
    def unflushed_messages(self) -> int:
        return self._end_offset - self._durability.flushed_offset

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config
        for segment in self._segments:
            segment.index_interval_bytes = config.index_interval_bytes

    def describe(self) -> dict[str, Any]:
        return {
            "directory": str(self.directory),
            "start_offset": self._start_offset,
            "end_offset": self._end_offset,
            "flushed_offset": self.flushed_offset,
            "size_bytes": self._size,
            "segments": len(self._segments),
            "producers": len(self.producers),
            "corruption_count": self.corruption_count,
            "failure": str(self._failure) if self._failure else None,
        }

    def _fail(self, action: str, path: Path, cause: OSError) -> StorageError:
        """Take the log offline for good."""
        if self._failure is None:
            self._failure = StorageError(path, action, cause)
        return self._failure

    def _refused(self, action: str, path: Path, cause: OSError) -> StorageError:
        """What to raise where a write failed that left nothing behind: a full disk costs that write, anything else the log."""
        return NoRoom(path, action, cause) if is_full(cause) else self._fail(action, path, cause)

    def _require_working(self) -> None:
        if self._failure is not None:
            raise self._failure

    # -- writing

    def _store(self, batches: Sequence[StoredBatch], parts: Sequence[Buffer], next_offset: int, now_ms: int) -> None:
        segment = self._segments[-1]
        size = batches[0].size if len(batches) == 1 else sum(batch.size for batch in batches)
        if size > self.config.segment_bytes:
            raise RequestError(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes do not fit a segment of {self.config.segment_bytes}"
            )
        try:
            if segment.size and self._must_roll(segment, size, batches[-1].max_timestamp, next_offset - 1, now_ms):
                segment = self._roll(self._end_offset, now_ms)
            segment.append(batches, parts)
        except OSError as error:
            raise self._not_appended(segment, error) from error
        self._size += size
        self._durability.written(segment.log)
        segment.log.held = self.config.flush != "os"

    def _not_appended(self, segment: Segment, cause: OSError) -> StorageError:
        if is_full(cause):
            try:
                segment.log.file().truncate(segment.size)
            except OSError as error:
                return self._fail("cutting off a torn write", segment.log.path, error)
        return self._refused("appending", segment.log.path, cause)

    def _must_roll(self, segment: Segment, size: int, timestamp: int, last_offset: int, now_ms: int) -> bool:
        config = self.config
        if segment.is_full(size, config.segment_bytes, config.segment_index_bytes) or not segment.can_hold(last_offset):
            return True
        began = segment.first_timestamp
        if began is None:
            began = segment.rolling_timestamp()
        age = timestamp - began if began is not None and began >= 0 else now_ms - segment.created_ms
        earlier = segment.lot % (config.roll_jitter_ms + 1) if config.roll_jitter_ms else 0
        return age > config.roll_after_ms - earlier

    def roll(self) -> None:
        self._require_working()
        if self._segments[-1].size:
            try:
                self._roll(self._end_offset, self.clock.wall_ms())
            except OSError as error:
                raise self._refused("beginning a segment", self.directory, error) from error

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        self.largest_timestamp(self._segments[-1])
        old = self._segments[-1]
        if old.aborted.is_unwritten:
            old.aborted.write()
        old.seal()
        taken = write_snapshot(self.disk, self.directory, base_offset, self.producers.snapshot())
        self._durability.small_file_written(taken)
        segment = self._new_segment(base_offset, now_ms)
        self._note_sealed(old, base_offset)
        old.aborted.forget()
        self._segments.append(segment)
        self._bases.append(base_offset)
        return segment

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        segment = Segment(
            self.files,
            self.directory,
            base_offset,
            index_interval_bytes=self.config.index_interval_bytes,
            created_ms=now_ms,
            is_new=True,
        )
        # Files of that name can only be debris of a truncation or of a roll that failed.
        segment.log.file().truncate(0)
        for handle in segment.handles()[1:]:
            self.disk.remove(handle.path)
        self._durability.written(segment.log)
        self._durability.names_changed()
        return segment

    def _note_aborted(self, completed: CompletedTransaction) -> None:
        stable = self.producers.stable_offset_after(completed)
        entry = AbortedEntry(completed.producer_id, completed.first_offset, completed.last_offset, stable)
        segment = self._segments[-1]
        try:
            segment.add_aborted(entry)
            self._sync_along(segment)
        except OSError as error:
            # The marker is in the log: it stays a failure of the log, not of the append that is already counted.
            if not is_full(error):
                self._fail("noting an aborted transaction", segment.aborted.handle.path, error)
            elif self._unnoted_from is None:
                self._unnoted_from = completed.last_offset
                self._limit_promises()

    def write_what_waits(self) -> None:
        """The disk may have room again: write what it had none for.  Raises NoRoom when it has not."""
        if self._failure is not None or self._unnoted_from is None:
            return
        segment = self._segments[-1]
        try:
            segment.aborted.write()
            self._sync_along(segment)
        except OSError as error:
            raise self._refused("noting an aborted transaction", segment.aborted.handle.path, error) from error
        self._unnoted_from = None
        self._limit_promises()

    def _limit_promises(self) -> None:
        """Nothing is promised of what is about to be cut, nor from a marker on whose transaction is not noted."""
        limits = [cut.end for cut in self._cuts]
        if self._unnoted_from is not None:
            limits.append(self._unnoted_from)
        self._durability.cut_limit = min(limits, default=NO_LIMIT)

    def _sync_along(self, segment: Segment) -> None:
        """What was noted of aborted transactions is durable with the log."""
        if segment.aborted.is_unsynced:
            segment.aborted.is_unsynced = False
            self._durability.companion_written(segment.aborted.handle.path)

    # -- flushing

    def sync(self) -> int:
        """In any thread.  One at a time; appends go on meanwhile and are covered by the next."""
        with self._sync_lock:
            self._require_working()
            try:
                self._write_epochs()
                return self._durability.sync(self._end_offset)
            except SyncFailed as error:
                raise self._fail("flushing", self._durability.path, error) from error
            except OSError as error:
                raise self._refused("flushing", self._durability.path, error) from error

    def checkpoint(self) -> int:
        """In any thread: write down what spares the next start a scan; the offset it may then start from."""
        with self._checkpoint_lock:
            self._require_working()
            recovery_point = min(self._durability.flushed_offset, self._durability.cut_limit)
            try:
                self._durability.sync_indexes()
            except OSError as error:
                raise self._fail("writing a checkpoint", self._durability.path, error) from error
            try:
                with self._small_files_lock:
                    self._write_small_files(durable=True)
            except OSError as error:
                raise self._refused("writing a checkpoint", self._durability.path, error) from error
            return recovery_point

    def _write_epochs(self) -> None:
        """An epoch is durable with its first record: once that is compacted away, nothing else tells where the epoch began."""
        if self.epochs.version == self._epochs_written:
            return
        with self._small_files_lock:
            version = self.epochs.version
            if version != self._epochs_written:
                self._checksums.write({EPOCHS_FILE_NAME: self.epochs.encode()}, durable=False)
                self._durability.companion_written(self.directory / EPOCHS_FILE_NAME)
                self._durability.small_file_written(self.directory / CHECKSUMS_FILE_NAME)
                self._epochs_written = version

    def _write_small_files(self, *, durable: bool) -> None:
        version = self.epochs.version
        files = {EPOCHS_FILE_NAME: self.epochs.encode()} if version != self._epochs_written else {}
        with self._sealed_lock:
            sums, self._sealed = self._sealed, {}
        stems = {f"{base:020d}" for base in list(self._bases)}
        gone = frozenset(
            name for name in self._checksums.names() if name.endswith(NOTED_SUFFIXES) and name.partition(".")[0] not in stems
        )
        if files or sums or gone:
            try:
                self._checksums.write(files, noted=sums, forget=gone, durable=durable)
            except OSError:
                with self._sealed_lock:
                    self._sealed = sums | self._sealed
                raise
        self._epochs_written = version

    def _note_sealed(self, segment: Segment, end_offset: int) -> None:
        """A segment is complete: the next checkpoint syncs its indexes and notes what its time index ends with."""
        segment.sealed_checksum = segment.times.seal_checksum()
        sums = {segment.times.handle.path.name: segment.sealed_checksum}
        if not segment.aborted.is_empty:
            segment.aborted.crc = sums[segment.aborted.handle.path.name] = segment.aborted.checksum()
        with self._sealed_lock:
            self._sealed |= sums
        self._durability.sealed(segment.handles()[1:3], end_offset)

    def write_partition_metadata(self, name: str, data: bytes) -> None:
        """Write a small file of the directory's, with its checksum; durable with the first record that is."""
        with self._small_files_lock:
            self._checksums.write({name: data}, durable=False)
        self._durability.companion_written(self.directory / name)
        self._durability.small_file_written(self.directory / CHECKSUMS_FILE_NAME)

    # -- reading

    def read(self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool, as_stored: bool = False) -> Read:
        self._require_working()
        end = self._end_offset
        if offset < self._start_offset or offset > end:
            raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not between {self._start_offset} and {end}")
        if offset >= up_to or offset == end:
            if offset == end:
                self._visit(end, self._segments[-1], self._segments[-1].size)
            return Read(b"", -1, offset)
        try:
            read = self._read(offset, max_bytes, min(up_to, end), at_least_one, as_stored)
            if read.data or read.next_offset == offset:
                return read
            return self._read_beyond_gap(offset, read.next_offset, max_bytes, min(up_to, end), at_least_one)
        except OSError as error:
            raise StorageError(self.directory, f"reading at offset {offset}", error) from error

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
        return Read(build_step_over(offset, following, self.epochs.epoch_at(offset)), offset, following)

    def _read(self, offset: int, max_bytes: int, up_to: int, at_least_one: bool, as_stored: bool) -> Read:
        visited = self._visited.get(offset)
        if visited is not None:
            segment, position = visited
            index = (
                len(self._segments) - 1 if segment is self._segments[-1] else bisect_right(self._bases, segment.base_offset) - 1
            )
        else:
            index = bisect_right(self._bases, offset) - 1
            segment = self._segments[index]
            position = self.locate(segment, offset)
        while position >= segment.size:
            index += 1
            if index == len(self._segments):
                return Read(b"", -1, offset)
            if offset < self._bases[index]:
                self._lost_end(segment, offset, self._bases[index])
            # The segment was rolled since this reader was at its end.
            segment, position = self._segments[index], 0
        is_last = index == len(self._segments) - 1
        bound = self._end_offset if is_last else self._bases[index + 1]
        known = len(segment.holes)
        try:
            read, position = read_segment(
                segment, position, offset, max_bytes, up_to, bound, self.epochs, at_least_one=at_least_one, as_stored=as_stored
            )
        finally:
            self.corruption_count += len(segment.holes) - known
        if read.data:
            self._visit(read.next_offset, segment, position)
        return read

    def place_of(self, offset: int) -> tuple[Path, int] | None:
        self._require_working()
        if not self._start_offset <= offset < self._end_offset:
            return None
        visited = self._visited.get(offset)
        if visited is not None:
            return visited[0].log.path, visited[1]
        segment = self._segments[bisect_right(self._bases, offset) - 1]
        return segment.log.path, self.locate(segment, offset)

    def _lost_end(self, segment: Segment, offset: int, next_base: int) -> NoReturn:
        """A segment's last batch ends where the next segment begins, always: when it does not, the end of the file is gone."""
        reason = f"the segment ends before offset {next_base}"
        if not any(hole.start == segment.size for hole in segment.holes):
            segment.holes.append(Hole(segment.size, segment.size, offset, next_base, reason))
            self.corruption_count += 1
        raise CorruptBatch(segment.log.path, segment.size, offset, reason)

    def _visit(self, offset: int, segment: Segment, position: int) -> None:
        visited = self._visited
        visited[offset] = segment, position
        if len(visited) > VISITED_MAX:
            del visited[next(iter(visited))]

    def locate(self, segment: Segment, offset: int) -> int:
        known = len(segment.holes)
        try:
            return segment.locate(offset)
        except IndexMismatch as mismatch:
            self._rebuild(segment, mismatch)
            return segment.locate(offset)
        finally:
            self.corruption_count += len(segment.holes) - known

    def position_before(self, segment: Segment, timestamp: int) -> int:
        """A position in a segment before which no record is as late as a time."""
        try:
            return segment.position_before(timestamp)
        except IndexMismatch as mismatch:
            self._rebuild(segment, mismatch)
            return segment.position_before(timestamp)

    def _rebuild(self, segment: Segment, mismatch: IndexMismatch) -> None:
        self.corruption_count += 1
        self.findings.append(f"{mismatch}; the indexes were made anew")
        segment.rebuild_indexes()

    def largest_timestamp(self, segment: Segment) -> int:
        """A segment's greatest timestamp, its time index repaired if that is what it takes."""
        try:
            return segment.largest_timestamp()
        except IndexMismatch as mismatch:
            self._rebuild(segment, mismatch)
            return segment.largest_timestamp()

    # -- by time

    def offset_for_timestamp(self, timestamp: int, up_to: int) -> FoundOffset | None:
        self._require_working()
        return first_at_or_after(self, timestamp, up_to)

    def offset_of_max_timestamp(self, up_to: int) -> FoundOffset | None:
        self._require_working()
        return latest(self, up_to)

    # -- transactions

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        self._require_working()
        found: dict[int, AbortedTransaction] = {}
        index = max(0, bisect_right(self._bases, start) - 1)
        for segment in self._segments[index:]:
            for entry in self.aborted_of(segment, start):
                if entry.first_offset < end:
                    found[entry.last_offset] = AbortedTransaction(entry.producer_id, entry.first_offset)
                if entry.last_stable_offset >= end:
                    return list(found.values())
        return list(found.values())

    def aborted_of(self, segment: Segment, start: int) -> list[AbortedEntry]:
        if segment.aborted.is_empty:
            return []
        try:
            return segment.aborted.reaching(start)
        except ValueError as error:
            self.corruption_count += 1
            self.findings.append(f"{segment.aborted.handle.path.name}: {error}; it was made anew")
            segment.aborted.replace(self._aborted_from_log(segment))
            self._sync_along(segment)
            return segment.aborted.reaching(start)

    def _aborted_from_log(self, segment: Segment) -> list[AbortedEntry]:
        upto = self._segments[: self._bases.index(segment.base_offset) + 1]
        met = replay_producers(
            self.disk, self.directory, upto, ProducerStates(self.clock.monotonic), snapshot_up_to=segment.base_offset
        )
        return met.get(segment.base_offset, [])
