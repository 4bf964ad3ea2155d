"""Objects in a cloud's store, or in what speaks as one, through `obstore`: s3://, gs://, az://.

Credentials, regions and endpoints are taken from where those clouds' own tools take them (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL,
GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME, the machine's role).  What fails in passing, 503 with Retry-After
among it, is tried again by the library for as long as a call has time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from datetime import timedelta
from typing import Any, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import from_url

from headrace.objects.store import Entry, ObjectMissing, StoreAway, Stored, WriteConflict

Result = TypeVar("Result")

# Parts of a large object: S3 takes ten thousand of at least 5 MiB.
PART_BYTES = 8 * 1024 * 1024
PARTS_AT_ONCE = 2
RETRIES_MAX = 4


class CloudStore:
    """A bucket, or a prefix of it."""

    def __init__(self, url: str, timeout_s: float = 30.0) -> None:
        self._url = url
        self._timeout_s = timeout_s
        seconds = timedelta(seconds=timeout_s)
        self._store: Any = from_url(
            url,
            client_options={"timeout": seconds, "connect_timeout": seconds, "allow_http": True},
            retry_config={"max_retries": RETRIES_MAX, "retry_timeout": seconds},
        )

    def __repr__(self) -> str:
        return f"<{self._url}>"

    async def get(self, key: str) -> Stored:
        answer = await self._call(key, obstore.get_async(self._store, key))
        data = bytes(await self._call(key, answer.bytes_async()))
        return Stored(data, _version(answer.meta), _milliseconds(answer.meta))

    async def size(self, key: str) -> int:
        meta = await self._call(key, obstore.head_async(self._store, key))
        return int(meta["size"])

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        return bytes(await self._call(key, obstore.get_range_async(self._store, key, start=start, end=end)))

    async def replace(self, key: str, data: bytes, version: str | None) -> str:
        mode: Any = "create" if version is None else _mode(version)
        answer = await self._call(key, obstore.put_async(self._store, key, data, mode=mode, use_multipart=False))
        return _version(answer)

    async def upload(self, key: str, chunks: AsyncIterator[bytes], size: int, seconds: float) -> None:
        put = obstore.put_async(
            self._store,
            key,
            chunks,
            use_multipart=size > PART_BYTES,
            chunk_size=PART_BYTES,
            max_concurrency=PARTS_AT_ONCE,
        )
        await self._call(key, put, seconds)

    async def delete(self, key: str) -> None:
        try:
            await self._call(key, obstore.delete_async(self._store, key))
        except ObjectMissing:
            return

    async def listed(self, prefix: str) -> list[Entry]:
        found: list[Entry] = []
        listing = obstore.list(self._store, prefix=prefix.rstrip("/"), chunk_size=1000).__aiter__()
        while True:
            try:
                chunk: Any = await self._call(prefix, listing.__anext__())
            except StopAsyncIteration:
                return found
            found += (Entry(each["path"], each["size"], _milliseconds(each)) for each in chunk)

    async def folders(self, prefix: str) -> list[str]:
        listed: Any = await self._call(prefix, obstore.list_with_delimiter_async(self._store, prefix.rstrip("/") or None))
        return sorted(f"{path.rstrip('/')}/" for path in listed["common_prefixes"])

    async def _call(self, key: str, call: Awaitable[Result], seconds: float | None = None) -> Result:
        try:
            async with asyncio.timeout(seconds or self._timeout_s):
                return await call
        except FileNotFoundError as error:
            raise ObjectMissing(f"there is no {key} in {self._url}") from error
        except (AlreadyExistsError, PreconditionError) as error:
            raise WriteConflict(f"{key} is not what it was") from error
        except TimeoutError as error:
            raise StoreAway(f"{self._url} does not answer") from error
        except (BaseError, OSError, ValueError) as error:
            raise StoreAway(f"{self._url}: {_first_line(error)}") from error


def _version(meta: Any) -> str:
    """The store's own names for a version, in one text."""
    return f"{meta['e_tag'] or ''} {meta['version'] or ''}"


def _mode(version: str) -> dict[str, str]:
    tag, _, number = version.partition(" ")
    named = {"e_tag": tag, "version": number}
    return {name: text for name, text in named.items() if text}


def _milliseconds(meta: Any) -> int:
    return int(meta["last_modified"].timestamp() * 1000)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]
