"""Somebody who reads one partition from an offset on, and waits at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headrace.client.admin.wire_admin import raise_for
from headrace.gateway.brokers.decoding import decoded
from headrace.gateway.brokers.tails import Shown, Tail
from headrace.model.identity import TopicPartition

if TYPE_CHECKING:
    from headrace.client.brokers.cluster import Isolation
    from headrace.gateway.brokers.cluster import Cluster

BYTES_MIN: Final = 64 * 1024


class Reader:
    """`offset` is the next one to read.  Close it, or a tail is watched for nobody."""

    def __init__(self, cluster: Cluster, place: TopicPartition, offset: int, isolation: Isolation = "read_uncommitted") -> None:
        self._cluster = cluster
        self.place = place
        self.offset = offset
        self._isolation: Isolation = isolation
        self._tail: Tail | None = None
        self._ready: list[Shown] = []  # fetched, and more than was asked for

    def close(self) -> None:
        if self._tail is not None:
            self._cluster.tails.leave(self._tail)
            self._tail = None

    async def read(self, *, records_max: int, bytes_max: int) -> list[Shown]:
        """The next records that are there, at least one if there is any.  Raises the SDK's errors."""
        if self._tail is not None and self._tail.failure is not None:
            raise self._tail.failure
        found = await self._next(bytes_max)
        return self._limited(found, records_max, bytes_max) if found else []

    def watch(self, waiting: asyncio.Future[None]) -> bool:
        """Have `waiting` end when there may be more; whether there is already."""
        if self._tail is None:
            self._tail = self._cluster.tails.watch(self.place, self._isolation, self.offset)
        if self._tail.failure is not None or self._tail.position > self.offset:
            return True
        self._tail.waiting.add(waiting)
        return False

    def unwatch(self, waiting: asyncio.Future[None]) -> None:
        if self._tail is not None:
            self._tail.waiting.discard(waiting)

    async def _next(self, bytes_max: int) -> list[Shown]:
        if self._ready:
            return self._ready
        tail = self._tail or self._cluster.tails.get(self.place, self._isolation)
        if tail is not None and tail.covers(self.offset):
            # What is kept ends at the tail's position: whoever is beyond waits, and does not ask a second time.
            found = list(tail.since(self.offset))
            if not found and (tail is self._tail or tail.position > self.offset):
                self.offset = max(self.offset, tail.position)
                return []
            if found:
                return found
        data = await self._cluster.fetch(self.place, self.offset, self._isolation, max(bytes_max, BYTES_MIN))
        raise_for(data.error_code, f"offset {self.offset} of partition {self.place.partition} of topic '{self.place.topic}'")
        fetched = decoded(data, self.offset, committed_only=self._isolation == "read_committed")
        if not fetched.records:
            self.offset = fetched.next_offset
        return [Shown(self.place, record) for record in fetched.records]

    def _limited(self, found: list[Shown], records_max: int, bytes_max: int) -> list[Shown]:
        """As many as are asked for; the next read begins with the others."""
        taken, size = 0, 0
        for shown in found[:records_max]:
            size += len(shown.record.value or b"") + len(shown.record.key or b"")
            if taken and size > bytes_max:
                break
            taken += 1
        given, self._ready = found[:taken], found[taken:]
        self.offset = given[-1].record.offset + 1
        return given


class Readers:
    """Some partitions of a topic, read as one; `positions` are the next offsets."""

    def __init__(self, cluster: Cluster, topic: str, positions: Mapping[int, int], isolation: Isolation) -> None:
        self._each = [Reader(cluster, TopicPartition(topic, index), offset, isolation) for index, offset in positions.items()]
        self._first = 0

    @property
    def positions(self) -> dict[int, int]:
        return {reader.place.partition: reader.offset for reader in self._each}

    def close(self) -> None:
        for reader in self._each:
            reader.close()

    async def read(self, *, records_max: int, bytes_max: int, wait_s: float) -> list[Shown]:
        """What is there, of each partition in its order; waits for the first record where there is none.  It may end early, with
        nothing, where what came is not shown, or when the gateway stops."""
        found = await self._there(records_max, bytes_max)
        if not found and wait_s > 0 and self._each and await self._wait(wait_s):
            found = await self._there(records_max, bytes_max)
        return found

    async def _there(self, records_max: int, bytes_max: int) -> list[Shown]:
        found: list[Shown] = []
        # Each time another one is first, so that none is read by nobody while others have much.
        self._first = (self._first + 1) % max(1, len(self._each))
        for reader in [*self._each[self._first :], *self._each[: self._first]]:
            if len(found) >= records_max or bytes_max <= 0:
                break
            some = await reader.read(records_max=records_max - len(found), bytes_max=bytes_max)
            bytes_max -= sum(len(each.record.value or b"") + len(each.record.key or b"") for each in some)
            found.extend(some)
        return found

    async def _wait(self, seconds: float) -> bool:
        """Whether somebody may have more."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            if any(reader.watch(waiting) for reader in self._each):
                return True
            async with asyncio.timeout(seconds):
                await waiting
            return True
        except TimeoutError:
            return False
        finally:
            for reader in self._each:
                reader.unwatch(waiting)
