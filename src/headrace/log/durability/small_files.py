"""The small files of a log's directory, with their checksums: leader epochs, what the indexes of closed segments end with, and
the partition's metadata.

The loop's thread notes what has changed; threads that sync or make a checkpoint write it down, one at a time.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headrace.log.durability.checksums import FILE_NAME as CHECKSUMS_FILE_NAME
from headrace.log.durability.checksums import Checksums
from headrace.log.durability.durability import Durability
from headrace.log.epochs import FILE_NAME as EPOCHS_FILE_NAME
from headrace.log.epochs import EpochCache
from headrace.log.segments.segment import ABORTED_SUFFIX, TIME_INDEX_SUFFIX, Segment

_NOTED_SUFFIXES: Final = (ABORTED_SUFFIX, TIME_INDEX_SUFFIX)


class SmallFiles:
    """What of them is still to be written."""

    def __init__(self, directory: Path, durability: Durability, epochs: EpochCache) -> None:
        self._directory = directory
        self._durability = durability
        self._epochs = epochs
        self._epochs_written = -1
        self._writing = threading.Lock()
        self._sealed: dict[str, int] = {}
        self._sealed_lock = threading.Lock()
        # Read when the log is opened.
        self.checksums: Checksums

    def write_epochs(self) -> None:
        """An epoch is durable with its first record: once that is compacted away, nothing else tells where the epoch began."""
        if self._epochs.version == self._epochs_written:
            return
        with self._writing:
            version = self._epochs.version
            if version != self._epochs_written:
                self._write_companion(EPOCHS_FILE_NAME, self._epochs.encode())
                self._epochs_written = version

    def write_partition_metadata(self, name: str, data: bytes) -> None:
        """Durable with the first record that is."""
        with self._writing:
            self._write_companion(name, data)

    def _write_companion(self, name: str, data: bytes) -> None:
        self.checksums.write({name: data}, durable=False)
        self._durability.companion_written(self._directory / name)
        self._durability.small_file_written(self._directory / CHECKSUMS_FILE_NAME)

    def note_sealed(self, segment: Segment, end_offset: int) -> None:
        """A segment is complete: the next checkpoint syncs its indexes and notes what its time index ends with."""
        segment.sealed_checksum = segment.times.seal_checksum()
        sums = {segment.times.handle.path.name: segment.sealed_checksum}
        if not segment.aborted.is_empty:
            segment.aborted.crc = sums[segment.aborted.handle.path.name] = segment.aborted.checksum()
        with self._sealed_lock:
            self._sealed |= sums
        self._durability.sealed(segment.handles()[1:3], end_offset)

    def write_all(self, bases: Sequence[int], *, durable: bool) -> None:
        """Whatever has changed; `bases` are those of the segments there are."""
        with self._writing:
            version = self._epochs.version
            files = {EPOCHS_FILE_NAME: self._epochs.encode()} if version != self._epochs_written else {}
            with self._sealed_lock:
                sums, self._sealed = self._sealed, {}
            stems = {f"{base:020d}" for base in list(bases)}
            gone = frozenset(
                name for name in self.checksums.names() if name.endswith(_NOTED_SUFFIXES) and name.partition(".")[0] not in stems
            )
            if files or sums or gone:
                try:
                    self.checksums.write(files, noted=sums, forget=gone, durable=durable)
                except OSError:
                    with self._sealed_lock:
                        self._sealed = sums | self._sealed
                    raise
            self._epochs_written = version
