"""Where objects are kept, handed in: a bucket of a cloud, or a folder.  `opening.py` makes one from a URL.

Every call has a deadline of its own and raises: `ObjectMissing`, `WriteConflict`, or `StoreAway` for all that may be different
the next time.  What was written is there for everybody once the call returns; of one that raised StoreAway nobody knows."""

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol


class StoreError(Exception):
    """The object store did not do what it was asked for."""


class ObjectMissing(StoreError):
    """There is no such object."""


class WriteConflict(StoreError):
    """The object is not what it was believed to be."""


class StoreAway(StoreError):
    """The store does not answer, or says that it cannot now."""


class Stored(NamedTuple):
    """An object, and what tells this version of it from every other."""

    data: bytes
    version: str
    modified_ms: int  # by the store's clock


class Entry(NamedTuple):
    """An object in a list."""

    key: str
    size: int
    modified_ms: int


class ObjectStore(Protocol):
    """Objects by their keys."""

    async def get(self, key: str) -> Stored: ...
    async def size(self, key: str) -> int:
        """How many bytes an object has."""
        ...

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        """Fewer bytes only where the object ends."""
        ...

    async def replace(self, key: str, data: bytes, version: str | None) -> str:
        """Write where this version is, or where nothing is (None); the new version.  WriteConflict where something else is."""
        ...

    async def upload(self, key: str, chunks: AsyncIterator[bytes], size: int, seconds: float) -> None:
        """Write a large object whole, or not at all, within so long."""
        ...

    async def delete(self, key: str) -> None:
        """Nothing happens when it is not there."""
        ...

    async def listed(self, prefix: str) -> list[Entry]:
        """Every object whose key begins so; the prefix ends with a slash."""
        ...

    async def folders(self, prefix: str) -> list[str]:
        """The folders in a folder, each with its whole path and a slash."""
        ...
