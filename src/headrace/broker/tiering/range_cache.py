"""What was read from the store, in ranges of 1 MiB, as files of a folder of their own: bounded, the longest unused goes first.

Nothing in it is needed: it begins empty with each start, and what cannot be written is read again.  Many may want one range at
once; one fetches it."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from headrace.host.disk import Disk
from headrace.objects.store import ObjectStore

logger = logging.getLogger(__name__)

RANGE_BYTES = 1024 * 1024

Range = tuple[str, int]  # an object, and which of its ranges
Run = Callable[[Coroutine[Any, Any, bytes]], "asyncio.Task[bytes]"]


class RangeCache:
    """Ranges of objects."""

    def __init__(
        self,
        store: ObjectStore,
        folder: Path,
        disk: Disk,
        loop: asyncio.AbstractEventLoop,
        bytes_max: Callable[[], int],
        run: Run,
    ) -> None:
        self._store = store
        self._folder = folder
        self._disk = disk
        self._loop = loop
        self._bytes_max = bytes_max
        self._run = run
        self._sizes: dict[Range, int] = {}  # the longest unused first
        self._fetching: dict[Range, asyncio.Task[bytes]] = {}
        self._is_begun = False
        self._beginning = threading.Lock()
        self.size_bytes = 0
        self.hits = self.misses = self.bytes_fetched = 0

    def __contains__(self, wanted: Range) -> bool:
        return wanted in self._sizes or wanted in self._fetching

    async def read(self, key: str, start: int, end: int) -> bytes:
        """These bytes of an object; fewer only where it ends.  Raises StoreError."""
        first, last = start // RANGE_BYTES, (end - 1) // RANGE_BYTES
        parts = await asyncio.gather(*(self._get((key, index)) for index in range(first, last + 1)))
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        return data[start - first * RANGE_BYTES : end - first * RANGE_BYTES]

    def read_ahead(self, key: str, start: int, end: int) -> None:
        """Have these bytes fetched, and do not wait."""
        for index in range(start // RANGE_BYTES, (end - 1) // RANGE_BYTES + 1):
            if (key, index) not in self:
                self._fetch((key, index))

    def forget(self, key: str) -> None:
        """Nobody reads an object any more, or what was read of it is broken."""
        for wanted in [each for each in self._sizes if each[0] == key]:
            self._drop(wanted)

    async def _get(self, wanted: Range) -> bytes:
        if wanted in self._sizes:
            self._sizes[wanted] = self._sizes.pop(wanted)
            try:
                data = await self._loop.run_in_executor(None, self._disk.read_bytes, self._path(wanted))
                if len(data) == self._sizes.get(wanted):
                    self.hits += 1
                    return data
            except OSError:
                pass
            self._drop(wanted)
        self.misses += 1
        # Shielded: others may want the same.
        return await asyncio.shield(self._fetch(wanted))

    def _fetch(self, wanted: Range) -> "asyncio.Task[bytes]":
        task = self._fetching.get(wanted)
        if task is None:
            task = self._fetching[wanted] = self._run(self._fetch_and_keep(wanted))
            task.add_done_callback(lambda task: self._fetched(wanted, task))
        return task

    def _fetched(self, wanted: Range, task: "asyncio.Task[bytes]") -> None:
        self._fetching.pop(wanted, None)
        if not task.cancelled():
            task.exception()  # whoever waits has it; a read ahead has nobody

    async def _fetch_and_keep(self, wanted: Range) -> bytes:
        key, index = wanted
        data = await self._store.get_range(key, index * RANGE_BYTES, (index + 1) * RANGE_BYTES)
        self.bytes_fetched += len(data)
        try:
            await self._loop.run_in_executor(None, self._write, wanted, data)
        except OSError as error:
            logger.warning("what was read from the object store cannot be kept in %s: %s", self._folder, error)
        else:
            self._sizes[wanted] = len(data)
            self.size_bytes += len(data)
            self._make_room()
        return data

    def _write(self, wanted: Range, data: bytes) -> None:
        """In a thread."""
        with self._beginning:
            if not self._is_begun:
                self._disk.remove_tree(self._folder)
                self._disk.make_directory(self._folder)
                self._is_begun = True
        file = self._disk.open(self._path(wanted), create=True)
        try:
            file.truncate(0)
            file.append([data])
        finally:
            file.close()

    def _make_room(self) -> None:
        while self.size_bytes > self._bytes_max() and len(self._sizes) > 1:
            self._drop(next(iter(self._sizes)))

    def _drop(self, wanted: Range) -> None:
        size = self._sizes.pop(wanted, None)
        if size is not None:
            self.size_bytes -= size
            self._loop.run_in_executor(None, self._disk.remove, self._path(wanted))

    def _path(self, wanted: Range) -> Path:
        key, index = wanted
        return self._folder / f"{key.replace('/', '_')}.{index}"
