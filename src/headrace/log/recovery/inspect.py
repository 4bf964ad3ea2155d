"""Looking into one file of a log from outside: the batches of a segment, the entries of an index.  Changes nothing.

Nothing here needs the log to be open or well; a file of Apache Kafka's is read as well as one of ours.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from headrace.declaring import dataclass
from headrace.host.disk import Disk, File, SystemDisk, SystemFile
from headrace.log.indexes.offset_index import OffsetIndex
from headrace.log.indexes.time_index import TimeIndex
from headrace.log.segments.scanning import Hole, ScannedBatch, Scanner
from headrace.log.segments.swapping import base_of
from headrace.model.errors import RequestError
from headrace.records.control import read_marker


class ReadOnlyDisk(SystemDisk):
    """The operating system's files, none of which can be changed through it: also those that somebody else may only read."""

    def open(self, path: Path, *, create: bool = False) -> File:
        return SystemFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """A batch of a segment, or a stretch of broken bytes (then there is no batch)."""

    position: int
    size: int
    batch: ScannedBatch | None
    # What is wrong; for a marker, how its transaction ended; else empty.
    note: str = ""


def inspect_segment(path: Path, disk: Disk | None = None) -> Iterator[BatchReport]:
    """Every batch of a `.log` file in order, and every stretch that is not one."""
    file = (disk or ReadOnlyDisk()).open(path)
    try:
        scanner = Scanner(file, base_of(path.name) or 0)
        reported = 0
        for batch in scanner:
            for hole in scanner.holes[reported:]:
                yield _broken(hole)
            reported = len(scanner.holes)
            yield BatchReport(position=batch.position, size=batch.header.size, batch=batch, note=_marker_note(batch))
        if scanner.bad_tail is not None:
            size = file.size() - scanner.end
            yield BatchReport(position=scanner.end, size=size, batch=None, note=f"bad tail: {scanner.bad_tail}")
    finally:
        file.close()


def _broken(hole: Hole) -> BatchReport:
    note = f"broken: {hole.reason}; offsets {hole.first_offset} to {hole.next_offset - 1}"
    return BatchReport(position=hole.start, size=hole.end - hole.start, batch=None, note=note)


def _marker_note(batch: ScannedBatch) -> str:
    if not batch.header.is_control:
        return ""
    try:
        marker = read_marker(batch.data)
    except RequestError as error:
        return str(error)
    return "control" if marker is None else ("commit" if marker.committed else "abort")


def offset_entries(path: Path, disk: Disk | None = None) -> list[tuple[int, int]]:
    """(offset, position) of an `.index` file."""
    base = base_of(path.name) or 0
    return [(base + relative, position) for relative, position in _entries(path, OffsetIndex.ENTRY, disk)]


def time_entries(path: Path, disk: Disk | None = None) -> list[tuple[int, int]]:
    """(timestamp, offset) of a `.timeindex` file."""
    base = base_of(path.name) or 0
    return [(timestamp, base + relative) for timestamp, relative in _entries(path, TimeIndex.ENTRY, disk)]


def _entries(path: Path, layout: struct.Struct, disk: Disk | None) -> list[tuple[int, int]]:
    data = (disk or ReadOnlyDisk()).read_bytes(path)
    entries: list[tuple[int, int]] = list(layout.iter_unpack(data[: len(data) - len(data) % layout.size]))
    while len(entries) > 1 and entries[-1] == (0, 0):
        entries.pop()  # Kafka makes index files longer than they are full
    return entries
