"""Opening a log's directory: what is believed as it lies there, what is scanned, what is cut, what is made anew.

After a clean shutdown only the end of the last segment is looked at.  After a crash every segment at or above the recovery
point (below which everything was durable, indexes included) is read batch by batch:
- a bad tail that nobody can have been promised is cut;
- a bad tail below the recovery point was promised: it stays as a hole, and the log goes on in a new segment behind it;
- broken bytes with sound batches after them are a hole: counted, reported, never served, and nothing after them is lost.  Only
  a page of zeros that nobody was promised counts as torn: a power failure leaves it of pages that were written out of order.
Producers come from the newest sound snapshot and the batches after it, epochs from their checkpoint and the scanned batches.
"""

import logging
from dataclasses import field
from pathlib import Path

from headrace.declaring import dataclass
from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.log.durability.checksums import Checksums
from headrace.log.durability.durable_offset import read_durable_offset
from headrace.log.epochs import FILE_NAME as EPOCHS_FILE_NAME
from headrace.log.epochs import EpochCache, decode_epochs
from headrace.log.indexes.aborted_index import AbortedEntry
from headrace.log.producers.producer_state import ProducerStates
from headrace.log.producers.snapshots import latest_snapshot, snapshot_offsets, write_snapshot
from headrace.log.recovery.epoch_recovery import EpochRecovery
from headrace.log.results import CorruptBatch
from headrace.log.segments.files import FilePool
from headrace.log.segments.scanning import Hole, Scanner, holds_zero_page
from headrace.log.segments.segment import (
    ABORTED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    IndexMismatch,
    Segment,
    segment_path,
    stored,
)
from headrace.log.segments.swapping import base_of, finish_interrupted, mark_deleted, remove_orphans, unlink
from headrace.model.errors import StorageError
from headrace.model.topic_settings import LogConfig
from headrace.records.header import BatchHeader

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Recovered:
    """A log as it was found."""

    segments: list[Segment]
    end_offset: int
    checksums: Checksums
    corruption_count: int = 0
    # What the directory itself says is durable.
    noted_offset: int = 0
    # From here on what was found may be in the page cache only.
    unsure_from: int = 0
    # Bytes that nobody can have been promised and that were cut.
    cut_bytes: int = 0
    findings: list[str] = field(default_factory=list)


