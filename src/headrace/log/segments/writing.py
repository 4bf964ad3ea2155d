"""Writing to the last segment of a log, and beginning the next one.

Always: a write that failed takes the log offline for good, because nobody knows what the medium holds.  Except one for which the
disk had no room: what there is of it is cut off again, the log is as it was, and the write may be tried again (`NoRoom`).
"""

from collections.abc import Sequence

from headrace.host.clock import Clock
from headrace.host.disk import Buffer, is_full
from headrace.log.durability.durability import Durability
from headrace.log.durability.small_files import SmallFiles
from headrace.log.indexes.aborted_index import AbortedEntry
from headrace.log.producers.producer_state import ProducerStates
from headrace.log.producers.snapshots import write_snapshot
from headrace.log.segments.segment import Segment, StoredBatch
from headrace.log.segments.segments import Segments
from headrace.log.state import LogState
from headrace.model.errors import ErrorCode, RequestError, StorageError


class SegmentWriter:
    """Keeps the batches of one log in its segments.  A `BatchStore`."""

    def __init__(
        self,
        segments: Segments,
        state: LogState,
        durability: Durability,
        small_files: SmallFiles,
        producers: ProducerStates,
        clock: Clock,
    ) -> None:
        self._segments = segments
        self._state = state
        self._durability = durability
        self._small_files = small_files
        self._producers = producers
        self._clock = clock
        # The offset of the first marker whose aborted transaction could not be written down yet, because the disk is full.
        self._unnoted_from: int | None = None

    def store(self, batches: Sequence[StoredBatch], parts: Sequence[Buffer], next_offset: int, now_ms: int) -> None:
        segments, config = self._segments, self._state.config
        segment = segments.all[-1]
        size = batches[0].size if len(batches) == 1 else sum(batch.size for batch in batches)
        if size > config.segment_bytes:
            raise RequestError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes do not fit a segment of {config.segment_bytes}")
        try:
            if segment.size and self._must_roll(segment, size, batches[-1].max_timestamp, next_offset - 1, now_ms):
                segment = self._roll(self._state.end_offset, now_ms)
            segment.append(batches, parts)
        except OSError as error:
            raise self._not_appended(segment, error) from error
        segments.size_bytes += size
        self._durability.log_file_written(segment.log)
        segment.log.held = config.flush != "os"

    def _not_appended(self, segment: Segment, cause: OSError) -> StorageError:
        if is_full(cause):
            try:
                segment.log.file().truncate(segment.size)
            except OSError as error:
                return self._state.fail("cutting off a torn write", segment.log.path, error)
        return self._state.refused("appending", segment.log.path, cause)

    def _must_roll(self, segment: Segment, size: int, timestamp: int, last_offset: int, now_ms: int) -> bool:
        config = self._state.config
        if segment.is_full(size, last_offset, config.segment_bytes, config.segment_index_bytes):
            return True
        began = segment.first_timestamp
        if began is None:
            began = segment.rolling_timestamp()
        age = timestamp - began if began is not None and began >= 0 else now_ms - segment.created_ms
        earlier = segment.jitter_seed % (config.roll_jitter_ms + 1) if config.roll_jitter_ms else 0
        return age > config.roll_after_ms - earlier

    def roll(self) -> None:
        """Begin a new segment, unless the active one is empty."""
        self._state.require_working()
        if self._segments.all[-1].size:
            try:
                self._roll(self._state.end_offset, self._clock.wall_ms())
            except OSError as error:
                raise self._state.refused("beginning a segment", self._segments.directory, error) from error

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        segments = self._segments
        old = segments.all[-1]
        segments.largest_timestamp(old)
        if old.aborted.is_unwritten:
            old.aborted.write()
        old.seal()
        taken = write_snapshot(segments.disk, segments.directory, base_offset, self._producers.snapshot())
        self._durability.small_file_written(taken)
        segment = segments.create(base_offset, now_ms)
        self._small_files.note_sealed(old, base_offset)
        old.aborted.forget()
        segments.add(segment)
        return segment

    # -- aborted transactions

    def note_aborted(self, entry: AbortedEntry) -> None:
        segment = self._segments.all[-1]
        try:
            segment.aborted.append(entry)
            self._segments.sync_aborted_along(segment)
        except OSError as error:
            # The marker is in the log: it stays a failure of the log, not of the append that is already counted.
            if not is_full(error):
                self._state.fail("noting an aborted transaction", segment.aborted.handle.path, error)
            elif self._unnoted_from is None:
                self._unnoted_from = entry.last_offset
                self._durability.limit_to(self, entry.last_offset)

    def write_what_waits(self) -> None:
        """The disk may have room again: write what it had none for.  Raises NoRoom when it has not."""
        if self._state.failure is not None or self._unnoted_from is None:
            return
        segment = self._segments.all[-1]
        try:
            segment.aborted.write()
            self._segments.sync_aborted_along(segment)
        except OSError as error:
            raise self._state.refused("noting an aborted transaction", segment.aborted.handle.path, error) from error
        self.nothing_waits()

    def on_cut(self) -> None:
        """The log was cut at what is its end now: what is gone need not be written any more."""
        if self._unnoted_from is not None and self._unnoted_from >= self._state.end_offset:
            self.nothing_waits()

    def nothing_waits(self) -> None:
        """What waited is written, or gone from the log."""
        self._unnoted_from = None
        self._durability.lift_limit(self)
