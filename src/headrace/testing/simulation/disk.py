"""A disk that loses its power: what was not synced may be gone, whole, in part, or out of order.

A `Medium` is what stays when a machine crashes; each life of the machine mounts it anew.  Kept apart from what a program sees
is what is surely on the medium: the bytes of a file as of its last sync, the names in a directory as of that directory's
last sync.  A power failure keeps the durable part and, of the rest, what chance leaves: a prefix of the writes with the last
one torn, or some of the pages that were written to and not others (which are as they were, or zeros), or nothing.
"""

import errno
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

from headrace.host.disk import Buffer
from headrace.testing.simulation.machine import PowerFailure

FREE_BYTES = 1 << 40
PAGE_BYTES = 4096
PAGES_OUT_OF_ORDER_ONE_IN = 3


@dataclass(slots=True, eq=False)
class Inode:
    """A file without a name: its bytes as programs see them, its bytes as they surely are, and the writes between the two."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    # (position, bytes), or (size, None) for a truncation.
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    modified_ms: int = 0

    def write(self, position: int, data: bytes) -> None:
        _apply(self.data, position, data)
        self.pending.append((position, data))

    def truncate(self, size: int) -> None:
        _apply(self.data, size, None)
        self.pending.append((size, None))

    def sync(self) -> None:
        for position, data in self.pending:
            _apply(self.durable, position, data)
        self.pending.clear()

    def lose_power(self, chance: random.Random) -> None:
        """Keep of the writes since the last sync what chance leaves."""
        before = bytes(self.durable)
        for position, data in _surviving(self.pending, chance):
            _apply(self.durable, position, data)
        if self.pending and chance.randrange(PAGES_OUT_OF_ORDER_ONE_IN) == 0:
            self._lose_pages(before, chance)
        self.pending.clear()
        self.data = bytearray(self.durable)

    def _lose_pages(self, before: bytes, chance: random.Random) -> None:
        """Pages go to the medium in any order: some of those that differ never got there."""
        size = len(self.durable)
        padded = before[:size].ljust(size, b"\0")
        for start in range(0, size, PAGE_BYTES):
            page = slice(start, min(start + PAGE_BYTES, size))
            if self.durable[page] != padded[page] and chance.randrange(2):
                self.durable[page] = padded[page]


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        if position < len(content):
            del content[position:]
        else:
            content.extend(bytes(position - len(content)))
        return
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _surviving(pending: list[tuple[int, bytes | None]], chance: random.Random) -> list[tuple[int, bytes | None]]:
    if not pending:
        return []
    match chance.randrange(3):
        case 0:
            return []
        case 1:
            return pending
        case _:
            kept = pending[: chance.randrange(len(pending)) + 1]
            position, data = kept[-1]
            if data:
                kept[-1] = (position, data[: chance.randrange(len(data))])
            return kept


Node = Union[Inode, "Directory"]
# Names and what they now stand for; None for a name that is gone.  A rename within a directory is one change.
NameChange = tuple[tuple[str, Node | None], ...]


@dataclass(slots=True, eq=False)
class Directory:
    """Names as programs see them, names as they surely are, and the changes between the two."""

    names: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)
    pending: list[NameChange] = field(default_factory=list)

    def change(self, *changes: tuple[str, Node | None]) -> None:
        _rename(self.names, changes)
        self.pending.append(changes)

    def sync(self) -> None:
        for changes in self.pending:
            _rename(self.durable, changes)
        self.pending.clear()

    def lose_power(self, chance: random.Random) -> None:
        """Names change in order, so a prefix of the changes survives; then the same for everything below."""
        for changes in self.pending[: chance.randrange(len(self.pending) + 1)]:
            _rename(self.durable, changes)
        self.pending.clear()
        self.names = dict(self.durable)
        for node in self.names.values():
            node.lose_power(chance)


def _rename(names: dict[str, Node], changes: NameChange) -> None:
    for name, node in changes:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class Medium:
    """What is left when everything else is gone."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.root = Directory()
        # Nothing more fits.
        self.is_full = False

    def find(self, path: Path) -> Node | None:
        node: Node | None = self.root
        for part in path.parts:
            if not isinstance(node, Directory):
                return None
            node = node.names.get(part)
        return node

    def directory(self, path: Path) -> Directory:
        node = self.find(path)
        if not isinstance(node, Directory):
            raise _not_found(path)
        return node

    def file(self, path: Path) -> Inode:
        node = self.find(path)
        if not isinstance(node, Inode):
            raise _not_found(path)
        return node

    def lose_power(self) -> None:
        self.root.lose_power(self.chance)


