"""A medium as one life of a machine sees it: files and names, a disk that may be full, and power that may fail in a write."""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.host.disk import Buffer
from simulation.world.machine import PowerFailure
from simulation.world.medium import Directory, Inode, Medium, not_found

FREE_BYTES = 1 << 40


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

    def _write(self, position: int, data: bytes) -> None:
        disk = self._disk
        disk.check_power()
        if disk.is_full and position + len(data) > len(self._inode.data):
            # What still fits is written, and stays.
            self._inode.write(position, data[: disk.medium.chance.randrange(len(data) + 1)])
            raise _full(self.path)
        torn = disk.power_fails_now()
        if torn:
            kept = disk.medium.chance.randrange(len(data) + 1)
            self._inode.is_torn = 0 < kept < len(data)
            data = data[:kept]
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
            raise not_found(path)
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
            raise not_found(source)
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

    def total_bytes(self, path: Path) -> int:
        return FREE_BYTES


def _full(path: Path) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
