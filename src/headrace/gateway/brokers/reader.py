"""Somebody who reads one partition from an offset on, and waits at its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.client.admin.wire_admin import raise_for
from headrace.gateway.brokers.decoding import decoded
from headrace.gateway.brokers.tails import Shown, Tail
from headrace.model.identity import TopicPartition

if TYPE_CHECKING:
    from headrace.gateway.brokers.cluster import Cluster, Isolation

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

    async def read(self, *, records_max: int, bytes_max: int, wait_s: float = 0.0) -> list[Shown]:
        """The next records, at least one if there is any; none when none comes in time.  Raises the SDK's errors."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while True:
            found = await self._next(bytes_max)
            if found:
                return self._limited(found, records_max, bytes_max)
            left = deadline - loop.time()
            if left <= 0:
                return []
            if self._tail is None:
                self._tail = self._cluster.tails.watch(self.place, self._isolation, self.offset)
            if self._tail.failure is None and self._tail.position <= self.offset:
                await self._tail.wait(left)
            if self._tail.failure is not None:
                raise self._tail.failure

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
