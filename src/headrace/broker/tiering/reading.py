"""Reading what is in the store: by ranges, ahead of who reads, beside the event loop.

A fetch cannot wait for the store on the loop.  So it asks for records to be brought, and takes them when they are there: whole
batches from one offset on, with the aborted transactions among them.  What was brought is kept for a while, for those who come
for the same, up to so many bytes in all."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from crc32c import crc32c

from headrace.broker.tiering.range_cache import RANGE_BYTES, RangeCache
from headrace.model.errors import ErrorCode
from headrace.objects.store import ObjectStore, StoreError
from headrace.tier.batches import (
    Aborted,
    BatchBroken,
    Cut,
    FoundTime,
    aborted_of,
    cut_batches,
    first_at_or_after,
    offset_before,
    position_of,
)
from headrace.tier.companions import ABORTED, OFFSETS, TIMES, decode_companions
from headrace.tier.manifest import Manifest, RemoteSegment

logger = logging.getLogger(__name__)

READ_AHEAD_BYTES: Final = 4 * 1024 * 1024
# One read brings so much at most, whatever a client is willing to take.
READ_BYTES_MAX: Final = 8 * 1024 * 1024
# So much is on its way at a time, whoever wants it: until it is there, nobody else counts it.
ON_THE_WAY_BYTES_MAX: Final = 32 * 1024 * 1024
# Between two entries of the index there is little; what is looked at before the batch that is looked for.
LOOK_BYTES: Final = 64 * 1024
RESTS_BYTES_MAX: Final = 64 * 1024 * 1024
BROUGHT_BYTES_MAX: Final = 64 * 1024 * 1024
BROUGHT_MAX: Final = 1000


class Brought(NamedTuple):
    """Whole batches, ready for the wire."""

    data: bytes
    first_offset: int
    next_offset: int
    aborted: tuple[Aborted, ...]
    # Whether an aborted transaction may also be known only to later parts of the log.
    aborted_are_all: bool


class RemoteBroken(StoreError):
    """What the store has is not what was uploaded."""


class BroughtReads:
    """What was brought and not taken yet, or may be wanted again, of all partitions: the oldest goes first."""

    def __init__(self, bytes_max: int = BROUGHT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._reads: dict[tuple[object, int], tuple[Brought | ErrorCode, int]] = {}
        self._bytes = 0

    def get(self, key: tuple[object, int]) -> Brought | ErrorCode | None:
        found = self._reads.get(key)
        return None if found is None else found[0]

    def keep(self, key: tuple[object, int], brought: Brought | ErrorCode, size: int) -> None:
        self.forget(key)
        self._reads[key] = brought, size
        self._bytes += size
        while len(self._reads) > 1 and (self._bytes > self._bytes_max or len(self._reads) > BROUGHT_MAX):
            self.forget(next(iter(self._reads)))

    def forget(self, key: tuple[object, int]) -> None:
        _, size = self._reads.pop(key, (None, 0))
        self._bytes -= size


class Room:
    """For so many bytes at a time; who comes first gets it first."""

    def __init__(self, bytes_max: int) -> None:
        self._left = asyncio.Semaphore(bytes_max // RANGE_BYTES)
        self._line = asyncio.Lock()

    @asynccontextmanager
    async def of(self, size: int) -> AsyncIterator[None]:
        taken, wanted = 0, 1 + size // RANGE_BYTES
        try:
            # One at a time, or two could wait for what the other has of it.
            async with self._line:
                while taken < wanted:
                    await self._left.acquire()
                    taken += 1
            yield
        finally:
            for _ in range(taken):
                self._left.release()


class RemoteReader:
    """Reads segments in the store."""

    def __init__(self, store: ObjectStore, cache: RangeCache, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._cache = cache
        self._loop = loop
        self.brought = BroughtReads()
        self._room = Room(ON_THE_WAY_BYTES_MAX)
        self._rests: dict[str, dict[str, bytes]] = {}  # the longest unused first
        self._rests_bytes = 0

    async def bring(self, manifest: Manifest, offset: int, size: int) -> Brought | None:
        """The batches from an offset on; None where the store has none.  Raises StoreError."""
        segment = manifest.holding(offset)
        if segment is None:
            return None
        size = min(max(size, 1), READ_BYTES_MAX)
        async with self._room.of(size):
            return await self._bring(manifest, segment, offset, size)

    async def _bring(self, manifest: Manifest, segment: RemoteSegment, offset: int, size: int) -> Brought:
        data, cut = await self._batches(segment, offset, size)
        if cut.first_offset < 0:
            raise RemoteBroken(f"{segment.data} ends before offset {offset}")
        aborted, are_all = await self._aborted(manifest, offset, cut.next_offset)
        return Brought(data, cut.first_offset, cut.next_offset, aborted, are_all)

    async def _batches(self, segment: RemoteSegment, offset: int, size: int) -> tuple[bytes, Cut]:
        rest = await self.companions_of(segment)
        start = position_of(rest.get(OFFSETS, b""), segment.base_offset, offset)
        want = size + LOOK_BYTES
        is_second_try = False
        while True:
            end = min(segment.size, start + want)
            piece = await self._cache.read(segment.data, start, end)
            try:
                cut = await self._loop.run_in_executor(None, cut_batches, piece, offset, segment.end_offset, size)
                if len(piece) < end - start:
                    raise BatchBroken(f"{segment.data} has fewer bytes than {segment.size}")
            except BatchBroken as error:
                self._cache.forget(segment.data)
                if is_second_try:
                    raise RemoteBroken(f"{segment.data}: {error}") from error
                is_second_try = True
                continue
            if cut.first_offset >= 0 or end == segment.size:
                self._read_ahead(segment, start + cut.end)
                return piece[cut.start : cut.end], cut
            # The index is sparse, or the batch is large.
            want = max(2 * want, cut.wanted)

    def _read_ahead(self, segment: RemoteSegment, position: int) -> None:
        end = min(segment.size, position + READ_AHEAD_BYTES)
        if position < end:
            self._cache.read_ahead(segment.data, position, end)

    async def companions_of(self, segment: RemoteSegment) -> dict[str, bytes]:
        """What a segment has besides its batches."""
        if segment.rest in self._rests:
            found = self._rests[segment.rest] = self._rests.pop(segment.rest)
            return found
        stored = await self._store.get(segment.rest)
        if crc32c(stored.data) != segment.rest_checksum:
            raise RemoteBroken(f"{segment.rest} does not match its checksum")
        try:
            found = decode_companions(stored.data)
        except (ValueError, KeyError) as error:
            raise RemoteBroken(f"{segment.rest}: {error}") from error
        if segment.rest not in self._rests:  # others may have read it meanwhile
            self._rests[segment.rest] = found
            self._rests_bytes += _size(found)
        while self._rests_bytes > RESTS_BYTES_MAX and len(self._rests) > 1:
            self._rests_bytes -= _size(self._rests.pop(next(iter(self._rests))))
        return found

    async def _aborted(self, manifest: Manifest, start: int, end: int) -> tuple[tuple[Aborted, ...], bool]:
        """Those with records in [start, end), as far as the store knows."""
        found: list[Aborted] = []
        for segment in manifest.segments:
            if segment.end_offset <= start or not segment.aborted:
                continue
            for entry in aborted_of((await self.companions_of(segment)).get(ABORTED, b"")):
                if entry.last_offset < start:
                    continue
                if entry.first_offset < end:
                    found.append(entry)
                if entry.last_stable_offset >= end:
                    return tuple(found), True
        return tuple(found), False

    async def find_time(self, manifest: Manifest, timestamp: int, start: int, end: int) -> FoundTime | None:
        """The first record at or after a time, of those in [start, end)."""
        for segment in manifest.segments:
            if segment.start_offset >= end:
                break
            if segment.end_offset > start and segment.max_timestamp >= timestamp:
                bounds = max(start, segment.start_offset), min(end, segment.end_offset)
                found = await self._find_time_in(segment, timestamp, *bounds)
                if found is not None:
                    return found
        return None

    async def _find_time_in(self, segment: RemoteSegment, timestamp: int, start: int, end: int) -> FoundTime | None:
        rest = await self.companions_of(segment)
        offset = max(start, offset_before(rest.get(TIMES, b""), segment.base_offset, timestamp))
        while offset < end:
            data, cut = await self._batches(segment, offset, READ_BYTES_MAX)
            if cut.first_offset < 0:
                return None
            found = await self._loop.run_in_executor(None, first_at_or_after, data, timestamp, start, end)
            if found is not None:
                return found
            offset = cut.next_offset
        return None


def _size(rest: dict[str, bytes]) -> int:
    return sum(map(len, rest.values()))
