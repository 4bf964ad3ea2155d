"""Objects as files in a folder: for tests, for NFS, for a disk of another kind.

A file is complete and durable before it gets its name.  Replacing one is done under a lock (`flock`, which NFS has, too), so that
of two writers one finds that something else is there."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from headrace.objects.store import Entry, ObjectMissing, StoreAway, Stored, WriteConflict

Result = TypeVar("Result")
LOCK_NAME = ".lock"
PART_SUFFIX = ".part"


class FolderStore:
    """A folder."""

    def __init__(self, folder: Path, timeout_s: float = 30.0) -> None:
        self._folder = folder
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"<folder {self._folder}>"

    async def get(self, key: str) -> Stored:
        return await self._in_thread(lambda: self._get(key))

    async def size(self, key: str) -> int:
        return await self._in_thread(lambda: self._path(key).stat().st_size)

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        return await self._in_thread(lambda: self._get_range(key, start, end))

    async def replace(self, key: str, data: bytes, version: str | None) -> str:
        return await self._in_thread(lambda: self._replace(key, data, version))

    async def upload(self, key: str, chunks: AsyncIterator[bytes], size: int, seconds: float) -> None:
        part = self._path(key).with_name(f".{uuid4().hex}{PART_SUFFIX}")
        try:
            async with asyncio.timeout(seconds):
                await self._in_thread(lambda: _make_durable_folder(part.parent))
                async for chunk in chunks:
                    await self._in_thread(lambda chunk=chunk: _append(part, chunk))  # type: ignore[misc]
                await self._in_thread(lambda: self._finish(part, self._path(key)))
        except TimeoutError as error:
            raise StoreAway(f"{key} was not written to {self._folder} within {seconds:.0f} s") from error
        finally:
            part.unlink(missing_ok=True)

    async def delete(self, key: str) -> None:
        await self._in_thread(lambda: self._path(key).unlink(missing_ok=True))

    async def listed(self, prefix: str) -> list[Entry]:
        return await self._in_thread(lambda: self._list(prefix))

    async def folders(self, prefix: str) -> list[str]:
        return await self._in_thread(lambda: self._folders(prefix))

    async def _in_thread(self, function: Callable[[], Result]) -> Result:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.get_running_loop().run_in_executor(None, function)
        except FileNotFoundError as error:
            raise ObjectMissing(f"there is no {error.filename}") from error
        except TimeoutError as error:
            raise StoreAway(f"{self._folder} does not answer") from error
        except OSError as error:
            raise StoreAway(str(error)) from error

    def _path(self, key: str) -> Path:
        return self._folder / key

    def _get(self, key: str) -> Stored:
        with self._path(key).open("rb") as file:
            data = file.read()
            return Stored(data, _version(data), os.fstat(file.fileno()).st_mtime_ns // 1_000_000)

    def _get_range(self, key: str, start: int, end: int) -> bytes:
        with self._path(key).open("rb") as file:
            return os.pread(file.fileno(), end - start, start)

    def _replace(self, key: str, data: bytes, version: str | None) -> str:
        path = self._path(key)
        _make_durable_folder(path.parent)
        with (path.parent / LOCK_NAME).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            there = _version(path.read_bytes()) if path.exists() else None
            if there != version:
                raise WriteConflict(f"{key} is not what it was")
            part = path.with_name(f".{uuid4().hex}{PART_SUFFIX}")
            _append(part, data)
            self._finish(part, path)
        return _version(data)

    def _finish(self, part: Path, path: Path) -> None:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        part.replace(path)
        _sync_folder(path.parent)

    def _list(self, prefix: str) -> list[Entry]:
        found = []
        for path in sorted(self._path(prefix).rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                status = path.stat()
                found.append(Entry(str(path.relative_to(self._folder)), status.st_size, status.st_mtime_ns // 1_000_000))
        return found

    def _folders(self, prefix: str) -> list[str]:
        folder = self._path(prefix)
        if not folder.is_dir():
            return []
        return sorted(f"{path.relative_to(self._folder)}/" for path in folder.iterdir() if path.is_dir())


def _version(data: bytes) -> str:
    return sha256(data).hexdigest()


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def _make_durable_folder(path: Path) -> None:
    """A folder is durable once the one it lies in is synced."""
    made = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in made:
        _sync_folder(each.parent)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