def _not_found(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _full(path: Path) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


class MountedFile:
    """An open file of one life of a machine."""

    __slots__ = ("_disk", "_inode", "path")

    def __init__(self, disk: "SimulatedDisk", path: Path, inode: Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode

    def size(self) -> int:
        return len(self._inode.data)

    def append(self, parts: Sequence[Buffer]) -> int:
        position = len(self._inode.data)
        self._write(position, b"".join(parts))
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        self._write(position, bytes(data))

    def _write(self, position: int, data: bytes) -> None:
        disk = self._disk
        disk.check_power()
        if disk.is_full and position + len(data) > len(self._inode.data):
            # What still fits is written, and stays.
            self._inode.write(position, data[: disk.medium.chance.randrange(len(data) + 1)])
            raise _full(self.path)
        torn = disk.power_fails_now()
        if torn:
            data = data[: disk.medium.chance.randrange(len(data) + 1)]
        self._inode.write(position, data)
        self._inode.modified_ms = disk.wall_ms()
        if torn:
            disk.lose_power()

    def read_at(self, position: int, size: int) -> bytes:
        self._disk.check_power()
        return bytes(self._inode.data[position : position + size])

    def truncate(self, size: int) -> None:
        self._disk.before_change()
        self._inode.truncate(size)

    def sync(self) -> None:
        disk = self._disk
        disk.before_change()
        if disk.failing_syncs:
            disk.failing_syncs -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self.path))
        self._inode.sync()

    def descriptor(self) -> int | None:
        return None

    def close(self) -> None:
        return


class SimulatedDisk:
    """A medium as one life of a machine sees it.  Satisfies host.Disk."""

    def __init__(self, medium: Medium, wall_ms: Callable[[], int], on_power_failure: Callable[[], None]) -> None:
        self.medium = medium
        self.wall_ms = wall_ms
        self._on_power_failure = on_power_failure
        self.is_off = False
        # Faults: so many syncs fail; the power fails at the so-manieth change from now.
        self.failing_syncs = 0
        self.changes_until_power_failure: int | None = None

    @property
    def is_full(self) -> bool:
        return self.medium.is_full

    # -- power

    def check_power(self) -> None:
        if self.is_off:
            raise PowerFailure

    def power_fails_now(self) -> bool:
        self.check_power()
        if self.changes_until_power_failure is None:
            return False
        self.changes_until_power_failure -= 1
        return self.changes_until_power_failure <= 0

    def before_change(self) -> None:
        if self.power_fails_now():
            self.lose_power()

    def lose_power(self) -> None:
        """In the middle of an operation: the machine, and all that runs on it, stops here."""
        self._on_power_failure()
        raise PowerFailure

    # -- files

    def open(self, path: Path, *, create: bool = False) -> MountedFile:
        self.check_power()
        directory = self.medium.directory(path.parent)
        inode = directory.names.get(path.name)
        if inode is None and create:
            if self.is_full:
                raise _full(path)
            self.before_change()
            inode = Inode(modified_ms=self.wall_ms())
            directory.change((path.name, inode))
        if not isinstance(inode, Inode):
            raise _not_found(path)
        return MountedFile(self, path, inode)

    def read_bytes(self, path: Path) -> bytes:
        self.check_power()
        return bytes(self.medium.file(path).data)

    def write_atomically(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(path.name + ".tmp")
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.append([data])
        file.sync()
        self.rename(temporary, path)
        self.sync_directory(path.parent)

    def exists(self, path: Path) -> bool:
        self.check_power()
        return self.medium.find(path) is not None

    def size(self, path: Path) -> int:
        self.check_power()
        return len(self.medium.file(path).data)

    def modified_ms(self, path: Path) -> int:
        self.check_power()
        return self.medium.file(path).modified_ms

    # -- names

    def list_names(self, directory: Path) -> list[str]:
        self.check_power()
        node = self.medium.find(directory)
        return sorted(node.names) if isinstance(node, Directory) else []

    def make_directory(self, path: Path) -> None:
        self.check_power()
        directory = self.medium.root
        for part in path.parts:
            node = directory.names.get(part)
            if node is None:
                if self.is_full:
                    raise _full(path)
                self.before_change()
                node = Directory()
                directory.change((part, node))
            if not isinstance(node, Directory):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            directory = node

    def rename(self, source: Path, target: Path) -> None:
        self.before_change()
        here, there = self.medium.directory(source.parent), self.medium.directory(target.parent)
        node = here.names.get(source.name)
        if node is None:
            raise _not_found(source)
        if here is there:
            here.change((source.name, None), (target.name, node))
        else:
            there.change((target.name, node))
            here.change((source.name, None))

    def remove(self, path: Path) -> None:
        self.before_change()
        directory = self.medium.directory(path.parent)
        if path.name in directory.names:
            directory.change((path.name, None))

    def remove_tree(self, path: Path) -> None:
        node = self.medium.find(path)
        for name in sorted(node.names) if isinstance(node, Directory) else ():
            self.remove_tree(path / name)
        if node is not None:
            self.remove(path)

    def sync_directory(self, path: Path) -> None:
        self.before_change()
        self.medium.directory(path).sync()

    def free_bytes(self, path: Path) -> int:
        return 0 if self.is_full else FREE_BYTES
