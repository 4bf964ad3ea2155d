"""Reading every byte of a data directory from outside, and saying what is not as it should be.  Changes nothing.

Nothing here needs the logs to be open or well; a directory of Apache Kafka's is read as well as one of ours.
"""

from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from headrace.declaring import dataclass
from headrace.host.disk import Disk
from headrace.log.directory import parse_directory_name
from headrace.log.durability.checkpoints import PARTITION_METADATA, decode_partition_metadata
from headrace.log.durability.checksums import Checksums
from headrace.log.durability.durable_offset import read_durable_offset
from headrace.log.epochs import FILE_NAME as EPOCHS_FILE_NAME
from headrace.log.epochs import decode_epochs
from headrace.log.indexes.aborted_index import decode_aborted
from headrace.log.indexes.offset_index import OffsetIndex
from headrace.log.indexes.time_index import TimeIndex
from headrace.log.producers.producer_snapshot import decode_snapshot
from headrace.log.recovery.inspect import ReadOnlyDisk, offset_entries, time_entries
from headrace.log.segments.scanning import Scanner
from headrace.log.segments.segment import (
    ABORTED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    segment_path,
)
from headrace.log.segments.swapping import base_of


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be.  `harmless`: the next start repairs it and nothing is lost."""

    path: Path
    problem: str
    harmless: bool = False


@dataclass(slots=True)
class Report:
    """What was found in one partition's directory; or, without segments, in the directory that holds them all."""

    name: str
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)


def verify_directory(path: Path, disk: Disk | None = None) -> Iterator[Report]:
    """A data directory, or the directory of one partition.  While a broker writes there, the newest bytes may look torn."""
    disk = disk or ReadOnlyDisk()
    names = disk.list_names(path)
    if _is_partition(names):
        yield _verify_partition(path, disk)
        return
    yield Report(path.name, findings=list(_verify_checkpoints(path, names, disk)))
    for name in names:
        if parse_directory_name(name) is not None and _is_partition(disk.list_names(path / name)):
            yield _verify_partition(path / name, disk)


def _is_partition(names: list[str]) -> bool:
    return any(name.endswith(LOG_SUFFIX) and base_of(name) is not None for name in names)


def _verify_checkpoints(path: Path, names: list[str], disk: Disk) -> Iterator[Finding]:
    checksums = Checksums(path, disk)
    if checksums.is_broken:
        yield Finding(path / "checksums", "the file of checksums is broken", harmless=True)
    for name in names:
        if name.endswith("-checkpoint") or name == "meta.properties":
            try:
                checksums.read(name)
            except ValueError as error:
                yield Finding(path / name, str(error))
        elif name.endswith("-delete"):
            yield Finding(path / name, "a deleted partition is still there; the next start removes it", harmless=True)


def _verify_partition(directory: Path, disk: Disk) -> Report:
    report = Report(directory.name)
    names = disk.list_names(directory)
    bases = sorted(base for name in names if name.endswith(LOG_SUFFIX) and (base := base_of(name)) is not None)
    previous_end: int | None = None
    for base_offset, following in zip(bases, [*bases[1:], None], strict=True):
        if previous_end is not None and previous_end != base_offset:
            path = segment_path(directory, base_offset, LOG_SUFFIX)
            report.findings.append(Finding(path, f"it begins at {base_offset}, and the segment before ends at {previous_end}"))
        scan = _SegmentScan(directory, base_offset, following, disk)
        previous_end = scan.end_offset
        report.segments += 1
        report.batches += len(scan.last_offset_at)
        report.records += scan.records
        report.size_bytes += scan.size
        report.findings += [*scan.findings(), *_verify_indexes(scan, frozenset(names))]
    report.findings += _verify_small_files(directory, names, disk)
    return report


class _SegmentScan:
    """One pass over a segment: where its batches are and what is wrong with them."""

    def __init__(self, directory: Path, base_offset: int, following: int | None, disk: Disk) -> None:
        self.path = segment_path(directory, base_offset, LOG_SUFFIX)
        self.base_offset = base_offset
        self.disk = disk
        self.last_offset_at: dict[int, int] = {}
        self.timestamp_at: dict[int, int] = {}
        self.records = 0
        self.epoch_problem: str | None = None
        file = disk.open(self.path)
        self.size = file.size()
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
            self.records += header.record_count
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
            yield Finding(self.path, problem)
        if self.epoch_problem is not None:
            yield Finding(self.path, self.epoch_problem)


def _verify_indexes(scan: _SegmentScan, names: frozenset[str]) -> Iterator[Finding]:
    for suffix, entry_bytes in ((INDEX_SUFFIX, OffsetIndex.ENTRY.size), (TIME_INDEX_SUFFIX, TimeIndex.ENTRY.size)):
        path = scan.path.with_suffix(suffix)
        if path.name not in names:
            if scan.last_offset_at and not scan.is_last:
                yield Finding(path, "it is missing; it is made anew when it is needed", harmless=True)
            continue
        if scan.disk.size(path) % entry_bytes:
            yield Finding(path, "it ends within an entry", harmless=True)
        if suffix == INDEX_SUFFIX:
            # Kafka's own entries may name the last offset of several batches written at once.
            rights = [scan.last_offset_at.get(position, 2**63) <= offset for offset, position in offset_entries(path, scan.disk)]
        else:
            rights = [scan.timestamp_at.get(offset) == timestamp for timestamp, offset in time_entries(path, scan.disk)]
        if not all(rights) and any(scan.disk.read_bytes(path)):
            problem = f"{rights.count(False)} of {len(rights)} entries are wrong; it is made anew when it is needed"
            yield Finding(path, problem, harmless=True)


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
        if name.endswith((".deleted", ".cleaned", ".swap", ".begun")):
            yield Finding(path, "left by an interrupted change; the next start deals with it", harmless=True)
