"""The embedded default: one SQLite file in the data directory, durable before anything is answered.

The file holds the keys; the whole content is also in memory, where reads and watches are served.  A transaction is written with
`synchronous=FULL` first and applied in memory after.  A lease of a single node is its process: it ends when it is revoked or when
the file is opened again, and never because the machine was slow.
"""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from headrace.controller.entries import Condition, KeyValue, Operation
from headrace.metadata.ledger import Change, Ledger
from headrace.metadata.memory import LedgerWatches, check_leases
from headrace.metadata.store import LeaseLost, Listing, StoreUnavailable, TransactionResult, WatchBatch
from headrace.model.errors import NoRoom, StorageError

SCHEMA = """
create table if not exists entries (
    key text primary key, value blob not null,
    create_revision integer not null, mod_revision integer not null, lease integer not null
) without rowid;
create table if not exists progress (only_row integer primary key check (only_row = 1), revision integer not null);
insert or ignore into progress values (1, 0);
"""

# What SQLite says when the disk is full, depending on which of its files it was about.
CANNOT_GROW = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_WRITE})
FILE_MODE = 0o600
ROOM_TO_START_BYTES = 1024 * 1024
NO_ROOM_TO_START = (
    "the disk is full, and a broker needs 1 MiB to start: free some room on it and start again; opening the metadata"
)

Answer = TypeVar("Answer")


class SqliteStore:
    """Satisfies MetadataStore.  Make one with `await SqliteStore.open(path)`."""

    # However much is written at once, the event loop takes it in in parts of this size.
    operations_max = 1_000

    def __init__(self, path: Path, connection: sqlite3.Connection, ledger: Ledger) -> None:
        self._path = path
        self._connection = connection
        self._ledger = ledger
        self._watches = LedgerWatches(ledger)
        self._leases: set[int] = set()
        self._last_lease = 0
        self._writing = asyncio.Lock()  # one transaction at a time: conditions are checked against what the last one left
        self._failure: StorageError | None = None
        self._closed = False
        # Asked in a thread when the disk is full: whether there is room now.
        self.make_room: Callable[[], bool] = lambda: False

    @classmethod
    async def open(cls, path: Path) -> "SqliteStore":
        loop = asyncio.get_running_loop()
        try:
            connection, items, revision = await loop.run_in_executor(None, _open, path)
        except sqlite3.Error as error:
            if error.sqlite_errorcode in CANNOT_GROW and await loop.run_in_executor(None, _is_full, path.parent):
                raise NoRoom(path, NO_ROOM_TO_START) from error
            raise StorageError(path, "opening the metadata", error) from error
        return cls(path, connection, Ledger(items, revision))

    async def get(self, key: str) -> KeyValue | None:
        self._check_usable()
        return self._ledger.get(key)

    async def list(self, prefix: str) -> Listing:
        self._check_usable()
        return self._ledger.list(prefix)

    async def transact(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> TransactionResult:
        assert len(operations) <= self.operations_max, f"{len(operations)} operations in one transaction"
        # Shielded: a caller that goes away must not leave the file one step ahead of the memory.
        return await asyncio.shield(asyncio.ensure_future(self._transact(conditions, operations)))

    async def _transact(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> TransactionResult:
        async with self._writing:
            self._check_usable()
            if not all(self._ledger.holds(condition) for condition in conditions):
                return TransactionResult(False, self._ledger.revision)
            check_leases(operations, self._leases)
            await self._commit(self._ledger.plan(operations))
            return TransactionResult(True, self._ledger.revision)

    async def grant_lease(self, ttl_s: float) -> int:
        self._check_usable()
        self._last_lease += 1
        self._leases.add(self._last_lease)
        return self._last_lease

    async def keep_alive(self, lease: int) -> float:
        self._check_usable()
        if lease not in self._leases:
            raise LeaseLost(f"lease {lease} has ended")
        return float("inf")

    async def revoke(self, lease: int) -> None:
        await asyncio.shield(asyncio.ensure_future(self._revoke(lease)))

    async def _revoke(self, lease: int) -> None:
        async with self._writing:
            self._check_usable()
            self._leases.discard(lease)
            await self._commit(self._ledger.plan_end_of_lease(lease))

    def watch(self, prefix: str, start_revision: int) -> AsyncIterator[WatchBatch]:
        return self._watches.watch(prefix, start_revision)

    async def close(self) -> None:
        if self._closed:
            return
        async with self._writing:
            self._closed = True
            self._watches.close()
            await asyncio.get_running_loop().run_in_executor(None, self._connection.close)

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise StoreUnavailable("the store is closed")

    async def _commit(self, change: Change) -> None:
        if not change.events:
            return
        await self._in_executor(lambda: self._write(change))
        self._ledger.apply(change)
        self._watches.notify()

    def _write(self, change: Change) -> None:
        """In a thread."""
        try:
            _write(self._connection, change)
        except sqlite3.Error as error:
            if not self._is_untouched(error) or not self.make_room():
                raise
            _write(self._connection, change)

    def _is_untouched(self, error: sqlite3.Error) -> bool:
        """Whether the disk was full, and nothing of what was to be written is in the file."""
        return error.sqlite_errorcode == sqlite3.SQLITE_FULL and not self._connection.in_transaction

    async def _in_executor(self, function: Callable[[], Answer]) -> Answer:
        try:
            return await asyncio.get_running_loop().run_in_executor(None, function)
        except sqlite3.Error as error:
            if self._is_untouched(error):
                # Nothing of it is in the file, and it may be tried again when there is room.
                raise StoreUnavailable(f"the disk is full: writing the metadata failed on {self._path}") from error
            # Whether a failed commit reached the disk is unknown: only opening the file again can tell.
            self._failure = StorageError(self._path, "writing the metadata", error)
            raise self._failure from error


def _is_full(directory: Path) -> bool:
    return shutil.disk_usage(directory).free < ROOM_TO_START_BYTES


def _make_private(path: Path) -> None:
    """The keys of users are in it.  SQLite makes the files beside it with the same mode, but leaves those of a killed process."""
    with suppress(OSError):  # where it cannot be made, SQLite says why
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, FILE_MODE))
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.chmod(f"{path}{suffix}", FILE_MODE)


def _open(path: Path) -> tuple[sqlite3.Connection, list[KeyValue], int]:
    _make_private(path)
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=full")
    connection.executescript(SCHEMA)
    (revision,) = connection.execute("select revision from progress").fetchone()
    connection.execute("begin immediate")
    # The process that held these leases is gone.  Their end is a revision of its own, as anywhere else.
    if connection.execute("delete from entries where lease <> 0").rowcount:
        revision += 1
        connection.execute("update progress set revision = ?", (revision,))
    connection.execute("commit")
    rows = connection.execute("select key, value, create_revision, mod_revision, lease from entries")
    return connection, [KeyValue(*row) for row in rows], revision


def _write(connection: sqlite3.Connection, change: Change) -> None:
    put = [event.item for event in change.events if event.item is not None]
    removed = [(event.key,) for event in change.events if event.item is None]
    connection.execute("begin immediate")
    try:
        connection.executemany("delete from entries where key = ?", removed)
        connection.executemany(
            "insert or replace into entries values (?, ?, ?, ?, ?)",
            [(item.key, item.value, item.create_revision, item.mod_revision, item.lease) for item in put],
        )
        connection.execute("update progress set revision = ?", (change.revision,))
        connection.execute("commit")
    except sqlite3.Error:
        connection.rollback()
        raise
