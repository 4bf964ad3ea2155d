"""What every object store must do; a folder and a cloud's store pass the same."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headrace.model.settings import SettingError
from headrace.objects.folder import FolderStore
from headrace.objects.opening import check_url, open_object_store
from headrace.objects.store import ObjectMissing, ObjectStore, StoreAway, WriteConflict


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def contract(store: ObjectStore) -> None:
    with pytest.raises(ObjectMissing):
        await store.get("a/missing.json")
    with pytest.raises(ObjectMissing):
        await store.size("a/missing.json")
    first = await store.replace("a/b/manifest.json", b"one", None)
    with pytest.raises(WriteConflict):
        await store.replace("a/b/manifest.json", b"two", None)
    second = await store.replace("a/b/manifest.json", b"two", first)
    with pytest.raises(WriteConflict):
        await store.replace("a/b/manifest.json", b"three", first)
    stored = await store.get("a/b/manifest.json")
    assert (stored.data, stored.version) == (b"two", second)
    await store.upload("a/b/0.log", chunks(b"x" * 1000, b"y" * 1000), 2000, 10)
    assert await store.size("a/b/0.log") == 2000
    assert await store.get_range("a/b/0.log", 999, 1001) == b"xy"
    assert await store.get_range("a/b/0.log", 1999, 5000) == b"y"
    assert [each.key for each in await store.listed("a/b/")] == ["a/b/0.log", "a/b/manifest.json"]
    assert await store.listed("a/nothing/") == []
    assert await store.folders("a/") == ["a/b/"]
    await store.delete("a/b/0.log")
    await store.delete("a/b/0.log")
    assert [each.key for each in await store.listed("a/b/")] == ["a/b/manifest.json"]


def play(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


def test_a_folder_is_an_object_store(tmp_path: Path) -> None:
    play(contract(FolderStore(tmp_path)))


def test_what_obstore_opens_is_an_object_store() -> None:
    cloud = pytest.importorskip("headrace.objects.cloud", reason="obstore is not installed")

    play(contract(cloud.CloudStore("memory:///")))


def test_a_large_object_goes_up_in_parts_and_one_that_is_stuck_is_given_up() -> None:
    cloud = pytest.importorskip("headrace.objects.cloud", reason="obstore is not installed")

    async def pieces(count: int) -> AsyncIterator[bytes]:
        for number in range(count):
            yield bytes([number]) * 2**20
        if count < 10:
            await asyncio.Event().wait()

    async def story() -> None:
        store = cloud.CloudStore("memory:///")
        await store.upload("x/0.log", pieces(10), 10 * 2**20, 20)
        assert await store.get_range("x/0.log", 5 * 2**20 - 1, 5 * 2**20 + 1) == b"\x04\x05"
        with pytest.raises(StoreAway):
            await store.upload("x/1.log", pieces(1), 10 * 2**20, 0.2)
        assert [each.key for each in await store.listed("x/")] == ["x/0.log"]

    play(story())


def test_of_many_who_replace_the_same_version_one_wins(tmp_path: Path) -> None:
    async def race() -> None:
        store = FolderStore(tmp_path)
        version = await store.replace("m", b"0", None)
        writes = [store.replace("m", b"%d" % number, version) for number in range(1, 9)]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        won = [number for number, outcome in enumerate(outcomes, 1) if not isinstance(outcome, BaseException)]
        assert [type(outcome) for outcome in outcomes].count(WriteConflict) == 7
        assert (await store.get("m")).data == b"%d" % won[0]

    play(race())


def test_an_upload_that_is_cut_short_leaves_no_object(tmp_path: Path) -> None:
    async def stuck() -> AsyncIterator[bytes]:
        yield b"half"
        await asyncio.Event().wait()

    async def cut_short() -> None:
        store = FolderStore(tmp_path)
        with pytest.raises(StoreAway, match="within"):
            await store.upload("a/0.log", stuck(), 8, 0.05)
        assert await store.listed("a/") == []
        assert [path.name for path in (tmp_path / "a").iterdir()] == []

    play(cut_short())


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://host/folder", "not the address"),
        ("file://folder", "names no folder"),
        ("s3:///prefix", "names no bucket"),
        ("s3://key:secret@bucket/prefix", "credentials"),
        ("bucket", "not the address"),
    ],
)
def test_what_cannot_be_a_store_is_refused_with_a_reason(url: str, why: str) -> None:
    with pytest.raises(SettingError, match=why):
        check_url(url)


def test_a_folder_needs_nothing_of_a_cloud(tmp_path: Path) -> None:
    opened: Callable[[str], ObjectStore] = open_object_store

    assert isinstance(opened(f"file://{tmp_path}"), FolderStore)
