"""The producer snapshots in a log's directory: one per segment, named by the offset it was taken at, and one at the clean end.

A snapshot at offset n holds the producers as they were before offset n.  It carries its own CRC, so nothing depends on its being
synced at once: one that did not make it to the medium is as good as none, and the next older one is used.
"""

from collections.abc import Iterable
from pathlib import Path

from headrace.host.disk import Disk
from headrace.log.producers.producer_snapshot import SnapshotEntry, decode_snapshot, encode_snapshot
from headrace.log.segments.segment import SNAPSHOT_SUFFIX, segment_path


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """The offsets of the snapshots among a directory's names, oldest first."""
    return sorted(
        int(name.removesuffix(SNAPSHOT_SUFFIX))
        for name in names
        if name.endswith(SNAPSHOT_SUFFIX) and name.removesuffix(SNAPSHOT_SUFFIX).isdecimal()
    )


def write_snapshot(disk: Disk, directory: Path, offset: int, entries: list[SnapshotEntry]) -> Path:
    """Write a snapshot, not yet synced; its path."""
    path = segment_path(directory, offset, SNAPSHOT_SUFFIX)
    data = encode_snapshot(entries)
    if disk.exists(path) and disk.read_bytes(path) == data:
        # An idle partition that is closed again.  Files that are written over cost a file system more than new ones.
        return path
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.append([data])
    finally:
        file.close()
    return path


def latest_snapshot(
    disk: Disk, directory: Path, offsets: list[int], up_to: int
) -> tuple[int, list[SnapshotEntry], list[int]] | None:
    """The newest sound snapshot at or below an offset, and the offsets of broken ones that were passed over."""
    broken: list[int] = []
    for offset in reversed(offsets):
        if offset > up_to:
            continue
        try:
            return offset, decode_snapshot(disk.read_bytes(segment_path(directory, offset, SNAPSHOT_SUFFIX))), broken
        except ValueError:
            broken.append(offset)
    return None
