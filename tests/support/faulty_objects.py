"""An object store in memory, in which any call can fail, before or after it took effect; it notes when a rule is broken.

The rules: what a manifest names is there, and stays there for as long as a manifest names it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from enum import Enum

from headrace.objects.store import Entry, ObjectMissing, StoreAway, Stored, WriteConflict
from headrace.tier.manifest import decode_manifest
from headrace.tier.naming import MANIFEST


class Fault(Enum):
    """What becomes of a call."""

    NONE = "it is done"
    BEFORE = "nothing is done"
    AFTER = "it is done, and nobody hears of it"


class MemoryObjects:
    """Objects by their keys."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.broken_rules: list[str] = []
        # Asked for each call, by what it does and to which object.
        self.fault: Callable[[str, str], Fault] = lambda call, key: Fault.NONE
        self.is_away = False
        self._versions = 0
        self._may_read = asyncio.Event()
        self._may_read.set()

    async def get(self, key: str) -> Stored:
        end = self._begin("get", key)
        data, version = self._find(key)
        end()
        return Stored(data, str(version), version)

    async def size(self, key: str) -> int:
        end = self._begin("size", key)
        size = len(self._find(key)[0])
        end()
        return size

    def hold(self) -> None:
        """Reads wait until they may go on."""
        self._may_read = asyncio.Event()

    def go_on(self) -> None:
        self._may_read.set()

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        await self._may_read.wait()
        done = self._begin("get_range", key)
        data = self._find(key)[0][start:end]
        done()
        return data

    async def replace(self, key: str, data: bytes, version: str | None) -> str:
        end = self._begin("replace", key)
        there = str(self.objects[key][1]) if key in self.objects else None
        if there != version:
            raise WriteConflict(key)
        self._put(key, data)
        end()
        return str(self._versions)

    async def upload(self, key: str, chunks: AsyncIterator[bytes], size: int, seconds: float) -> None:
        end = self._begin("upload", key)
        self._put(key, b"".join([chunk async for chunk in chunks]))
        end()

    async def delete(self, key: str) -> None:
        end = self._begin("delete", key)
        if key in self._named():
            self.broken_rules.append(f"{key} was deleted, and a manifest names it")
        self.objects.pop(key, None)
        end()

    async def listed(self, prefix: str) -> list[Entry]:
        self._begin("list", prefix)()
        return [Entry(key, len(data), at) for key, (data, at) in sorted(self.objects.items()) if key.startswith(prefix)]

    async def folders(self, prefix: str) -> list[str]:
        self._begin("folders", prefix)()
        below = {
            key[len(prefix) :].partition("/")[0] for key in self.objects if key.startswith(prefix) and "/" in key[len(prefix) :]
        }
        return sorted(f"{prefix}{name}/" for name in below)

    def _begin(self, call: str, key: str) -> Callable[[], None]:
        fault = Fault.BEFORE if self.is_away else self.fault(call, key)
        if fault is Fault.BEFORE:
            raise StoreAway(f"{call} {key}: nobody answers")

        def end() -> None:
            if fault is Fault.AFTER:
                raise StoreAway(f"{call} {key}: the answer is lost")

        return end

    def _find(self, key: str) -> tuple[bytes, int]:
        try:
            return self.objects[key]
        except KeyError:
            raise ObjectMissing(key) from None

    def _put(self, key: str, data: bytes) -> None:
        self._versions += 1
        self.objects[key] = data, self._versions
        if key.endswith(MANIFEST):
            for name in decode_manifest(data).objects - self.objects.keys():
                self.broken_rules.append(f"{key} names {name}, which is not there")

    def _named(self) -> set[str]:
        manifests = [decode_manifest(data) for key, (data, _) in self.objects.items() if key.endswith(MANIFEST)]
        return {name for manifest in manifests for name in manifest.objects}
