"""Files that are on their way in or out of a log, and how a start finishes what a crash interrupted.  Kafka's suffixes and order.

`.cleaned`  being written by the cleaner: worthless after a crash.
`.swap`     complete and durable: takes the place of the segments it was made from.
`.deleted`  out of the log, not yet unlinked.
`.begun`    the first segment of a log that starts over, empty: worthless after a crash.

Replacing runs: all `.cleaned` become `.swap`, newest first; the old segments become `.deleted`; `.swap` loses its suffix.
While a `.cleaned` is left, the swap had not begun: the `.swap` files at and above the oldest `.cleaned` go too.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from headrace.host.disk import Disk, is_full
from headrace.log.segments.scanning import Scanner
from headrace.log.segments.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    segment_path,
)

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
BEGUN_SUFFIX: Final = ".begun"
# The order of renaming within a segment: the log last on the way in and on the way out, so that indexes never stand alone.
_INDEXES_FIRST: Final = (*SEGMENT_SUFFIXES[1:], LOG_SUFFIX)


def base_of(name: str) -> int | None:
    """The base offset in a file's name."""
    stem = name.partition(".")[0]
    return int(stem) if stem.isdecimal() and len(stem) == 20 else None


def mark_deleted(disk: Disk, directory: Path, base_offset: int, *, with_snapshot: bool) -> list[Path]:
    """Rename a segment's files out of the log; the paths to unlink."""
    # The log first: without it the rest is debris that a start removes.
    suffixes = (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX) if with_snapshot else SEGMENT_SUFFIXES
    marked = []
    for suffix in suffixes:
        path = segment_path(directory, base_offset, suffix)
        if disk.exists(path):
            target = path.with_name(path.name + DELETED_SUFFIX)
            try:
                disk.rename(path, target)
                marked.append(target)
            except OSError as error:
                # A directory may have to grow for the longer name.  To remove something takes no room.
                if not is_full(error):
                    raise
                disk.remove(path)
    return marked


def prepare_beginning(disk: Disk, directory: Path, base_offset: int) -> None:
    """Make the file with which a log will start over, while all of the old one is still there.  Takes all the room it needs."""
    disk.open(segment_path(directory, base_offset, LOG_SUFFIX + BEGUN_SUFFIX), create=True).close()


def put_beginning_in_place(disk: Disk, directory: Path, base_offset: int) -> None:
    """Nothing else is in the log any more."""
    disk.rename(segment_path(directory, base_offset, LOG_SUFFIX + BEGUN_SUFFIX), segment_path(directory, base_offset, LOG_SUFFIX))


def unlink(disk: Disk, paths: Iterable[Path]) -> None:
    for path in paths:
        disk.remove(path)


def begin_swap(disk: Disk, directory: Path, new_bases: Sequence[int]) -> None:
    """All cleaned segments become `.swap`: from here on a crash finishes the replacement instead of undoing it."""
    for base_offset in sorted(new_bases, reverse=True):
        for suffix in _INDEXES_FIRST:
            cleaned = segment_path(directory, base_offset, suffix + CLEANED_SUFFIX)
            if disk.exists(cleaned):
                disk.rename(cleaned, segment_path(directory, base_offset, suffix + SWAP_SUFFIX))
    disk.sync_directory(directory)


def finish_swap(disk: Disk, directory: Path, new_bases: Sequence[int]) -> None:
    """The replacements lose their suffix.  Whoever cares when that is durable syncs the directory."""
    for base_offset in sorted(new_bases, reverse=True):
        for suffix in _INDEXES_FIRST:
            swap = segment_path(directory, base_offset, suffix + SWAP_SUFFIX)
            if disk.exists(swap):
                disk.rename(swap, segment_path(directory, base_offset, suffix))


def finish_interrupted(disk: Disk, directory: Path) -> list[str]:
    """At a start: remove debris, finish or undo replacements; the names that are left."""
    names = disk.list_names(directory)
    cleaned = [base for name in names if name.endswith(CLEANED_SUFFIX) and (base := base_of(name)) is not None]
    oldest_cleaned = min(cleaned, default=None)
    for name in names:
        base = base_of(name)
        undone = oldest_cleaned is not None and base is not None and base >= oldest_cleaned and name.endswith(SWAP_SUFFIX)
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, BEGUN_SUFFIX)) or undone:
            disk.remove(directory / name)
    names = disk.list_names(directory)
    swapped = sorted({base for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX) and (base := base_of(name)) is not None})
    # Indexes renamed before a crash whose log is renamed already: they only have to lose their suffix.
    strays = sorted({base for name in names if name.endswith(SWAP_SUFFIX) and (base := base_of(name)) is not None})
    for base_offset in swapped:
        _remove_replaced(disk, directory, base_offset, names)
    if not strays:
        return names
    finish_swap(disk, directory, strays)
    disk.sync_directory(directory)
    return disk.list_names(directory)


def _remove_replaced(disk: Disk, directory: Path, base_offset: int, names: Sequence[str]) -> None:
    """The segments whose offsets a replacement covers."""
    file = disk.open(segment_path(directory, base_offset, LOG_SUFFIX + SWAP_SUFFIX))
    try:
        scanner = Scanner(file, base_offset)
        for _ in scanner:
            pass
        covered_to = scanner.next_offset
    finally:
        file.close()
    for name in names:
        base = base_of(name)
        if base is not None and base_offset <= base < max(covered_to, base_offset + 1) and name.endswith(LOG_SUFFIX):
            for suffix in SEGMENT_SUFFIXES:
                disk.remove(segment_path(directory, base, suffix))


def remove_orphans(disk: Disk, directory: Path, names: Iterable[str], bases: Iterable[int]) -> None:
    """Indexes without a log are what an interrupted removal leaves."""
    known = set(bases)
    for name in names:
        base = base_of(name)
        if base is not None and base not in known and name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX, SEGMENT_SUFFIXES[3])):
            disk.remove(directory / name)
