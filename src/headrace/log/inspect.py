"""Looking at files from outside: what `headrace log inspect` and `headrace log verify` show.  Reads only.

Nothing here needs the log to be open or well; a directory of Apache Kafka's is read as well as one of ours.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.host.disk import Disk, SystemDisk
from headrace.log.aborted_index import decode_aborted
from headrace.log.checkpoints import PARTITION_METADATA, decode_partition_metadata
from headrace.log.checksums import Checksums
from headrace.log.directory import parse_directory_name
from headrace.log.durable_offset import read_durable_offset
from headrace.log.epochs import FILE_NAME as EPOCHS_FILE_NAME
from headrace.log.epochs import decode_epochs
from headrace.log.offset_index import ENTRY_BYTES as INDEX_ENTRY_BYTES
from headrace.log.producer_snapshot import decode_snapshot
from headrace.log.scanning import Hole, Scanner
from headrace.log.segment import ABORTED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, segment_path
from headrace.log.swapping import base_of
from headrace.log.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from headrace.model.errors import RequestError
from headrace.records.control import read_marker
from headrace.records.header import BatchHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """A batch of a segment, or a stretch of broken bytes (then there is no header)."""

    position: int
    size: int
    header: BatchHeader | None
    crc_valid: bool
    # What is wrong; for a marker, how its transaction ended; else empty.
    note: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be.  `harmless`: the next start repairs it and nothing is lost."""

    path: Path
    problem: str
    harmless: bool = False


def inspect_segment(path: Path, disk: Disk | None = None) -> Iterator[BatchReport]:
    """Every batch of a `.log` file in order, and every stretch that is not one."""
    file = (disk or SystemDisk()).open(path)
    try:
        scanner = Scanner(file, base_of(path.name) or 0)
        reported = 0
        for header, position, data in scanner:
            for hole in scanner.holes[reported:]:
                yield _broken(hole)
            reported = len(scanner.holes)
            yield BatchReport(position=position, size=header.size, header=header, crc_valid=True, note=_marker_note(header, data))
        if scanner.bad_tail is not None:
            size = file.size() - scanner.end
            yield BatchReport(position=scanner.end, size=size, header=None, crc_valid=False, note=f"bad tail: {scanner.bad_tail}")
    finally:
        file.close()


def _broken(hole: Hole) -> BatchReport:
    note = f"broken: {hole.reason}; offsets {hole.first_offset} to {hole.next_offset - 1}"
    return BatchReport(position=hole.start, size=hole.end - hole.start, header=None, crc_valid=False, note=note)


def _marker_note(header: BatchHeader, data: memoryview) -> str:
    if not header.is_control:
        return ""
    try:
        marker = read_marker(data)
    except RequestError as error:
        return str(error)
    return "control" if marker is None else ("commit" if marker.committed else "abort")


def verify_directory(path: Path, disk: Disk | None = None) -> Iterator[Finding]:
    """What is wrong with a data directory, or with the directory of one partition.  A broker must not be writing to it."""
    disk = disk or SystemDisk()
    names = disk.list_names(path)
    if any(name.endswith(LOG_SUFFIX) and base_of(name) is not None for name in names):
        yield from _verify_partition(path, disk)
        return
    checksums = Checksums(path, disk)
    if checksums.is_broken:
        yield Finding(path / "checksums", "the file of checksums is broken", harmless=True)
    for name in names:
        if name.endswith("-checkpoint") or name == "meta.properties":
            yield from _verify_checked(checksums, path / name)
        elif parse_directory_name(name) is not None:
            yield from _verify_partition(path / name, disk)
        elif name.endswith("-delete"):
            yield Finding(path / name, "a deleted partition is still there; the next start removes it", harmless=True)


def _verify_checked(checksums: Checksums, path: Path) -> Iterator[Finding]:
    try:
        checksums.read(path.name)
    except ValueError as error:
        yield Finding(path, str(error))


def _verify_partition(directory: Path, disk: Disk) -> Iterator[Finding]:
    names = disk.list_names(directory)
    bases = sorted(base for name in names if name.endswith(LOG_SUFFIX) and (base := base_of(name)) is not None)
    previous_end: int | None = None
    for index, base_offset in enumerate(bases):
        if previous_end is not None and previous_end != base_offset:
            path = segment_path(directory, base_offset, LOG_SUFFIX)
            yield Finding(path, f"it begins at {base_offset}, and the segment before ends at {previous_end}")
        following = bases[index + 1] if index + 1 < len(bases) else None
        scan = _SegmentScan(directory, base_offset, following, disk)
        yield from scan.findings()
        previous_end = scan.end_offset
        yield from _verify_indexes(scan, frozenset(names))
    yield from _verify_small_files(directory, names, disk)
    for name in names:
        if name.endswith((".deleted", ".cleaned", ".swap")):
            yield Finding(directory / name, "left by an interrupted change; the next start deals with it", harmless=True)


