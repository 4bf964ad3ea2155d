"""What waits for its time, in SQLite: in memory a page cache of a megabyte, however much there is.

The database is a file of its own that has no name any more once it is open, so that nothing is left of it when the broker ends,
in whatever way.  It is made anew from the log: nothing in it has to be durable, and nothing is ever committed.
"""

import os
import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.coordination.delay.entries import Staged, Target
from headrace.coordination.delay.index import Waiting

CACHE_KIBIBYTES = 1024
# What was added is written in rows at once; they are looked at in the database only.
ADDED_MAX = 1000
# SQLite takes so many values in one statement, and more.
OFFSETS_AT_ONCE = 500

_TABLES = """
CREATE TABLE waiting (
    offset INTEGER PRIMARY KEY, target INTEGER NOT NULL, due INTEGER NOT NULL, uid INTEGER NOT NULL, key_hash INTEGER,
    payload BLOB NOT NULL
);
CREATE INDEX by_time ON waiting (target, due, offset);
CREATE INDEX by_uid ON waiting (uid);
CREATE INDEX by_key ON waiting (target, key_hash) WHERE key_hash IS NOT NULL;
"""
_COLUMNS = "offset, due, uid, length(payload)"

Row = tuple[int, int, int, int, int | None, bytes]


def open_database(directory: Path | None) -> sqlite3.Connection:
    """An empty database, in a directory or, without one, in memory."""
    if directory is None:
        return _prepared(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
    handle, name = tempfile.mkstemp(prefix=".delayed-", suffix=".sqlite", dir=directory)
    os.close(handle)
    try:
        return _prepared(sqlite3.connect(name, isolation_level=None, check_same_thread=False))
    finally:
        Path(name).unlink()


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    for pragma in (
        "journal_mode=OFF",
        "synchronous=OFF",
        "locking_mode=EXCLUSIVE",
        "temp_store=MEMORY",
        f"cache_size=-{CACHE_KIBIBYTES}",
    ):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("BEGIN EXCLUSIVE")
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    return connection


class SqliteIndex:
    """Satisfies the decisions' DueIndex."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._added: list[Row] = []
        self._numbers: dict[Target, int] = {}
        self._targets: list[Target] = []

    def add(self, staged: Staged, offset: int) -> None:
        target = self._number(staged.target)
        self._added.append((offset, target, staged.due_ms, staged.uid, staged.key_hash, staged.payload))
        if len(self._added) >= ADDED_MAX:
            self._write()

    def remove(self, uid: int) -> tuple[Target, int] | None:
        found = self._execute("SELECT target, offset FROM waiting WHERE uid = ?", (uid,)).fetchone()
        if found is None:
            return None
        number, offset = found
        self._connection.execute("DELETE FROM waiting WHERE offset = ?", (offset,))
        return self._targets[number], offset

    def first_due(self, target: Target) -> int | None:
        due: int | None
        (due,) = self._execute("SELECT min(due) FROM waiting WHERE target = ?", (self._number(target),)).fetchone()
        return due

    def first(self, target: Target, until_ms: int, limit: int) -> list[Waiting]:
        query = f"SELECT {_COLUMNS} FROM waiting WHERE target = ? AND due <= ? ORDER BY due, offset LIMIT ?"
        return [Waiting._make(row) for row in self._execute(query, (self._number(target), until_ms, limit))]

    def with_key(self, target: Target, key_hash: int) -> list[Waiting]:
        query = f"SELECT {_COLUMNS} FROM waiting WHERE target = ? AND key_hash = ? ORDER BY offset"
        return [Waiting._make(row) for row in self._execute(query, (self._number(target), key_hash))]

    def at(self, offsets: Sequence[int]) -> list[Waiting]:
        found: dict[int, Waiting] = {row[0]: Waiting._make(row) for row in self._at(_COLUMNS, offsets)}
        return [found[offset] for offset in offsets if offset in found]

    def payloads(self, offsets: Sequence[int]) -> list[bytes]:
        found: dict[int, bytes] = dict(self._at("offset, payload", offsets))
        return [found[offset] for offset in offsets]

    def _at(self, columns: str, offsets: Sequence[int]) -> list[Any]:
        rows: list[Any] = []
        for start in range(0, len(offsets), OFFSETS_AT_ONCE):
            some = offsets[start : start + OFFSETS_AT_ONCE]
            query = f"SELECT {columns} FROM waiting WHERE offset IN ({','.join('?' * len(some))})"
            rows += self._execute(query, tuple(some))
        return rows

    def _execute(self, query: str, values: tuple[int, ...]) -> sqlite3.Cursor:
        if self._added:
            self._write()
        return self._connection.execute(query, values)

    def _write(self) -> None:
        added, self._added = self._added, []
        self._connection.executemany("INSERT INTO waiting VALUES (?, ?, ?, ?, ?, ?)", added)

    def _number(self, target: Target) -> int:
        number = self._numbers.get(target)
        if number is None:
            number = self._numbers[target] = len(self._targets)
            self._targets.append(target)
        return number
