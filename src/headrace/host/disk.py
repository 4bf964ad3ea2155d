"""Files, handed in.  The real thing is thin; a simulated disk forgets what was not synced.

Every operation either does what it says or raises OSError.  Nothing here buffers: bytes written are in the page cache when
`append` returns and on the medium when `sync` returns.  A new, renamed or removed name is durable only after `sync_directory`.
"""

import errno
import fcntl
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

Buffer = bytes | bytearray | memoryview
IOV_MAX = 1024
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: OSError) -> bool:
    """Whether an operation failed because the disk, or what one may use of it, is full."""
    return error.errno in _FULL


class File(Protocol):
    """An open file: appended to at its end, read anywhere."""

    path: Path

    def size(self) -> int: ...
    def append(self, parts: Sequence[Buffer]) -> int:
        """Write all parts at the end; return the position at which the first was written.  Cuts a partial write off again."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def truncate(self, size: int) -> None: ...
    def sync(self) -> None:
        """Return when every byte is on the medium.  After a failure the file must not be trusted or synced again."""
        ...

    def descriptor(self) -> int | None:
        """For sendfile; None where there is no kernel file."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A tree of files."""

    def open(self, path: Path, *, create: bool = False) -> File: ...
    def read_bytes(self, path: Path) -> bytes: ...
    def write_atomically(self, path: Path, data: bytes) -> None:
        """Replace the whole content so that a crash leaves the old or the new, and return when the new is durable."""
        ...

    def exists(self, path: Path) -> bool: ...
    def size(self, path: Path) -> int: ...
    def modified_ms(self, path: Path) -> int: ...
    def list_names(self, directory: Path) -> list[str]:
        """Names in a directory, sorted; empty when it is not there."""
        ...

    def make_directory(self, path: Path) -> None:
        """With its parents; nothing happens when it is there."""
        ...

    def rename(self, source: Path, target: Path) -> None: ...
    def remove(self, path: Path) -> None:
        """Nothing happens when it is not there."""
        ...

    def remove_tree(self, path: Path) -> None: ...
    def sync_directory(self, path: Path) -> None: ...
    def free_bytes(self, path: Path) -> int: ...
    def total_bytes(self, path: Path) -> int:
        """The size of the file system that a path is on."""
        ...


class SystemFile:
    """A file of the operating system."""

    __slots__ = ("_end", "_fd", "path")

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._end = os.fstat(fd).st_size

    def size(self) -> int:
        return self._end

    def append(self, parts: Sequence[Buffer]) -> int:
        position = self._end
        expected = sum(map(len, parts))
        try:
            written = os.pwritev(self._fd, parts, position) if len(parts) <= IOV_MAX else 0
            if written != expected:
                # A short write is rare (a signal, a nearly full disk): all of it once more, piece by piece.
                self._write_all(position, memoryview(b"".join(parts)))
        except OSError:
            # A batch half written would be served as torn bytes: cut it off, and let the caller decide what to do with the file.
            os.ftruncate(self._fd, position)
            raise
        self._end = position + expected
        return position

    def _write_all(self, position: int, rest: memoryview) -> None:
        while rest:
            written = os.pwrite(self._fd, rest, position)
            rest = rest[written:]
            position += written

    def read_at(self, position: int, size: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data or position + len(data) >= self._end:
            return data
        parts = [data]
        got = len(data)
        while got < size and (data := os.pread(self._fd, size - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self._end = size

    def sync(self) -> None:
        if sys.platform == "darwin":
            # macOS's fsync leaves data in the drive's cache; this asks the drive to write it down.
            fcntl.fcntl(self._fd, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(self._fd)

    def descriptor(self) -> int | None:
        return self._fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class SystemDisk:
    """The operating system's files."""

    def open(self, path: Path, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return SystemFile(path, os.open(path, flags, 0o644))

    def read_bytes(self, path: Path) -> bytes:
        return path.read_bytes()

    def write_atomically(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(path.name + ".tmp")
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.append([data])
            file.sync()
        finally:
            file.close()
        os.replace(temporary, path)
        self.sync_directory(path.parent)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def list_names(self, directory: Path) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=False) if path.exists() else None

    def sync_directory(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free_bytes(self, path: Path) -> int:
        return shutil.disk_usage(path).free

    def total_bytes(self, path: Path) -> int:
        return shutil.disk_usage(path).total
