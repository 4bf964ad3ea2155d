"""A medium that loses its power: what was not synced may be gone, whole, in part, or out of order.

A `Medium` is what stays when a machine crashes; each life of the machine mounts it anew (`disk.py`).  Kept apart from what a
program sees is what is surely on the medium: the bytes of a file as of its last sync, the names in a directory as of that
directory's last sync.  A power failure keeps the durable part and, of the rest, what chance leaves: a prefix of the writes with
the last one torn, or some of the pages that were written to and not others (which are as they were, or zeros), or nothing.
"""

import errno
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

PAGE_BYTES = 4096
PAGES_OUT_OF_ORDER_ONE_IN = 3


@dataclass(slots=True)
class Lost:
    """What became of what was not synced when the power failed: so many files, names and writes."""

    forgotten: int = 0  # files that have less, or something older, than programs saw
    torn: int = 0  # writes of which a part stayed
    disordered: int = 0  # files that have a later page and lack an earlier one
    nameless: int = 0  # directories that forgot a change of names

    def __str__(self) -> str:
        counts = {
            "files forget what was not synced": self.forgotten,
            "writes are torn": self.torn,
            "files lack pages in between": self.disordered,
            "directories forget names": self.nameless,
        }
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "nothing is forgotten"


@dataclass(slots=True, eq=False)
class Inode:
    """A file without a name: its bytes as programs see them, its bytes as they surely are, and the writes between the two."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    # (position, bytes), or (size, None) for a truncation.
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    modified_ms: int = 0
    # The power failed in the middle of the last write.
    is_torn: bool = False

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

    def lose_power(self, chance: random.Random, lost: Lost) -> None:
        """Keep of the writes since the last sync what chance leaves."""
        before = bytes(self.durable)
        kept = _surviving(self.pending, chance)
        for position, data in kept:
            _apply(self.durable, position, data)
        if kept and kept[-1][1]:
            lost.torn += self.is_torn if kept == self.pending else kept[-1] != self.pending[len(kept) - 1]
        if self.pending and chance.randrange(PAGES_OUT_OF_ORDER_ONE_IN) == 0:
            lost.disordered += self._lose_pages(before, chance)
        lost.forgotten += self.data != self.durable
        self.pending.clear()
        self.is_torn = False
        self.data = bytearray(self.durable)

    def _lose_pages(self, before: bytes, chance: random.Random) -> bool:
        """Pages go to the medium in any order: some of those that differ never got there.  True when a later one did."""
        size = len(self.durable)
        padded = before[:size].ljust(size, b"\0")
        is_missing = is_disordered = False
        for start in range(0, size, PAGE_BYTES):
            page = slice(start, min(start + PAGE_BYTES, size))
            if self.durable[page] == padded[page]:
                continue
            if chance.randrange(2):
                self.durable[page] = padded[page]
                is_missing = True
            else:
                is_disordered |= is_missing
        return is_disordered


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

    def lose_power(self, chance: random.Random, lost: Lost) -> None:
        """Names change in order, so a prefix of the changes survives; then the same for everything below."""
        surviving = chance.randrange(len(self.pending) + 1)
        lost.nameless += surviving < len(self.pending)
        for changes in self.pending[:surviving]:
            _rename(self.durable, changes)
        self.pending.clear()
        self.names = dict(self.durable)
        for node in self.names.values():
            node.lose_power(chance, lost)


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
            raise not_found(path)
        return node

    def file(self, path: Path) -> Inode:
        node = self.find(path)
        if not isinstance(node, Inode):
            raise not_found(path)
        return node

    def lose_power(self) -> Lost:
        lost = Lost()
        self.root.lose_power(self.chance, lost)
        return lost


def not_found(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
