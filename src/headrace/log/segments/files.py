"""Files that are opened when they are used, and closed again when too many are open.

With ten thousand partitions nobody can hold every segment and index open.  A `Handle` names a file; `file()` opens it if need be.
Always: only the event loop's thread opens and closes through the pool; another thread may `sync` a handle, which keeps it open
(or uses a descriptor of its own) for as long as that takes.
"""

import errno
import threading
from collections import deque
from pathlib import Path
from typing import Final

from headrace.host.disk import Disk, File

OPEN_FILES_MAX: Final = 512
_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_EVICTED_AT_ONCE = 32


class Handle:
    """A file by name, open or not."""

    __slots__ = ("_closes_when_free", "_file", "_pins", "_pool", "held", "is_discarded", "path", "recent")

    def __init__(self, pool: "FilePool", path: Path) -> None:
        self.path = path
        # Set while the file has bytes that a sync must still write down through this very descriptor.
        self.held = False
        # Used since the pool last looked for one to close.
        self.recent = False
        self._pool = pool
        self._file: File | None = None
        self._pins = 0
        self._closes_when_free = False
        # The file has left the log: nobody is owed a sync of it.
        self.is_discarded = False

    def __repr__(self) -> str:
        return f"<{'open' if self._file is not None else 'closed'} file {self.path}>"

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def file(self) -> File:
        """The open file; it stays open until the next call to the pool."""
        self.recent = True
        return self._file or self._pool.open(self)

    def sync(self) -> None:
        """From any thread: make the file's bytes durable."""
        with self._pool.lock:
            file = self._file
            self._pins += 1
        try:
            if file is not None:
                file.sync()
                return
            self._sync_on_its_own()
        finally:
            with self._pool.lock:
                self._pins -= 1
                if self._closes_when_free and not self._pins and self._file is not None:
                    self._close()

    def _sync_on_its_own(self) -> None:
        try:
            own = self._pool.disk.open(self.path)
        except FileNotFoundError:
            if self.is_discarded:
                return
            raise
        try:
            own.sync()
        finally:
            own.close()

    def discard(self) -> None:
        """The file is about to be renamed out of the log."""
        self.is_discarded = True
        self.close()

    def move_to(self, pool: "FilePool") -> None:
        """From now on this handle belongs to another pool; it must not be in use."""
        self.close()
        self._pool = pool

    def close(self) -> None:
        """Let the descriptor go; one that is being synced in another thread goes when that is done."""
        self.held = False
        with self._pool.lock:
            if self._file is None:
                return
            if self._pins:
                self._closes_when_free = True
                return
            self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        self._closes_when_free = False
        assert file is not None
        self._pool.opened.remove(self)
        file.close()


class FilePool:
    """All handles of one data directory; at most so many of them open."""

    def __init__(self, disk: Disk, open_files_max: int = OPEN_FILES_MAX, *, giving_up: threading.Event | None = None) -> None:
        self.disk = disk
        self.open_files_max = open_files_max
        self.lock = threading.Lock()
        # Once set, whoever opens logs with these files, in other threads, stops with that.
        self.giving_up = giving_up or threading.Event()
        self.opened: deque[Handle] = deque()

    def handle(self, path: Path) -> Handle:
        return Handle(self, path)

    def open(self, handle: Handle) -> File:
        """Open a handle's file, closing another that was not used lately if there are too many."""
        with self.lock:
            if len(self.opened) >= self.open_files_max:
                self._evict(1)
            try:
                file = self.disk.open(handle.path, create=True)
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS or not self._evict(_EVICTED_AT_ONCE):
                    raise
                file = self.disk.open(handle.path, create=True)
            handle._file = file
            self.opened.append(handle)
            return file

    def _evict(self, wanted: int) -> int:
        """Second chance: a handle used since the last round is passed over once."""
        closed = 0
        for _ in range(2 * len(self.opened)):
            if closed == wanted or not self.opened:
                break
            handle = self.opened[0]
            self.opened.rotate(-1)
            if handle.recent:
                handle.recent = False
            elif not handle.held and not handle._pins:
                handle._close()
                closed += 1
        return closed
