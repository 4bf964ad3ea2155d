"""The ends of partitions, watched once for all who wait there: one Fetch for each leader brings what is new, and a thousand
readers of one partition cost the broker as much as one.

A tail keeps what came lately, so that a reader who is a little behind needs no Fetch of its own.  It ends with its last watcher.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from headrace.client.admin.wire_admin import raise_for
from headrace.client.errors import BrokerError, HeadraceError
from headrace.gateway.brokers.decoding import decoded
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.records.record import Record

if TYPE_CHECKING:
    from headrace.client.brokers.cluster import Cluster, Isolation
    from headrace.gateway.serving.tasks import Tasks

WAIT_MS: Final = 250
PAUSE_S: Final = 0.2
KEPT_RECORDS_MAX: Final = 2000
KEPT_BYTES_MAX: Final = 1024 * 1024


class Shown:
    """A record with its place, and what has been made of it for readers so far: made once for all of them."""

    __slots__ = ("place", "record", "rendered")

    def __init__(self, place: TopicPartition, record: Record) -> None:
        self.place = place
        self.record = record
        self.rendered: dict[Any, bytes] = {}


class Tail:
    """The end of one partition.  Always: what is kept covers the offsets from `first` to `position`."""

    def __init__(self, place: TopicPartition, isolation: Isolation, position: int) -> None:
        self.place = place
        self.isolation: Isolation = isolation
        self.first = position
        self.position = position
        self.watchers = 0
        self.failure: HeadraceError | None = None  # why nothing comes any more: readers raise it and leave
        self._kept: deque[Shown] = deque()
        self._bytes = 0
        self.waiting: set[asyncio.Future[None]] = set()

    def covers(self, offset: int) -> bool:
        return self.first <= offset

    def since(self, offset: int) -> Iterator[Shown]:
        """What is kept from an offset on."""
        if self._kept and self._kept[-1].record.offset >= offset:
            # Most readers are at the end: looking for their place from there is short.
            recent: list[Shown] = []
            for shown in reversed(self._kept):
                if shown.record.offset < offset:
                    break
                recent.append(shown)
            yield from reversed(recent)

    def extend(self, records: list[Record], position: int) -> None:
        for record in records:
            self._kept.append(Shown(self.place, record))
            self._bytes += _size(record)
        self.position = max(self.position, position)
        while self._kept and (len(self._kept) > KEPT_RECORDS_MAX or self._bytes > KEPT_BYTES_MAX):
            gone = self._kept.popleft().record
            self._bytes -= _size(gone)
            self.first = gone.offset + 1
        self.wake()

    def fail(self, error: HeadraceError) -> None:
        self.failure = error
        self.wake()

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"") + 100


class Tails:
    """The tails of one cluster, and the loops that fetch for them: one for each leader and isolation."""

    def __init__(self, cluster: Cluster, tasks: Tasks) -> None:
        self._cluster = cluster
        self._tasks = tasks
        self._tails: dict[tuple[TopicPartition, str], Tail] = {}
        self._leaders: dict[tuple[TopicPartition, str], int] = {}
        self._loops: set[tuple[int, str]] = set()

    def __len__(self) -> int:
        return len(self._tails)

    def __iter__(self) -> Iterator[Tail]:
        return iter(self._tails.values())

    def wake(self) -> None:
        """Have everybody look up: the gateway stops."""
        for tail in self._tails.values():
            tail.wake()

    def get(self, place: TopicPartition, isolation: Isolation) -> Tail | None:
        return self._tails.get((place, isolation))

    def watch(self, place: TopicPartition, isolation: Isolation, offset: int) -> Tail:
        """The tail of a partition, which begins at `offset` if nobody watches it yet; let go of with `leave`."""
        tail = self._tails.get((place, isolation))
        if tail is None:
            tail = self._tails[place, isolation] = Tail(place, isolation, offset)
            self._tasks.spawn(self._place(tail), f"find the leader of {place.topic}[{place.partition}]")
        tail.watchers += 1
        return tail

    def leave(self, tail: Tail) -> None:
        tail.watchers -= 1
        if not tail.watchers:
            key = (tail.place, tail.isolation)
            if self._tails.get(key) is tail:
                del self._tails[key]
                self._leaders.pop(key, None)

    async def _place(self, tail: Tail) -> None:
        """Have the loop of its leader fetch for a tail."""
        key = (tail.place, tail.isolation)
        while self._tails.get(key) is tail:
            try:
                leader = await self._cluster.leader(tail.place)
                break
            except HeadraceError as error:
                self._cluster.forget(tail.place.topic)
                if isinstance(error, BrokerError) and not error.retriable:
                    self._give_up(tail, error)
                    return
                await asyncio.sleep(PAUSE_S)
        else:
            return
        self._leaders[key] = leader
        if (leader, tail.isolation) not in self._loops:
            self._loops.add((leader, tail.isolation))
            self._tasks.spawn(self._fetch_for(leader, tail.isolation), f"fetch for the tails at broker {leader}")

    async def _fetch_for(self, leader: int, isolation: Isolation) -> None:
        from headrace.client.brokers.cluster import FETCH_VERSION_MAX, fetch_request

        try:
            while wanted := self._led_by(leader, isolation):
                request = fetch_request({tail.place: tail.position for tail in wanted}, isolation, wait_ms=WAIT_MS)
                try:
                    endpoint = await self._cluster.endpoint_of(leader)
                    connection = await self._cluster.connection(endpoint, f"tail {isolation}")
                    reply = await connection.call(request, version_max=FETCH_VERSION_MAX)
                except HeadraceError:
                    await asyncio.sleep(PAUSE_S)
                    self._look_for_leaders(wanted)
                    return
                by_place = {(tail.place.topic, tail.place.partition): tail for tail in wanted}
                for topic in reply.responses:
                    for data in topic.partitions:
                        self._take(by_place[topic.topic, data.partition_index], data)
        finally:
            self._loops.discard((leader, isolation))

    def _led_by(self, leader: int, isolation: Isolation) -> list[Tail]:
        return [
            self._tails[key] for key, at in self._leaders.items() if at == leader and key[1] == isolation and key in self._tails
        ]

    def _look_for_leaders(self, tails: list[Tail]) -> None:
        for tail in tails:
            if self._leaders.pop((tail.place, tail.isolation), None) is not None:
                self._cluster.forget(tail.place.topic)
                self._tasks.spawn(self._place(tail), f"find the leader of {tail.place.topic}[{tail.place.partition}]")

    def _take(self, tail: Tail, data: Any) -> None:
        if data.error_code == ErrorCode.NONE:
            found = decoded(data, tail.position, committed_only=tail.isolation == "read_committed")
            if found.next_offset > tail.position:
                tail.extend(found.records, found.next_offset)
        elif data.error_code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            try:
                raise_for(
                    data.error_code, f"offset {tail.position} of partition {tail.place.partition} of topic '{tail.place.topic}'"
                )
            except BrokerError as error:
                self._give_up(tail, error)
        else:
            self._look_for_leaders([tail])

    def _give_up(self, tail: Tail, error: HeadraceError) -> None:
        """Tell its readers; who comes next begins a new one."""
        key = (tail.place, tail.isolation)
        if self._tails.get(key) is tail:
            del self._tails[key]
            self._leaders.pop(key, None)
        tail.fail(error)
