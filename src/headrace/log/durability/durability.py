"""What of a log is on the medium, and what still has to get there.

The loop's thread notes what it wrote; another thread syncs.  Always: `flushed_offset` is an end that the log had before a sync
began whose every file was then synced, and never above a truncation.  `_lock` is held for a few assignments only, because the
loop's thread takes it; `_noting` is held while `durable-offset` is written, and the loop's thread never takes that.
"""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from headrace.host.disk import Disk
from headrace.log.durability.durable_offset import write_durable_offset
from headrace.log.segments.files import Handle

NO_LIMIT: Final = 2**63 - 1


class SyncFailed(OSError):
    """A sync failed: nobody knows what the medium holds, whatever the reason was."""


class Durability:
    """The files of one log that are ahead of the medium."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.flushed_offset = 0
        # Where the last operation was, for the error that names it.
        self.path = directory
        self._directory = directory
        self._disk = disk
        self._lock = threading.Lock()
        self._noting = threading.Lock()
        self._logs: dict[Handle, None] = {}
        self._indexes: dict[Handle, None] = {}
        self._small_files: list[Path] = []
        self._companions: list[Path] = []
        # The log's own directory is new: it is durable only when the one it lies in is.
        self.is_new = False
        # Names come and go: a new file is durable only when its directory is.
        self._directory_is_dirty = True
        self._ceiling = NO_LIMIT
        # Nothing beyond is promised or noted, as long as somebody has a reason: the log is about to be cut there, for one.
        self.limit = NO_LIMIT
        self._limits: dict[object, int] = {}
        # What `durable-offset` says, and up to where it should say it once that is synced.
        self._noted_offset = 0
        self._sealed_offset = 0

    def __repr__(self) -> str:
        return f"<durable to {self.flushed_offset}, {len(self._logs)} files to sync>"

    def log_file_written(self, handle: Handle) -> None:
        """A log file grew.  Called after the write and before the log's end moves."""
        # One that is still noted will be synced after this write, so the lock is not needed to leave it there.
        if handle not in self._logs:
            with self._lock:
                self._logs[handle] = None

    def sealed(self, indexes: Iterable[Handle], end_offset: int) -> None:
        """A segment ended before an offset: its indexes are worth syncing now, and the next sync notes the offset."""
        with self._lock:
            self._indexes.update(dict.fromkeys(indexes))
            self._sealed_offset = max(self._sealed_offset, end_offset)

    def small_file_written(self, path: Path) -> None:
        """A snapshot or the like was written: nothing depends on it, but without it the next start has more to do."""
        with self._lock:
            self._small_files.append(path)

    def companion_written(self, path: Path) -> None:
        """A file was written without which the log would be somebody else's: the next sync takes it along."""
        with self._lock:
            self._companions.append(path)
            self._directory_is_dirty = True

    @property
    def has_companions(self) -> bool:
        return bool(self._companions)

    def found(self, noted_offset: int, flushed_offset: int) -> None:
        """What a start found."""
        self._noted_offset = self._sealed_offset = noted_offset
        self.flushed_offset = flushed_offset

    def names_changed(self) -> None:
        with self._lock:
            self._directory_is_dirty = True

    def forget(self, handles: Iterable[Handle]) -> None:
        """Files that left the log."""
        with self._lock:
            for handle in handles:
                self._logs.pop(handle, None)
                self._indexes.pop(handle, None)
            self._directory_is_dirty = True

    def limit_to(self, reason: object, offset: int) -> None:
        """From now on nothing beyond an offset is promised, until this reason is lifted."""
        self._limits[reason] = offset
        self.limit = min(self._limits.values())

    def lift_limit(self, reason: object) -> None:
        self._limits.pop(reason, None)
        self.limit = min(self._limits.values(), default=NO_LIMIT)

    def lower(self, offset: int) -> None:
        """The log was cut, and its end moved: a sync that is under way must not promise what is gone."""
        with self._lock:
            self._ceiling = min(self._ceiling, offset)
            self.flushed_offset = min(self.flushed_offset, offset)
            self._sealed_offset = min(self._sealed_offset, offset)
            assert self._noted_offset <= offset, "a log is cut only after `durable-offset` says no more than what stays"

    def lower_note(self, offset: int) -> None:
        """In any thread, before the log is cut: `durable-offset` no longer speaks of what will be gone.  OSError on failure."""
        with self._noting:
            if self._noted_offset > offset:
                self.path = self._directory
                write_durable_offset(self._disk, self._directory, offset)
                self._noted_offset = offset

    def sync(self, end_of_log: Callable[[], int]) -> int:
        """Sync everything noted; then everything below where the log ended when that began is durable.

        SyncFailed when a sync failed.  Any other OSError: `durable-offset` could not be written, and nothing more is promised.
        """
        with self._lock:
            # Read here, because whoever cuts the log moves its end first and then comes to `lower` it: one of the two is seen.
            end_offset = end_of_log()
            handles, self._logs = self._logs, {}
            companions, self._companions = self._companions, []
            directory_is_dirty, self._directory_is_dirty = self._directory_is_dirty, False
            sealed_offset = self._sealed_offset
            self._ceiling = NO_LIMIT
        try:
            self._sync_all(handles, companions, directory_is_dirty)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, error.filename) from error
        with self._lock:
            for handle in handles:
                if handle not in self._logs:
                    handle.held = False
        if sealed_offset <= end_offset:
            self._note(sealed_offset)
        with self._lock:
            self.flushed_offset = max(self.flushed_offset, min(end_offset, self._ceiling, self.limit))
            return self.flushed_offset

    def _sync_all(self, handles: Iterable[Handle], companions: Iterable[Path], directory_is_dirty: bool) -> None:
        for handle in handles:
            self.path = handle.path
            handle.sync()
        self._sync_files(companions)
        if directory_is_dirty:
            self.path = self._directory
            self._disk.sync_directory(self._directory)
        if self.is_new:
            self._disk.sync_directory(self._directory.parent)
            self.is_new = False

    def _note(self, offset: int) -> None:
        """Let `durable-offset` say how far whole segments are durable, unless that is about to be cut."""
        with self._noting:
            if self._noted_offset < offset <= min(self._ceiling, self.limit):
                self.path = self._directory
                write_durable_offset(self._disk, self._directory, offset)
                self._noted_offset = offset

    def sync_indexes(self) -> None:
        """Sync what spares the next start a scan."""
        with self._lock:
            handles, self._indexes = self._indexes, {}
            small_files, self._small_files = self._small_files, []
        self._sync_files(small_files)
        for handle in handles:
            if self._disk.exists(handle.path):
                handle.sync()

    def _sync_files(self, paths: Iterable[Path]) -> None:
        for self.path in paths:
            if self._disk.exists(self.path):
                file = self._disk.open(self.path)
                try:
                    file.sync()
                finally:
                    file.close()