class _SegmentScan:
    """One pass over a segment: where its batches are and what is wrong with them."""

    def __init__(self, directory: Path, base_offset: int, following: int | None, disk: Disk) -> None:
        self.path = segment_path(directory, base_offset, LOG_SUFFIX)
        self.base_offset = base_offset
        self.disk = disk
        self.last_offset_at: dict[int, int] = {}
        self.timestamp_at: dict[int, int] = {}
        self.epoch_problem: str | None = None
        file = disk.open(self.path)
        try:
            self._scanner = Scanner(file, base_offset, bound=following)
            self._read()
        finally:
            file.close()
        self.is_last = following is None
        self.end_offset = self._scanner.next_offset

    def _read(self) -> None:
        epoch = -1
        for header, position, _ in self._scanner:
            self.last_offset_at[position] = header.last_offset
            self.timestamp_at[header.last_offset] = header.max_timestamp
            if header.leader_epoch < epoch and self.epoch_problem is None:
                self.epoch_problem = (
                    f"the leader epoch falls from {epoch} to {header.leader_epoch} at offset {header.base_offset}"
                )
            epoch = max(epoch, header.leader_epoch)

    def findings(self) -> Iterator[Finding]:
        for hole in self._scanner.holes:
            yield Finding(
                self.path,
                f"bytes {hole.start} to {hole.end - 1} are broken ({hole.reason}): "
                f"offsets {hole.first_offset} to {hole.next_offset - 1} are lost",
            )
        if self._scanner.bad_tail is not None:
            problem = (
                f"bytes from {self._scanner.end} on, after offset {self.end_offset - 1}, are no batch ({self._scanner.bad_tail})"
            )
            yield Finding(self.path, problem, harmless=False)
        if self.epoch_problem is not None:
            yield Finding(self.path, self.epoch_problem)


def _verify_indexes(scan: _SegmentScan, names: frozenset[str]) -> Iterator[Finding]:
    for suffix, entry_bytes in ((INDEX_SUFFIX, INDEX_ENTRY_BYTES), (TIME_INDEX_SUFFIX, TIME_ENTRY_BYTES)):
        path = scan.path.with_suffix(suffix)
        if path.name not in names:
            if scan.last_offset_at and not scan.is_last:
                yield Finding(path, "it is missing; it is made anew when it is needed", harmless=True)
            continue
        data = scan.disk.read_bytes(path)
        if len(data) % entry_bytes:
            yield Finding(path, "it ends within an entry", harmless=True)
        entries = [data[i : i + entry_bytes] for i in range(0, len(data) - entry_bytes + 1, entry_bytes)]
        while entries and not any(entries[-1]):
            entries.pop()  # Kafka makes index files longer than they are full
        wrong = sum(not _entry_is_right(scan, suffix, entry) for entry in entries)
        if wrong:
            yield Finding(path, f"{wrong} of {len(entries)} entries are wrong; it is made anew when it is needed", harmless=True)


def _entry_is_right(scan: _SegmentScan, suffix: str, entry: bytes) -> bool:
    offset = scan.base_offset + int.from_bytes(entry[-8:-4] if suffix == INDEX_SUFFIX else entry[-4:], "big", signed=True)
    if suffix == INDEX_SUFFIX:
        position = int.from_bytes(entry[4:], "big", signed=True)
        # Kafka's own entries may name the last offset of several batches written at once.
        return scan.last_offset_at.get(position, 2**63) <= offset
    return scan.timestamp_at.get(offset) == int.from_bytes(entry[:8], "big", signed=True)


def _verify_small_files(directory: Path, names: list[str], disk: Disk) -> Iterator[Finding]:
    checksums = Checksums(directory, disk)
    if checksums.is_broken:
        yield Finding(directory / "checksums", "the file of checksums is broken", harmless=True)
    for name in names:
        path = directory / name
        try:
            if name.endswith(SNAPSHOT_SUFFIX):
                decode_snapshot(disk.read_bytes(path))
            elif name.endswith(ABORTED_SUFFIX):
                decode_aborted(checksums.read(name) or b"")
            elif name == EPOCHS_FILE_NAME:
                decode_epochs(checksums.read(name) or b"")
            elif name == PARTITION_METADATA:
                decode_partition_metadata(checksums.read(name) or b"")
            elif name == "durable-offset":
                read_durable_offset(disk, directory)
        except ValueError as error:
            yield Finding(path, f"{error}; it is made anew from the log", harmless=name != PARTITION_METADATA)
