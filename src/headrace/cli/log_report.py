"""What is in the files of a log, read without changing a byte: also while a broker writes them, and of a log that is broken.

Every batch is checked as recovery checks it (header, order of offsets, CRC-32C); every index entry is held against the batch
that it points to.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.host.disk import File, SystemFile
from headrace.log.scanning import ScannedBatch, Scanner

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")


@contextmanager
def opened(path: Path) -> Iterator[File]:
    """The file, for reading only."""
    file = SystemFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    try:
        yield file
    finally:
        file.close()


def base_offset_of(path: Path) -> int | None:
    """The first offset of a segment, which is its name; None for a file that is no segment's."""
    name = path.name.split(".")[0]
    return int(name) if len(name) == 20 and name.isdigit() else None


def batches(path: Path) -> Iterator[ScannedBatch | str]:
    """The sound batches of a segment in order, and a sentence for everything between and after them that is not sound."""
    with opened(path) as file:
        scanner = Scanner(file, base_offset_of(path) or 0)
        holes = 0
        for batch in scanner:
            for hole in scanner.holes[holes:]:
                yield (
                    f"bytes {hole.start} to {hole.end} are broken: {hole.reason}; "
                    f"offsets {hole.first_offset} to {hole.next_offset - 1} cannot be read"
                )
            holes = len(scanner.holes)
            yield batch
        if scanner.bad_tail is not None:
            yield f"from byte {scanner.end} to the end at {file.size()} there is no sound batch: {scanner.bad_tail}"


def offset_entries(path: Path) -> list[tuple[int, int]]:
    """(offset, position) of an `.index` file."""
    base = base_offset_of(path) or 0
    return [(base + relative, position) for relative, position in _entries(path, _OFFSET_ENTRY)]


def time_entries(path: Path) -> list[tuple[int, int]]:
    """(timestamp, offset) of a `.timeindex` file."""
    base = base_offset_of(path) or 0
    return [(timestamp, base + relative) for timestamp, relative in _entries(path, _TIME_ENTRY)]


def _entries(path: Path, layout: struct.Struct) -> list[tuple[int, int]]:
    data = path.read_bytes()
    whole = len(data) - len(data) % layout.size
    entries: list[tuple[int, int]] = []
    for first, second in layout.iter_unpack(data[:whole]):
        if entries and (first, second) == (0, 0):
            break  # Kafka makes index files longer than they are full
        entries.append((first, second))
    return entries


@dataclass(slots=True)
class PartitionReport:
    """What was found in one partition's directory."""

    name: str
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    faults: list[str] = field(default_factory=list)


def partition_directories(directory: Path) -> list[Path]:
    """The directory itself if it holds segments, else those in it that do."""
    candidates = [directory, *sorted(path for path in directory.iterdir() if path.is_dir())]
    return [path for path in candidates if segments(path)]


def segments(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("*.log") if base_offset_of(path) is not None)


def verify_partition(directory: Path) -> PartitionReport:
    """Read every byte of a partition's segments and indexes."""
    report = PartitionReport(directory.name)
    expected = 0
    for path in segments(directory):
        base = base_offset_of(path) or 0
        if base < expected:
            report.faults.append(f"{path.name} begins at offset {base}, but the segment before it reaches {expected - 1}")
        expected = max(expected, _verify_segment(path, report))
    return report


def _verify_segment(path: Path, report: PartitionReport) -> int:
    """Add a segment to the report; the offset that may follow it."""
    report.segments += 1
    report.size_bytes += path.stat().st_size
    ends: dict[int, tuple[int, int]] = {}  # position -> (first offset, last offset)
    next_offset = base_offset_of(path) or 0
    for found in batches(path):
        if isinstance(found, str):
            report.faults.append(f"{path.name}: {found}")
            continue
        report.batches += 1
        report.records += found.header.record_count
        ends[found.position] = (found.header.base_offset, found.header.last_offset)
        next_offset = found.header.next_offset
    report.faults += [f"{path.with_suffix('.index').name}: {fault}" for fault in _index_faults(path, ends)]
    report.faults += [f"{path.with_suffix('.timeindex').name}: {fault}" for fault in _time_index_faults(path, next_offset)]
    return next_offset


def _index_faults(path: Path, ends: dict[int, tuple[int, int]]) -> Iterator[str]:
    index = path.with_suffix(".index")
    if not index.exists():
        return
    previous = -1
    for offset, position in offset_entries(index):
        if offset <= previous:
            yield f"offset {offset} follows {previous}"
        previous = offset
        if position not in ends:
            yield f"offset {offset} points to byte {position}, where no batch begins"
        elif not ends[position][0] <= offset <= ends[position][1]:
            yield f"offset {offset} points to a batch of offsets {ends[position][0]} to {ends[position][1]}"


def _time_index_faults(path: Path, next_offset: int) -> Iterator[str]:
    index = path.with_suffix(".timeindex")
    if not index.exists():
        return
    previous = (-1, -1)
    for entry in time_entries(index):
        timestamp, offset = entry
        if timestamp < previous[0] or offset < previous[1]:
            yield f"the entry for offset {offset} goes back"
        if offset >= next_offset and next_offset > (base_offset_of(path) or 0):
            yield f"offset {offset} is beyond the segment's end at {next_offset}"
        previous = entry
