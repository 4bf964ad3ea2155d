"""A disk in memory that behaves as badly as a real one may.

It forgets what was not synced: file contents since the file's last `sync`, names since the directory's last `sync_directory`.
A crash keeps a beginning of the unsynced operations, chosen by the seeded random generator, and tears the first one that it does
not keep.
It fails on demand: any operation, on any path, with any error number.  A failed sync loses the bytes for good although they can
still be read, as with a page that the kernel marked clean.
"""

import errno
import os
import random
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Concatenate, Literal, ParamSpec, Protocol, TypeVar

from headrace.host.disk import Buffer, Disk, File

Action = Literal["open", "write", "sync", "read", "truncate", "rename", "remove", "make_directory", "sync_directory"]
# What a crash leaves of the write it tears: a beginning of it, or some of its pages (the others read as zeros).
Tearing = Literal["prefix", "pages"]

PAGE_BYTES = 4096


class SimulatedCrash(BaseException):
    """The machine stopped in the middle of an operation.  Nothing of ours may catch it."""


@dataclass(slots=True)
class _Inode:
    """A file's content now, what is on the medium, and what lies between."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    # Writes (position, data) and truncations (size, None) since the last sync.
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)
    modified_ms: int = 0


@dataclass(slots=True)
class Fault:
    """Makes operations fail."""

    action: Action
    matches: Callable[[Path], bool]
    error: int
    # How many matching operations succeed first, and how many then fail (None: all).
    after: int
    times: int | None
    hits: int = 0

    def strikes(self) -> bool:
        if self.after > 0:
            self.after -= 1
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        self.hits += 1
        return True


class _Locked(Protocol):
    @property
    def lock(self) -> AbstractContextManager[bool]: ...


Locked = TypeVar("Locked", bound=_Locked)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _one_at_a_time(
    method: Callable[Concatenate[Locked, Arguments], Result],
) -> Callable[Concatenate[Locked, Arguments], Result]:
    """Brokers use their disk from many threads, and a disk takes one thing after the other."""

    @wraps(method)
    def locked(owner: Locked, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        with owner.lock:
            return method(owner, *arguments, **named)

    return locked


class SimulatedDisk:
    """Implements `host.Disk`."""

    def __init__(
        self,
        randomness: random.Random,
        *,
        capacity_bytes: int | None = None,
        now_ms: Callable[[], int] = lambda: 0,
        tearing: Tearing = "prefix",
    ) -> None:
        self.lock = threading.RLock()
        self.capacity_bytes = capacity_bytes
        self.tearing: Tearing = tearing
        self.operations = 0
        self._random = randomness
        self._now_ms = now_ms
        self._names: dict[Path, _Inode | None] = {Path("/"): None}  # None: a directory
        self._durable_names: dict[Path, _Inode | None] = dict(self._names)
        # Name changes since they were last made durable, oldest first: the directory, and how to repeat the change.
        self._unsynced_names: list[tuple[Path, Callable[[dict[Path, _Inode | None]], None]]] = []
        self._faults: list[Fault] = []
        self._crash_at: int | None = None
        # Files opened before a crash are gone with the process that had them.
        self._generation = 0

    # -- for tests

    @_one_at_a_time
    def fail(
        self,
        action: Action,
        where: str | Callable[[Path], bool] = "",
        *,
        error: int = errno.EIO,
        after: int = 0,
        times: int | None = None,
    ) -> Fault:
        """Let operations fail: those on paths that end with a text, or that a function picks."""
        matches = where if callable(where) else lambda path: str(path).endswith(where)
        fault = Fault(action, matches, error, after, times)
        self._faults.append(fault)
        return fault

    @_one_at_a_time
    def heal(self) -> None:
        """No more failures, and room enough."""
        self._faults.clear()
        self.capacity_bytes = None

    @_one_at_a_time
    def crash_after(self, operations: int) -> None:
        """Raise SimulatedCrash in place of the operation after so many more that change something."""
        self._crash_at = self.operations + operations

    @_one_at_a_time
    def crash(self) -> None:
        """Stop the machine: only what is durable, and by chance some of the rest, is there afterwards."""
        self._generation += 1
        self._crash_at = None
        kept = self._random.randint(0, len(self._unsynced_names))
        for _, change in self._unsynced_names[:kept]:
            change(self._durable_names)
        self._unsynced_names.clear()
        self._names = {path: inode for path, inode in self._durable_names.items() if self._has_parent(path)}
        for inode in {id(inode): inode for inode in self._names.values() if inode is not None}.values():
            self._crash_file(inode)
        self._durable_names = dict(self._names)

    def _has_parent(self, path: Path) -> bool:
        return all(self._durable_names.get(parent, False) is None for parent in path.parents)

    def _crash_file(self, inode: _Inode) -> None:
        content = bytearray(inode.durable)
        kept = self._random.randint(0, len(inode.unsynced))
        for position, data in inode.unsynced[:kept]:
            _apply(content, position, data)
        if kept < len(inode.unsynced) and inode.unsynced[kept][1] is not None:
            self._tear(content, *inode.unsynced[kept])
        inode.content, inode.durable, inode.unsynced = content, bytes(content), []

    def _tear(self, content: bytearray, position: int, data: bytes | None) -> None:
        assert data is not None
        if self.tearing == "prefix":
            _apply(content, position, data[: self._random.randint(0, len(data))])
            return
        torn = bytearray(data)
        for start in range(0, len(torn), PAGE_BYTES):
            if self._random.random() < 0.5:
                torn[start : start + PAGE_BYTES] = bytes(len(torn[start : start + PAGE_BYTES]))
        _apply(content, position, bytes(torn))

    @_one_at_a_time
    def flip_bit(self, path: Path, position: int, bit: int = 0) -> None:
        """Let the medium change one bit of a file."""
        inode = self._file(path)
        inode.content[position] ^= 1 << bit
        inode.durable = bytes(inode.content)
        inode.unsynced.clear()

    @_one_at_a_time
    def cut(self, path: Path, size: int) -> None:
        """Let the medium lose the end of a file."""
        inode = self._file(path)
        del inode.content[size:]
        inode.durable = bytes(inode.content)
        inode.unsynced.clear()

    @_one_at_a_time
    def files(self) -> list[Path]:
        """Every file there is, sorted."""
        return sorted(path for path, inode in self._names.items() if inode is not None)

    # -- host.Disk

    @_one_at_a_time
    def open(self, path: Path, *, create: bool = False) -> "SimulatedFile":
        path = _absolute(path)
        self._touch("open", path)
        if path not in self._names:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self._require_directory(path.parent)
            self._change()
            inode = _Inode(modified_ms=self._now_ms())
            self._rename_log(path.parent, lambda names: names.__setitem__(path, inode))
        return SimulatedFile(self, path, self._file(path))

    @_one_at_a_time
    def read_bytes(self, path: Path) -> bytes:
        path = _absolute(path)
        inode = self._file(path)
        self._touch("read", path)
        return bytes(inode.content)

    def write_atomically(self, path: Path, data: bytes) -> None:
        path = _absolute(path)
        temporary = path.with_name(path.name + ".tmp")
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.append([data])
        file.sync()
        file.close()
        self.rename(temporary, path)
        self.sync_directory(path.parent)

    @_one_at_a_time
    def exists(self, path: Path) -> bool:
        return _absolute(path) in self._names

    @_one_at_a_time
    def size(self, path: Path) -> int:
        return len(self._file(_absolute(path)).content)

    @_one_at_a_time
    def modified_ms(self, path: Path) -> int:
        return self._file(_absolute(path)).modified_ms

    @_one_at_a_time
    def list_names(self, directory: Path) -> list[str]:
        directory = _absolute(directory)
        return sorted(path.name for path in self._names if path.parent == directory and path != directory)

    @_one_at_a_time
    def make_directory(self, path: Path) -> None:
        path = _absolute(path)
        for each in (*reversed(path.parents), path):
            if each not in self._names:
                self._touch("make_directory", each)
                self._change()
                self._rename_log(each.parent, lambda names, each=each: names.__setitem__(each, None))  # type: ignore[misc]

    @_one_at_a_time
    def rename(self, source: Path, target: Path) -> None:
        source, target = _absolute(source), _absolute(target)
        self._touch("rename", source)
        if source not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        self._require_directory(target.parent)
        self._change()
        self._rename_log(target.parent, lambda names: _move(names, source, target))

    @_one_at_a_time
    def remove(self, path: Path) -> None:
        path = _absolute(path)
        self._touch("remove", path)
        if path in self._names:
            self._change()
            self._rename_log(path.parent, lambda names: names.pop(path, None))

    @_one_at_a_time
    def remove_tree(self, path: Path) -> None:
        path = _absolute(path)
        inside = sorted((each for each in self._names if path in each.parents), key=lambda each: -len(each.parts))
        for each in (*inside, path):
            self.remove(each)

    @_one_at_a_time
    def sync_directory(self, path: Path) -> None:
        path = _absolute(path)
        self._touch("sync_directory", path)
        self._require_directory(path)
        self._change()
        # A journal keeps the order: what came before a change of this directory is durable with it.
        changed = [index for index, (directory, _) in enumerate(self._unsynced_names) if directory == path]
        count = changed[-1] + 1 if changed else 0
        for _, change in self._unsynced_names[:count]:
            change(self._durable_names)
        del self._unsynced_names[:count]

    @_one_at_a_time
    def free_bytes(self, path: Path) -> int:
        return 2**40 if self.capacity_bytes is None else max(0, self.capacity_bytes - self._used())

    def total_bytes(self, path: Path) -> int:
        return 2**40 if self.capacity_bytes is None else self.capacity_bytes

    # -- inside

    def _used(self) -> int:
        return sum(len(inode.content) for inode in self._names.values() if inode is not None)

    def _file(self, path: Path) -> _Inode:
        inode = self._names.get(_absolute(path))
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return inode

    def _require_directory(self, path: Path) -> None:
        if self._names.get(path, False) is not None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    def _rename_log(self, directory: Path, change: Callable[[dict[Path, _Inode | None]], object]) -> None:
        change(self._names)
        self._unsynced_names.append((directory, change))  # type: ignore[arg-type]

    def _touch(self, action: Action, path: Path) -> None:
        for fault in self._faults:
            if fault.action == action and fault.matches(path) and fault.strikes():
                raise OSError(fault.error, os.strerror(fault.error), str(path))

    def _change(self) -> None:
        if self._crash_at is not None and self.operations >= self._crash_at:
            raise SimulatedCrash
        self.operations += 1

    def _require_room(self, growth: int, path: Path) -> None:
        if self.capacity_bytes is not None and growth > 0 and self._used() + growth > self.capacity_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


class WatchedDisk:
    """Any disk, watched: whoever makes it wait on one particular thread is noted, and syncs take as long as one likes.

    `forbidden_thread` is an event loop's: nothing on it may wait for a medium, however fast that is today.  After `forget_pages`
    that goes for reads, too: of what nobody has written or read since on another thread.
    """

    def __init__(self, disk: Disk, *, sync_seconds: float = 0.0) -> None:
        self._disk = disk
        self.sync_seconds = sync_seconds
        self.forbidden_thread: int | None = None
        # What was done on that thread, with the lines that led to it.
        self.found: list[str] = []
        # The pages that are in memory; None while all are.
        self._pages: set[tuple[Path, int]] | None = None

    def forget_pages(self) -> None:
        """Nothing is in memory any more."""
        self._pages = set()

    def touch(self, path: Path, position: int, size: int) -> None:
        """These bytes are in memory now."""
        if self._pages is not None:
            self._pages.update(_pages(path, position, size))

    def reads(self, path: Path, position: int, size: int) -> None:
        if self._pages is not None and not self._pages.issuperset(_pages(path, position, size)):
            self.waits("read", path, 0.0)
        self.touch(path, position, size)

    def waits(self, what: str, path: Path, seconds: float | None = None) -> None:
        if threading.get_ident() == self.forbidden_thread:
            self.found.append(f"{what} {path}\n" + "".join(traceback.format_stack(limit=12)[:-2]))
            return  # the test has its finding, and need not wait for it as well
        time.sleep(self.sync_seconds if seconds is None else seconds)

    def open(self, path: Path, *, create: bool = False) -> "WatchedFile":
        return WatchedFile(self, self._disk.open(path, create=create))

    def write_atomically(self, path: Path, data: bytes) -> None:
        self.waits("write_atomically", path)
        self._disk.write_atomically(path, data)

    def sync_directory(self, path: Path) -> None:
        self.waits("sync_directory", path)
        self._disk.sync_directory(path)

    def remove_tree(self, path: Path) -> None:
        self.waits("remove_tree", path, 0.0)
        self._disk.remove_tree(path)

    def free_bytes(self, path: Path) -> int:
        self.waits("free_bytes", path, 0.0)
        return self._disk.free_bytes(path)

    def total_bytes(self, path: Path) -> int:
        return self._disk.total_bytes(path)

    def read_bytes(self, path: Path) -> bytes:
        self.reads(path, 0, self._disk.size(path))
        return self._disk.read_bytes(path)

    def exists(self, path: Path) -> bool:
        return self._disk.exists(path)

    def size(self, path: Path) -> int:
        return self._disk.size(path)

    def modified_ms(self, path: Path) -> int:
        return self._disk.modified_ms(path)

    def list_names(self, directory: Path) -> list[str]:
        return self._disk.list_names(directory)

    def make_directory(self, path: Path) -> None:
        self._disk.make_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        self._disk.rename(source, target)

    def remove(self, path: Path) -> None:
        self._disk.remove(path)


class WatchedFile:
    """A file of a watched disk."""

    def __init__(self, disk: WatchedDisk, file: File) -> None:
        self.path = file.path
        self._disk = disk
        self._file = file

    def size(self) -> int:
        return self._file.size()

    def append(self, parts: Sequence[Buffer]) -> int:
        position = self._file.append(parts)
        self._disk.touch(self.path, position, sum(map(len, parts)))
        return position

    def read_at(self, position: int, size: int) -> bytes:
        self._disk.reads(self.path, position, min(size, self._file.size() - position))
        return self._file.read_at(position, size)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def sync(self) -> None:
        self._disk.waits("sync", self.path)
        self._file.sync()

    def descriptor(self) -> int | None:
        return self._file.descriptor()

    def close(self) -> None:
        self._file.close()


class SimulatedFile:
    """Implements `host.File`."""

    def __init__(self, disk: SimulatedDisk, path: Path, inode: _Inode) -> None:
        self.lock = disk.lock
        self.path = path
        self._disk = disk
        self._inode = inode
        self._generation = disk._generation
        self._is_open = True

    def _require_open(self) -> None:
        assert self._is_open, f"{self.path} is closed"
        assert self._generation == self._disk._generation, f"{self.path} was opened before the crash"

    @_one_at_a_time
    def size(self) -> int:
        return len(self._inode.content)

    @_one_at_a_time
    def append(self, parts: Sequence[Buffer]) -> int:
        self._require_open()
        position = len(self._inode.content)
        self._write(position, b"".join(parts))
        return position

    def _write(self, position: int, data: bytes) -> None:
        self._disk._touch("write", self.path)
        self._disk._require_room(position + len(data) - len(self._inode.content), self.path)
        try:
            self._disk._change()
        except SimulatedCrash:
            # The write was under way: what a crash keeps of it is up to the tearing.
            self._inode.unsynced.append((position, data))
            raise
        _apply(self._inode.content, position, data)
        self._inode.unsynced.append((position, data))
        self._inode.modified_ms = self._disk._now_ms()

    @_one_at_a_time
    def read_at(self, position: int, size: int) -> bytes:
        self._require_open()
        self._disk._touch("read", self.path)
        return bytes(self._inode.content[position : position + size])

    @_one_at_a_time
    def truncate(self, size: int) -> None:
        self._require_open()
        self._disk._touch("truncate", self.path)
        if size == len(self._inode.content):
            return
        self._disk._change()
        _apply(self._inode.content, size, None)
        self._inode.unsynced.append((size, None))

    @_one_at_a_time
    def sync(self) -> None:
        self._require_open()
        try:
            self._disk._touch("sync", self.path)
        except OSError:
            self._lose_unsynced()
            raise
        self._disk._change()
        durable = bytearray(self._inode.durable)
        for position, data in self._inode.unsynced:
            _apply(durable, position, data)
        self._inode.durable = bytes(durable)
        self._inode.unsynced.clear()

    def _lose_unsynced(self) -> None:
        """The kernel gave up on these pages and calls them clean."""
        self._inode.unsynced.clear()

    def descriptor(self) -> int | None:
        return None

    def close(self) -> None:
        self._is_open = False


def _pages(path: Path, position: int, size: int) -> set[tuple[Path, int]]:
    return {(path, page) for page in range(position // PAGE_BYTES, -(-(position + size) // PAGE_BYTES))}


def _absolute(path: Path) -> Path:
    return path if path.is_absolute() else Path("/") / path


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        del content[position:]
        content.extend(bytes(position - len(content)))
        return
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _move(names: dict[Path, _Inode | None], source: Path, target: Path) -> None:
    if names.get(source) is not None:  # a file, with nothing below it
        names[target] = names.pop(source)
        return
    moved = [path for path in names if path == source or source in path.parents]
    for path in moved:
        names[target / path.relative_to(source) if path != source else target] = names.pop(path)


def every_bit(size: int, randomness: random.Random, samples: int) -> Iterator[tuple[int, int]]:
    """Positions and bits to flip in a file of a size: all of them when they are few, else a sample."""
    if size * 8 <= samples:
        yield from ((position, bit) for position in range(size) for bit in range(8))
        return
    for _ in range(samples):
        yield randomness.randrange(size), randomness.randrange(8)