class Recovery:
    """One opening of one directory."""

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        disk: Disk,
        clock: Clock,
        pool: FilePool,
        epochs: EpochCache,
        producers: ProducerStates,
    ) -> None:
        self._directory = directory
        self._config = config
        self._disk = disk
        self._clock = clock
        self._pool = pool
        self._epochs = epochs
        self._found_epochs = EpochRecovery()
        self._producers = producers
        self._names: frozenset[str] = frozenset()
        self._producers_known_to = 0
        # Everything below was durable once: what is broken there is damage, not a torn write.
        self._promised_to = 0
        # After a clean shutdown: where the log ended.
        self._known_end: int | None = None
        self._result = Recovered([], 0, Checksums(directory, disk))

    def run(self, *, clean: bool, recovery_point: int, first_offset: int) -> Recovered:
        """Open everything; `first_offset` is where an empty log begins."""
        result = self._result
        result.noted_offset = self._read_noted_offset()
        self._promised_to = max(recovery_point, result.noted_offset)
        self._known_end = recovery_point if clean and recovery_point >= max(1, result.noted_offset) else None
        self._names = frozenset(finish_interrupted(self._disk, self._directory))
        if result.checksums.is_broken:
            self._report("the file of checksums is broken; what it covered is made anew")
        result.segments = self._load_segments()
        if not result.segments:
            return self._begin_empty(first_offset)
        suspects = self._suspects(clean, recovery_point)
        first_unsure = result.segments[min(suspects)].base_offset if suspects else result.end_offset
        result.unsure_from = first_unsure
        self._load_producers(first_unsure)
        epochs_known = self._load_epochs() and self._epochs_reach(min(suspects, default=len(result.segments)) - 1)
        self._settle_segments(suspects, epochs_known)
        self._found_epochs.settle(self._epochs, first_unsure if epochs_known else 0)
        self._go_on_behind_damage()
        self._epochs.truncate_from_end(result.end_offset)
        self._remove_stray_snapshots()
        return result

    def _read_noted_offset(self) -> int:
        try:
            return read_durable_offset(self._disk, self._directory)
        except ValueError as error:
            self._report(str(error))
            return 0

    def _report(self, finding: str) -> None:
        self._result.findings.append(finding)
        logger.warning("%s: %s", self._directory.name, finding)

    # -- what is there

    def _load_segments(self) -> list[Segment]:
        bases = sorted(base for name in self._names if name.endswith(LOG_SUFFIX) and (base := base_of(name)) is not None)
        remove_orphans(self._disk, self._directory, self._names, bases)
        return [self._segment(base) for base in bases]

    def _segment(self, base_offset: int) -> Segment:
        log_path = segment_path(self._directory, base_offset, LOG_SUFFIX)
        aborted_path = segment_path(self._directory, base_offset, ABORTED_SUFFIX)
        has_aborted = aborted_path.name in self._names
        return Segment(
            self._pool,
            self._directory,
            base_offset,
            index_interval_bytes=self._config.index_interval_bytes,
            size=self._disk.size(log_path),
            created_ms=self._clock.wall_ms(),
            aborted_bytes=self._disk.size(aborted_path) if has_aborted else 0,
            aborted_crc=self._result.checksums.get(aborted_path.name),
            sealed_checksum=self._result.checksums.get(f"{base_offset:020d}{TIME_INDEX_SUFFIX}"),
        )

    def _begin_empty(self, first_offset: int) -> Recovered:
        for offset in snapshot_offsets(self._names):
            self._disk.remove(segment_path(self._directory, offset, SNAPSHOT_SUFFIX))
        segment = Segment(
            self._pool,
            self._directory,
            first_offset,
            index_interval_bytes=self._config.index_interval_bytes,
            created_ms=self._clock.wall_ms(),
            is_new=True,
        )
        segment.log.file()
        self._result.segments = [segment]
        self._result.end_offset = first_offset
        return self._result

    def _suspects(self, clean: bool, recovery_point: int) -> set[int]:
        """The segments that must be read batch by batch."""
        segments, checksums = self._result.segments, self._result.checksums
        if checksums.is_broken:
            first = 0
        elif clean:
            first = len(segments) if self._tail_is_sound() else len(segments) - 1
        else:
            # One that ends right at the recovery point may have been the active one then, its indexes still in memory.
            first = max((index for index, segment in enumerate(segments) if segment.base_offset < recovery_point), default=0)
        if checksums.is_there:
            # Whatever need not be read was noted before.  What is not was lost with an earlier file of checksums, and nothing
            # would tell whether these indexes are as they were written.
            first = next((index for index in range(first) if segments[index].sealed_checksum is None), first)
        return set(range(first, len(segments)))

    def _tail_is_sound(self) -> bool:
        """Whether the last segment's index leads to an unbroken chain of batches up to the end, and the rest is whole."""
        segment = self._result.segments[-1]
        if not self._has_indexes(segment):
            return False
        try:
            self._read_tail(segment)
            segment.aborted.entries()
        except (IndexMismatch, CorruptBatch, ValueError) as error:
            self._report(str(error))
            return False
        if self._known_end is not None and self._result.end_offset != self._known_end:
            self._report(f"the log seems to end at {self._result.end_offset}, and ended at {self._known_end}")
            return False
        return True

    def _has_indexes(self, segment: Segment) -> bool:
        names = (f"{segment.base_offset:020d}{suffix}" for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        return segment.size == 0 or all(name in self._names for name in names)

    def _read_tail(self, segment: Segment) -> None:
        start = segment.last_indexed()
        self._result.end_offset = segment.base_offset
        for _, header in segment.headers(start):
            self._result.end_offset = header.next_offset
        segment.bytes_since_entry = segment.size - start
        segment.largest_timestamp()

    # -- producers and epochs

    def _load_producers(self, up_to: int) -> None:
        """The newest snapshot that lies before everything that must be read anyway."""
        found = latest_snapshot(self._disk, self._directory, snapshot_offsets(self._names), up_to)
        self._producers.clear()
        if found is None:
            self._producers_known_to = self._result.segments[0].base_offset
            return
        offset, entries, broken = found
        for broken_offset in broken:
            self._report(f"the producer snapshot at {broken_offset} is broken; an older one serves")
        self._producers_known_to = offset
        self._producers.load(entries)

    def _load_epochs(self) -> bool:
        """Whether the checkpoint could be believed; if not, every batch's header has to say."""
        try:
            # Synced with every record that needs it, which the checksums are not.
            text = self._result.checksums.read(EPOCHS_FILE_NAME, unchecked=True)
            if text is None:
                return self._result.segments[0].size == 0
            self._found_epochs.claims = decode_epochs(text)
            return True
        except ValueError as error:
            self._report(f"leader epochs are read from the batches: {error}")
            return False

    def _epochs_reach(self, index: int) -> bool:
        """Whether the checkpoint knows the epoch in which a segment ended.  An old one that a power failure left does not."""
        segment = self._result.segments[index] if index >= 0 else None
        if segment is None or not segment.size:
            return True
        try:
            *_, (_, last) = segment.headers(segment.last_indexed())
        except (IndexMismatch, CorruptBatch):
            return False
        if last.leader_epoch > self._found_epochs.latest_claim:
            self._report("the checkpoint of leader epochs is older than the log; they are read from the batches")
            return False
        return True

    def _take(self, header: BatchHeader, data: memoryview | bytes | None, segment: Segment, position: int) -> AbortedEntry | None:
        """Let a batch that is in the log count for its producer; the aborted transaction it ends, if it does."""
        if header.base_offset < self._producers_known_to:
            return None
        self._producers_known_to = header.next_offset
        return self._producers.take(header, lambda: data if data is not None else segment.batch_at(position)[1])

    # -- segment by segment

    def _settle_segments(self, suspects: set[int], epochs_known: bool) -> None:
        segments = self._result.segments
        for index, segment in enumerate(segments):
            if index in suspects:
                if index and index - 1 in suspects:
                    write_snapshot(self._disk, self._directory, segment.base_offset, self._producers.snapshot())
                if self._scan(index):
                    self._remove_from(index + 1)
                    return
                continue
            if not self._has_indexes(segment):
                self._report(f"{segment.log.path.name} has lost an index; it is made anew")
                segment.rebuild_indexes()
            following = segments[index + 1].base_offset if index + 1 < len(segments) else self._result.end_offset
            self._walk(segment, following, epochs_known)

    def _walk(self, segment: Segment, end_offset: int, epochs_known: bool) -> None:
        """A segment that need not be scanned: only headers that somebody still has to hear of are read."""
        if not segment.size or (epochs_known and self._producers_known_to >= end_offset):
            return
        try:
            start = 0 if not epochs_known else segment.locate(max(self._producers_known_to, segment.base_offset))
        except IndexMismatch as error:
            self._report(str(error))
            segment.rebuild_indexes()
            start = 0
        for position, header in segment.headers(start, skip_damage=True):
            self._take(header, None, segment, position)
            if not epochs_known:
                self._found_epochs.see(header.leader_epoch, header.base_offset)
        self._report_holes(segment)

    def _scan(self, index: int) -> bool:
        """Read a whole segment, make its indexes anew, and decide about what is broken; True when the log ends here."""
        segment = self._result.segments[index]
        segment.offsets.clear()
        segment.times.clear()
        segment.max_timestamp, segment.bytes_since_entry = -1, 0
        segments = self._result.segments
        is_last = index == len(segments) - 1
        scanner = Scanner(
            segment.log.file(),
            segment.base_offset,
            bound=None if is_last else segments[index + 1].base_offset,
            ends_without_gap=is_last and not self._config.is_compacted,
            end_offset=self._known_end if is_last else None,
        )
        aborted = []
        for header, position, data in scanner:
            if self._pool.giving_up.is_set():
                raise StorageError(self._directory, "recovering the log: the start was given up, and it")
            torn = self._torn_hole(segment, scanner, position)
            if torn is not None:
                scanner.end, scanner.next_offset, scanner.bad_tail = torn.start, torn.first_offset, "pages were never written"
                scanner.holes.remove(torn)
                break
            segment.note(stored(header), position)
            self._found_epochs.see(header.leader_epoch, header.base_offset)
            entry = self._take(header, data, segment, position)
            if entry is not None:
                aborted.append(entry)
        was_cut = self._settle_tail(index, scanner)
        segment.holes = list(scanner.holes)
        self._report_holes(segment)
        segment.aborted.replace(aborted)
        segment.seal()
        self._result.end_offset = max(scanner.next_offset, segment.base_offset)
        return was_cut

    def _report_holes(self, segment: Segment) -> None:
        for hole in segment.holes:
            self._result.corruption_count += 1
            self._report(
                f"{segment.log.path.name} is broken at [{hole.start}, {hole.end}): offsets {hole.first_offset} to "
                f"{hole.next_offset - 1} cannot be served ({hole.reason})"
            )

    def _torn_hole(self, segment: Segment, scanner: Scanner, position: int) -> Hole | None:
        """The hole right before a position, when it is what a power failure leaves and nobody was promised its bytes."""
        hole = scanner.holes[-1] if scanner.holes else None
        if hole is None or hole.end != position or hole.first_offset < self._promised_to:
            return None
        return hole if holds_zero_page(segment.log.file(), hole.start, hole.end) else None

    def _settle_tail(self, index: int, scanner: Scanner) -> bool:
        """What to do with broken bytes at the end of a segment; True when they were cut."""
        segments = self._result.segments
        segment = segments[index]
        is_last = index == len(segments) - 1
        if scanner.bad_tail is None and (is_last or scanner.next_offset >= segments[index + 1].base_offset):
            segment.size = scanner.end
            return False
        scanner.bad_tail = scanner.bad_tail or f"it ends before offset {segments[index + 1].base_offset}"
        size = self._disk.size(segment.log.path)
        if scanner.next_offset < self._promised_to:
            followed_by = self._promised_to if is_last else segments[index + 1].base_offset
            scanner.holes.append(Hole(scanner.end, size, scanner.next_offset, followed_by, scanner.bad_tail))
            scanner.next_offset = followed_by
            segment.size = size
            return False
        self._report(
            f"{segment.log.path.name}: {size - scanner.end} bytes after offset {scanner.next_offset} are cut ({scanner.bad_tail})"
        )
        self._result.cut_bytes += size - scanner.end
        segment.log.file().truncate(scanner.end)
        segment.log.sync()
        segment.size = scanner.end
        return True

    def _remove_from(self, index: int) -> None:
        """Segments after a torn one hold what nobody was promised: with it gone, they cannot stay."""
        segments = self._result.segments
        for segment in segments[index:]:
            self._report(f"{segment.log.path.name} follows a torn segment and is removed")
            segment.close()
            unlink(self._disk, mark_deleted(self._disk, self._directory, segment.base_offset, with_snapshot=True))
        del segments[index:]

    def _go_on_behind_damage(self) -> None:
        """Appends never go behind broken bytes in the same file: the chain of lengths would be lost there."""
        last = self._result.segments[-1]
        lost = self._promised_to > self._result.end_offset
        if lost:
            self._result.corruption_count += 1
            self._report(f"offsets {self._result.end_offset} to {self._promised_to - 1} were durable and are gone")
            self._result.end_offset = self._promised_to
        if lost or (last.holes and last.holes[-1].end >= last.size):
            last.seal()
            segment = Segment(
                self._pool,
                self._directory,
                self._result.end_offset,
                index_interval_bytes=self._config.index_interval_bytes,
                created_ms=self._clock.wall_ms(),
                is_new=True,
            )
            segment.log.file()
            self._disk.sync_directory(self._directory)
            self._result.segments.append(segment)

    def _remove_stray_snapshots(self) -> None:
        """Keep those at segment bases and the newest; one beyond the end describes what is gone."""
        bases = {segment.base_offset for segment in self._result.segments}
        offsets = snapshot_offsets(self._disk.list_names(self._directory))
        for offset in offsets:
            beyond = offset > self._result.end_offset
            if beyond or (offset not in bases and offset != offsets[-1]):
                self._disk.remove(segment_path(self._directory, offset, SNAPSHOT_SUFFIX))
