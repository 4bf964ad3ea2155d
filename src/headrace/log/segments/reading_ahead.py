"""What a read will want of a log's files, brought into memory by another thread; and searches, which another thread does.

The thread does what the log's owner is about to do, with files of its own that it cannot change.  What it reads it forgets: the
owner then does it again and finds every page in memory.  What a search finds is believed if the log was not changed meanwhile.
Whatever goes wrong is for the owner to find.
"""

import errno
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

from headrace.host.disk import Buffer, Disk, File
from headrace.log.indexes.time_index import TimeEntry
from headrace.log.indexes.time_search import first_at_or_after, latest
from headrace.log.results import FoundOffset
from headrace.log.segments.files import FilePool, Handle
from headrace.log.segments.segment import Segment
from headrace.log.segments.segments import Segments
from headrace.log.state import LogState

logger = logging.getLogger(__name__)

# What is read and forgotten is held in pieces of this size: many may read at once.
PIECE_BYTES: Final = 1024 * 1024
OPEN_FILES_MAX: Final = 16


class ReadAhead(ABC):
    """One read or search, to be done by a thread first."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = list(segments)

    def run(self, disk: Disk) -> bool:
        """In any thread.  Whether it got through."""
        try:
            with closing(_Copies(disk, self._segments)) as copies:
                self._try(copies)
        except Exception as error:
            logger.debug("could not read ahead in %s: %s", self._segments[0].directory, error)
            return False
        return True

    @abstractmethod
    def _try(self, copies: "_Copies") -> None: ...


class AheadOfRead(ReadAhead):
    """A read of so many bytes from an offset on; at its position, where that is known."""

    def __init__(self, segment: Segment, offset: int, position: int | None, size: int) -> None:
        super().__init__([segment])
        self._offset = offset
        self._position = position
        self._size = size

    def _try(self, copies: "_Copies") -> None:
        (segment,) = copies
        position = segment.locate(self._offset) if self._position is None else self._position
        for start in range(position, position + self._size, PIECE_BYTES):
            if not segment.log.file().read_at(start, min(PIECE_BYTES, position + self._size - start)):
                break


class SegmentSearch(ReadAhead):
    """A search for a time; without one, for the greatest.  A `TimeSearch`."""

    def __init__(self, segments: Segments, state: LogState, timestamp: int | None, up_to: int) -> None:
        # Appends go on in the last one.  The others change only when the log is cut or cleaned.
        super().__init__([*segments[:-1], segments[-1].copy(segments.files)])
        self.found: FoundOffset | None = None
        self._of_log = segments
        self._originals = {segment: segment.cuts for segment in segments}
        self._learnt: list[tuple[Segment, Segment]] = []
        self._state = state
        self._start_offset = state.local_start
        self._timestamp = timestamp
        self._up_to = up_to

    def _try(self, copies: "_Copies") -> None:
        if self._timestamp is None:
            self.found = latest(copies, self._start_offset, self._up_to)
        else:
            self.found = first_at_or_after(copies, self._start_offset, self._timestamp, self._up_to)
        self._learnt = list(zip(self._segments, copies.made, strict=False))

    def accept(self) -> bool:
        """What left the log at its front does not matter, unless it was found; all else must be as it was."""
        now, first = set(self._of_log), self._of_log.bases[0]
        if not all(
            segment.base_offset < first or (segment in now and segment.cuts == cuts) for segment, cuts in self._originals.items()
        ):
            return False
        self._keep_timestamps()
        return self.found is None or self.found.offset >= self._state.local_start

    def _keep_timestamps(self) -> None:
        """So that the next search need not open the files of every segment again."""
        for segment, copy in self._learnt:
            if segment.max_timestamp is None and not copy.holes:
                segment.max_timestamp, segment.max_timestamp_offset = copy.max_timestamp, copy.max_timestamp_offset


class _Copies:
    """Segments as they are found, with files of their own.  What they learn, only they know."""

    def __init__(self, disk: Disk, segments: Sequence[Segment]) -> None:
        self._files = _OwnFiles(disk, OPEN_FILES_MAX)
        self._segments = segments
        self.made: list[Segment] = []

    def __iter__(self) -> Iterator[Segment]:
        for index, segment in enumerate(self._segments):
            if index == len(self.made):
                self.made.append(segment.copy(self._files))
            yield self.made[index]

    def locate(self, segment: Segment, offset: int) -> int:
        return segment.locate(offset)

    def position_before(self, segment: Segment, timestamp: int) -> int:
        return segment.position_before(timestamp)

    def largest_timestamp(self, segment: Segment) -> int:
        return segment.largest_timestamp()

    def latest_before(self, segment: Segment, offset: int) -> TimeEntry:
        return segment.latest_before(offset)

    def close(self) -> None:
        for segment in self.made:
            segment.close()


class _OwnFiles(FilePool):
    """Opens what is there, and only to read it."""

    def open(self, handle: Handle) -> File:
        with self.lock:
            if len(self.opened) >= self.open_files_max:
                self._evict(1)
            handle._file = file = _ReadOnlyFile(self.disk.open(handle.path))
            self.opened.append(handle)
            return file


class _ReadOnlyFile:
    """Implements `host.File`."""

    def __init__(self, file: File) -> None:
        self.path = file.path
        self.size = file.size
        self.read_at = file.read_at
        self.descriptor = file.descriptor
        self.close = file.close

    def append(self, parts: Sequence[Buffer]) -> int:
        raise self._refusal()

    def truncate(self, size: int) -> None:
        raise self._refusal()

    def sync(self) -> None:
        raise self._refusal()

    def _refusal(self) -> OSError:
        return OSError(errno.EROFS, os.strerror(errno.EROFS), str(self.path))
