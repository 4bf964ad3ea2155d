"""What only the embedded store promises: durability, and leases that are as long as the process."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from headrace.controller.entries import Put
from headrace.metadata.sqlite import SqliteStore
from headrace.metadata.store import RevisionCompacted, StoreUnavailable
from headrace.model.errors import StorageError


def test_what_was_written_is_there_after_opening_again_with_its_revisions(tmp_path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path / "m.db")
        await store.transact([], [Put("a", b"1")])
        await store.transact([], [Put("a", b"2")])
        before = await store.get("a")
        await store.close()
        store = await SqliteStore.open(tmp_path / "m.db")

        assert await store.get("a") == before
        assert (await store.list("")).revision == 2
        await store.close()

    asyncio.run(story())


def test_leases_end_with_the_process_and_that_is_a_revision_of_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path / "m.db")
        lease = await store.grant_lease(5)
        written = await store.transact([], [Put("brokers/1", b"", lease)])
        await store.close()
        store = await SqliteStore.open(tmp_path / "m.db")

        assert await store.get("brokers/1") is None
        assert (await store.list("")).revision == written.revision + 1
        await store.close()

    asyncio.run(story())


def test_a_watch_from_before_the_file_was_opened_is_told_to_list(tmp_path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path / "m.db")
        await store.transact([], [Put("a", b"1")])
        await store.close()
        store = await SqliteStore.open(tmp_path / "m.db")

        with pytest.raises(RevisionCompacted):
            await anext(store.watch("", 1))
        await store.close()

    asyncio.run(story())


def test_a_caller_that_goes_away_leaves_file_and_memory_in_step(tmp_path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path / "m.db")
        writing = asyncio.ensure_future(store.transact([], [Put("a", b"1")]))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await store.transact([], [Put("b", b"2")])
        seen = await store.list("")
        await store.close()
        store = await SqliteStore.open(tmp_path / "m.db")

        assert (await store.list("")) == seen
        await store.close()

    asyncio.run(story())


def test_a_write_that_failed_makes_every_later_call_fail_with_the_path(tmp_path: Path) -> None:
    path = tmp_path / "m.db"

    async def story() -> None:
        store = await SqliteStore.open(path)
        await store.transact([], [Put("a", b"1")])
        with sqlite3.connect(path) as other:
            other.execute("drop table entries")

        with pytest.raises(StorageError, match=r"m\.db"):
            await store.transact([], [Put("b", b"1")])
        with pytest.raises(StorageError, match=r"m\.db"):
            await store.get("a")
        await store.close()

    asyncio.run(story())


def test_a_file_that_is_not_a_database_is_refused_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    path.write_bytes(b"not a database at all, but long enough to have a header" * 20)

    with pytest.raises(StorageError, match=r"opening the metadata failed on .*m\.db"):
        asyncio.run(SqliteStore.open(path))


def test_a_full_disk_refuses_a_transaction_and_the_next_one_goes_through_when_there_is_room(tmp_path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path / "m.db")
        await store.transact([], [Put("a", b"1")])
        (pages,) = store._connection.execute("pragma page_count").fetchone()
        store._connection.execute(f"pragma max_page_count={pages}")
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await store.transact([], [Put("b", bytes(100_000)), Put("a", b"2")])
        held = await store.get("a")
        store._connection.execute("pragma max_page_count=100000")

        assert held is not None
        assert held.value == b"1"
        assert (await store.transact([], [Put("a", b"3")])).succeeded
        await store.close()
        store = await SqliteStore.open(tmp_path / "m.db")
        assert [item.key for item in (await store.list("")).items] == ["a"]
        await store.close()

    asyncio.run(story())


def test_nobody_else_reads_the_keys_that_are_in_it_nor_what_an_older_version_left(tmp_path: Path) -> None:
    async def story() -> dict[str, int]:
        store = await SqliteStore.open(tmp_path / "m.db")
        await store.transact([], [Put("scram/ann", b"keys")])
        found = modes(tmp_path)
        await store.close()
        return found

    (tmp_path / "m.db").touch(0o644)

    assert asyncio.run(story()) == {"m.db": 0o600, "m.db-wal": 0o600, "m.db-shm": 0o600}


def modes(folder: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}
