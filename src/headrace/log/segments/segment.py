"""One segment: a log file of batches and its indexes.

Always: `size` bytes of the log file belong to the segment, whatever the file's own size; batches lie one after the other with
increasing offsets.  Positions are looked for through the index and proved by the batch that lies there, so a wrong index is
noticed (`IndexMismatch`) and never believed.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from headrace.host.disk import Buffer
from headrace.log.indexes.aborted_index import AbortedIndex
from headrace.log.indexes.offset_index import RELATIVE_OFFSET_MAX, IndexEntry, OffsetIndex
from headrace.log.indexes.time_index import TimeEntry, TimeIndex
from headrace.log.results import CorruptBatch
from headrace.log.segments.files import FilePool, Handle
from headrace.log.segments.scanning import Hole, Scanner, header_fault, jump_fault
from headrace.records.header import FRAME_BYTES, HEADER_BYTES, BatchHeader, crc_matches, read_header

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
ABORTED_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_SUFFIX)

NEVER_LOOKED: Final = 0

_WALK_CHUNK_BYTES = 16 * 1024
# A healthy index never leaves this much to walk over, however large the interval was set.
_WALK_BYTES_MAX = 4 * 1024 * 1024


def segment_path(directory: Path, base_offset: int, suffix: str) -> Path:
    return directory / f"{base_offset:020d}{suffix}"


class IndexMismatch(Exception):
    """An index does not describe its segment: rebuild it."""


class StoredBatch(NamedTuple):
    """What a segment needs to know of a batch it is handed: the header, and what was assigned."""

    header: BatchHeader
    base_offset: int
    max_timestamp: int
    size: int


def stored(header: BatchHeader) -> StoredBatch:
    """A batch that has its offsets already.  One that was emptied has no time: it says nothing about when records were made."""
    timestamp = header.max_timestamp if header.record_count else -1
    return StoredBatch(header, header.base_offset, timestamp, header.size)


class Segment:
    """A stretch of the log in one file."""

    __slots__ = (
        "aborted",
        "base_offset",
        "bytes_since_entry",
        "created_ms",
        "cuts",
        "directory",
        "first_timestamp",
        "has_empty",
        "holes",
        "index_interval_bytes",
        "log",
        "looked_to",
        "max_timestamp",
        "max_timestamp_offset",
        "next_expiry_ms",
        "offsets",
        "sealed_checksum",
        "size",
        "times",
        "trusted_from",
    )

    def __init__(
        self,
        pool: FilePool,
        directory: Path,
        base_offset: int,
        *,
        index_interval_bytes: int,
        size: int = 0,
        created_ms: int = 0,
        is_new: bool = False,
        aborted_bytes: int = 0,
        aborted_crc: int | None = None,
        sealed_checksum: int | None = None,
        file_suffix: str = "",
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.index_interval_bytes = index_interval_bytes
        self.size = size
        self.created_ms = created_ms
        log, offsets, times, aborted = (
            pool.handle(segment_path(directory, base_offset, suffix + file_suffix)) for suffix in SEGMENT_SUFFIXES
        )
        self.log: Handle = log
        self.offsets = OffsetIndex(offsets, base_offset, is_new=is_new)
        self.times = TimeIndex(times, base_offset, is_new=is_new)
        self.aborted = AbortedIndex(aborted, aborted_bytes, aborted_crc)
        self.bytes_since_entry = 0
        # None: known to the time index only, and believed only after the batch it names was looked at.
        self.max_timestamp: int | None = -1 if is_new else None
        self.max_timestamp_offset = base_offset
        # Noted when the time index was complete: then its last entry is the greatest timestamp, and nothing need be walked.
        self.sealed_checksum = sealed_checksum
        # The first batch's, for rolling by time; None until it is known.
        self.first_timestamp: int | None = None
        # Bytes from here on were checked when this process appended them.
        self.trusted_from = size
        self.holes: list[Hole] = []
        # Whether a batch without records was written to it by this process.
        self.has_empty = False
        # When the first record expires, of the bytes below `looked_to`; None when none does.
        self.next_expiry_ms: int | None = NEVER_LOOKED
        self.looked_to = 0
        # How often it was cut: who looked at it meanwhile looked at something else.
        self.cuts = 0

    def __repr__(self) -> str:
        return f"<segment {self.log.path.name} of {self.size} bytes>"

    def copy(self, pool: FilePool) -> "Segment":
        """The same as it is now, for somebody with files of their own who only reads."""
        copy = Segment(
            pool,
            self.directory,
            self.base_offset,
            index_interval_bytes=self.index_interval_bytes,
            size=self.size,
            sealed_checksum=self.sealed_checksum,
        )
        copy.offsets.take_over(self.offsets)
        copy.times.take_over(self.times)
        copy.max_timestamp, copy.max_timestamp_offset = self.max_timestamp, self.max_timestamp_offset
        copy.holes = list(self.holes)
        return copy

    # -- writing

    @property
    def jitter_seed(self) -> int:
        """A number that is this segment's own and looks like chance; the same after a restart."""
        return crc32(f"{self.directory.name}/{self.base_offset}".encode())

    def append(self, batches: Sequence[StoredBatch], parts: Sequence[Buffer]) -> None:
        """Write batches in one go, then note them in the indexes."""
        position = self.log.file().append(parts)
        assert position == self.size, f"{self.log.path} is {position} bytes long, not {self.size}"
        for batch in batches:
            self.note(batch, position)
            position += batch.size
        self.size = position

    def note(self, batch: StoredBatch, position: int) -> None:
        last_offset = batch.base_offset + batch.header.last_offset_delta
        if not batch.header.record_count:
            self.has_empty = True
        max_timestamp = self.max_timestamp
        if max_timestamp is None:
            max_timestamp = self.largest_timestamp()
        if self.first_timestamp is None and position == 0:
            self.first_timestamp = batch.max_timestamp
        if batch.max_timestamp > max_timestamp:
            self.max_timestamp = max_timestamp = batch.max_timestamp
            self.max_timestamp_offset = last_offset
        if self.bytes_since_entry > self.index_interval_bytes:
            self.offsets.append(last_offset, position)
            self.times.append(max_timestamp, self.max_timestamp_offset)
            self.bytes_since_entry = 0
        self.bytes_since_entry += batch.size

    def seal(self) -> None:
        """No more appends: the indexes are completed and handed to their files, and every later read is checked."""
        if self.size:
            self.times.append(self.largest_timestamp(), self.max_timestamp_offset)
        self.offsets.flush()
        self.times.flush()
        for index in (self.offsets, self.times):
            # An index without entries exists all the same: a missing one means that something was lost.
            index.handle.file()
        self.trusted_from = self.size

    def cut(self, position: int, offset: int) -> None:
        """Remove everything from a batch on."""
        self.log.file().truncate(position)
        self.size = position
        self.sealed_checksum = None
        self.next_expiry_ms, self.looked_to = NEVER_LOOKED, 0
        self.cuts += 1
        self.trusted_from = min(self.trusted_from, position)
        self.holes = [hole for hole in self.holes if hole.end <= position]
        self.offsets.truncate_to(offset)
        self.times.truncate_to(offset)
        self.aborted.truncate_to(offset)
        # The greatest timestamp may have gone with the rest: what remains is read again.
        self._learn_timestamps()
        self.bytes_since_entry = position - self.last_indexed()

    def is_full(self, incoming_bytes: int, last_offset: int, segment_bytes: int, index_bytes: int) -> bool:
        """Whether so many bytes up to an offset do not fit; the offset must be told relative to the base, in 31 bits."""
        if self.size + incoming_bytes > segment_bytes or last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        # Only a batch that would get an entry can make an index too long.
        return self.bytes_since_entry > self.index_interval_bytes and (
            self.offsets.size_bytes + 8 > index_bytes or self.times.size_bytes + 12 > index_bytes
        )

    # -- finding

    def locate(self, offset: int) -> int:
        """The position of the batch that holds an offset, or of the next one; the end when there is none."""
        entry = self._proved(self.offsets.lookup(offset))
        for position, header in self.headers(entry.position, target=offset):
            if header.last_offset >= offset:
                return position
            if position - entry.position > max(_WALK_BYTES_MAX, 4 * self.index_interval_bytes) and len(self.offsets) == 0:
                raise IndexMismatch(f"{self.offsets.handle.path}: it lacks entries")
        return self.size

    def last_indexed(self) -> int:
        """The position of the last batch that has an entry in the index."""
        return self._proved(self.offsets.last()).position

    def _proved(self, entry: IndexEntry) -> IndexEntry:
        """An index entry whose batch is there and holds its offset; IndexMismatch for any other."""
        if entry.offset < self.base_offset:
            return entry
        if entry.position + HEADER_BYTES <= self.size:
            header = read_header(self.log.file().read_at(entry.position, HEADER_BYTES))
            fault = header_fault(header, self.size - entry.position, self.base_offset)
            if fault is None and header.base_offset <= entry.offset <= header.last_offset:
                return entry
        raise IndexMismatch(f"{self.offsets.handle.path}: offset {entry.offset} is not at {entry.position}")

    def headers(
        self, position: int, *, target: int | None = None, skip_damage: bool = False
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Headers from a position on.  A broken one raises CorruptBatch, unless the target offset lies beyond the damage."""
        expected = self.base_offset
        chunk, start = b"", position
        file = self.log.file()
        while position < self.size:
            if position - start + HEADER_BYTES > len(chunk):
                chunk, start = file.read_at(position, _WALK_CHUNK_BYTES), position
            header = read_header(chunk, position - start) if len(chunk) - (position - start) >= HEADER_BYTES else None
            fault = "the file ends within a header" if header is None else self._fault(header, position, expected)
            if header is None or fault:
                hole = self.hole_at(position, expected, fault or "")
                if not skip_damage and (target is None or target < hole.next_offset):
                    raise CorruptBatch(self.log.path, position, hole.first_offset, hole.reason)
                position, expected = hole.end, max(expected, hole.first_offset)
                continue
            yield position, header
            expected = header.next_offset
            position += header.size

    def _fault(self, header: BatchHeader, position: int, expected: int) -> str | None:
        fault = header_fault(header, self.size - position, expected)
        following = position + header.size
        if fault or header.base_offset == expected or following + HEADER_BYTES > self.size:
            return fault
        return jump_fault(header, read_header(self.log.file().read_at(following, HEADER_BYTES)), expected)

    def hole_at(self, position: int, expected_offset: int, reason: str) -> Hole:
        """The damage that begins at a position: known, or found out now by looking for the next sound batch."""
        for hole in self.holes:
            if hole.start == position:
                return hole
        scanner = Scanner(self.log.file(), expected_offset, start=position, size=self.size)
        next(iter(scanner), None)
        hole = scanner.holes[0] if scanner.holes else Hole(position, self.size, expected_offset, 2**63 - 1, reason)
        self.holes.append(hole)
        return hole

    def batch_at(self, position: int) -> tuple[BatchHeader, bytes]:
        """A whole batch, its CRC checked."""
        header = read_header(self.log.file().read_at(position, HEADER_BYTES))
        data = self.log.file().read_at(position, FRAME_BYTES + header.batch_length)
        if len(data) != header.size or not crc_matches(data):
            hole = self.hole_at(position, header.base_offset, "its CRC does not match its bytes")
            raise CorruptBatch(self.log.path, position, hole.first_offset, hole.reason)
        return header, data

    # -- time

    def largest_timestamp(self) -> int:
        """The greatest timestamp; -1 for none.  What the time index says is compared with the batch it names."""
        if self.max_timestamp is None:
            self._learn_timestamps()
        assert self.max_timestamp is not None
        return self.max_timestamp

    def _learn_timestamps(self) -> None:
        last = self.times.last()
        start = self._position_of(last)
        if self.sealed_checksum is not None and self.sealed_checksum == self.times.seal_checksum():
            self.max_timestamp, self.max_timestamp_offset = last
            return
        greatest, greatest_offset = -1, self.base_offset
        # The index is sparse: batches after its last entry may be later still.
        for _, header in self.headers(start, skip_damage=True):
            if header.record_count and header.max_timestamp > greatest:
                greatest, greatest_offset = header.max_timestamp, header.last_offset
        self.max_timestamp, self.max_timestamp_offset = greatest, greatest_offset

    def latest_before(self, offset: int) -> TimeEntry:
        """The greatest timestamp of the batches that end below an offset, and the last offset of the first that has it."""
        largest = self.largest_timestamp()
        if self.max_timestamp_offset < offset:
            return TimeEntry(largest, self.max_timestamp_offset)
        found = self.times.greatest_before(offset)
        # The index is sparse: batches between this entry and the next may be later.
        for _, header in self.headers(self._position_of(found), skip_damage=True):
            if header.next_offset > offset:
                break
            if header.record_count and header.max_timestamp > found.timestamp:
                found = TimeEntry(header.max_timestamp, header.last_offset)
        return found

    def position_before(self, timestamp: int) -> int:
        """A position before which no record is as late as a time."""
        return self._position_of(self.times.lookup(timestamp - 1))

    def _position_of(self, entry: TimeEntry) -> int:
        """Where the batch lies that a time entry names, which must have that very timestamp."""
        if entry.timestamp < 0:
            return 0
        position = self.locate(entry.offset) if entry.offset >= self.base_offset else self.size
        header = next((header for _, header in self.headers(position)), None)
        if header is None or header.last_offset != entry.offset or header.max_timestamp != entry.timestamp:
            raise IndexMismatch(f"{self.times.handle.path}: {entry.timestamp} is not at offset {entry.offset}")
        return position

    def rolling_timestamp(self) -> int | None:
        """The time from which this segment's age counts: that of its first batch."""
        if self.first_timestamp is None and self.size >= HEADER_BYTES:
            self.first_timestamp = read_header(self.log.file().read_at(0, HEADER_BYTES)).max_timestamp
        return self.first_timestamp

    # -- repair

    def rebuild_indexes(self) -> None:
        """Make both indexes anew from the batches' headers."""
        self.offsets.clear()
        self.times.clear()
        self.bytes_since_entry = 0
        self.sealed_checksum = None
        self.max_timestamp, self.max_timestamp_offset, self.first_timestamp = -1, self.base_offset, None
        size, position = self.size, 0
        for position, header in self.headers(0, skip_damage=True):
            self.note(stored(header), position)
        self.size = size
        if size:
            self.times.append(self.max_timestamp, self.max_timestamp_offset)
        self.offsets.flush()
        self.times.flush()

    # -- the end

    def handles(self) -> tuple[Handle, Handle, Handle, Handle]:
        return self.log, self.offsets.handle, self.times.handle, self.aborted.handle

    def close(self) -> None:
        for handle in self.handles():
            handle.close()
