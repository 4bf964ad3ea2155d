"""Where partitions begin and end, and when a record of theirs was written: for whoever tells how far groups are.

What has a replica here is looked at here; of the others the leader is asked: many partitions in one request where they end, and
for the age of a record by a Fetch that no metric takes for a consumer's.  Always: of a leader that does not answer in a second
nothing is told, and the scrape goes on without.
"""

import asyncio
from collections.abc import Generator, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from headrace.broker.cluster.peers import Peers, PeerUnreachable
from headrace.broker.fetching.reading import ONLOOKER
from headrace.broker.following.sessions import NO_SESSION
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.reading import is_warm
from headrace.broker.partitions.replicas import Replicas
from headrace.controller.image import CurrentImage
from headrace.host.disk import Disk
from headrace.model.errors import ErrorCode, RequestError, StorageError
from headrace.model.identity import NO_BROKER, TopicPartition
from headrace.records.batch import iterate_batches
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

FETCH_VERSION = 17
LIST_OFFSETS_VERSION = 7
LATEST, EARLIEST = -1, -2
CONSUMER = -1
PURPOSE = "metrics"
ANSWER_SECONDS_MAX = 1.0
NAMED_MAX = 500  # partitions in a request
KNOWN_MAX = 100_000  # ages remembered while nobody asks for the page that forgets
READS_MAX = 500  # batches here that are looked into in one scrape, to learn their age; the others are told the next time
REMOTE_READS_MAX = 50  # and elsewhere, each of which is a request

RecordAt = tuple[TopicPartition, int]


class Ends(NamedTuple):
    """Of one partition, as far as consumers may read it."""

    start: int
    high_watermark: int


class LogPositions:
    """Asked during scrapes.  What it knows of partitions elsewhere is as old as the last `ask`."""

    def __init__(self, broker_id: int, replicas: Replicas, image: CurrentImage, peers: Peers, disk: Disk) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._image = image
        self._peers = peers
        self._disk = disk
        self._elsewhere: dict[TopicPartition, Ends] = {}
        # When the record at an offset was written, of those that somebody stood at before, and stands at now.
        self._written_ms: dict[RecordAt, int | None] = {}
        self._seen: dict[RecordAt, int | None] = {}
        self._reads = 0

    def ends_of(self, identity: TopicPartition) -> Ends | None:
        """None where nobody knows."""
        partition = self._here(identity)
        if partition is None:
            return self._elsewhere.get(identity)
        return Ends(partition.log.start_offset, partition.high_watermark)

    @property
    def has_others(self) -> bool:
        """Whether there is an elsewhere."""
        return len(self._image().brokers) > 1

    def is_elsewhere(self, identity: TopicPartition) -> bool:
        return self._here(identity) is None

    def _here(self, identity: TopicPartition) -> Partition | None:
        partition = self._replicas.get(identity)
        return None if partition is None or partition.failure is not None else partition

    # -- ages

    def begin(self, *, forgets: bool) -> None:
        """A scrape begins.  One that `forgets` keeps only the ages that were asked for since the last that did."""
        self._reads = 0
        if forgets or len(self._seen) > KNOWN_MAX:
            self._written_ms, self._seen = self._seen, {}

    def written_ms(self, identity: TopicPartition, offset: int) -> Generator[Any, Any, int | None]:
        """When the record at an offset was written, by its batch; None where nobody can tell, or not in this scrape."""
        place = identity, offset
        for known in (self._seen, self._written_ms):
            if place in known:
                self._seen[place] = known[place]
                return known[place]
        partition = self._here(identity)
        if partition is None or self._reads >= READS_MAX:
            return None
        self._reads += 1
        written_ms = self._seen[place] = yield from self._read(partition, offset)
        return written_ms

    def _read(self, partition: Partition, offset: int) -> Generator[Any, Any, int | None]:
        """A thread fetches what is cold."""
        if not is_warm(partition, offset):
            ahead = partition.log.ahead_of_read(offset, 1)
            if ahead is not None:
                yield partial(ahead.run, self._disk)
        try:
            read = partition.log.read(offset, max_bytes=1, up_to=partition.high_watermark, at_least_one=True)
        except (RequestError, StorageError):
            return None
        return _first_timestamp(read.data)

    # -- those elsewhere

    async def ask(self, stand_at: Mapping[TopicPartition, Iterable[int]], *, ages: bool) -> None:
        """Ask leaders where these partitions end; with `ages`, also for those of the records that somebody stands at."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for identity in stand_at:
            self._elsewhere.pop(identity, None)
            if self.is_elsewhere(identity) and (leader := self._leader_of(identity)) is not None:
                by_leader.setdefault(leader, []).append(identity)
        await asyncio.gather(*(self._ask_ends(leader, wanted) for leader, wanted in by_leader.items()))
        if ages:
            await self._ask_ages(stand_at)

    def _leader_of(self, identity: TopicPartition) -> int | None:
        state = self._image().partition(*identity)
        return None if state is None or state.leader in (NO_BROKER, self._broker_id) else state.leader

    async def _ask_ends(self, leader: int, wanted: list[TopicPartition]) -> None:
        for begin in range(0, len(wanted), NAMED_MAX):
            some = wanted[begin : begin + NAMED_MAX]
            starts, ends = await asyncio.gather(*(self._list_offsets(leader, some, which) for which in (EARLIEST, LATEST)))
            if not starts or not ends:
                return  # it would not answer for the others either
            for identity in starts.keys() & ends.keys():
                self._elsewhere[identity] = Ends(starts[identity], ends[identity])

    async def _list_offsets(self, leader: int, wanted: Iterable[TopicPartition], which: int) -> dict[TopicPartition, int]:
        by_topic: dict[str, list[ListOffsetsPartition]] = {}
        for topic, index in wanted:
            by_topic.setdefault(topic, []).append(ListOffsetsPartition(partition_index=index, timestamp=which))
        topics = tuple(ListOffsetsTopic(name=name, partitions=tuple(asked)) for name, asked in by_topic.items())
        response = await self._call(leader, ListOffsetsRequest(replica_id=CONSUMER, topics=topics), LIST_OFFSETS_VERSION)
        return {
            TopicPartition(topic.name, each.partition_index): each.offset
            for topic in (() if response is None else response.topics)
            for each in topic.partitions
            if each.error_code == ErrorCode.NONE
        }

    async def _ask_ages(self, stand_at: Mapping[TopicPartition, Iterable[int]]) -> None:
        unknown = (
            (identity, max(offset, ends.start))
            for identity, offsets in stand_at.items()
            if (ends := self._elsewhere.get(identity)) is not None
            for offset in offsets
            if max(offset, ends.start) < ends.high_watermark
        )
        wanted = list(
            islice((place for place in unknown if place not in self._written_ms and place not in self._seen), REMOTE_READS_MAX)
        )
        await asyncio.gather(*map(self._ask_age, wanted))

    async def _ask_age(self, place: RecordAt) -> None:
        identity, offset = place
        leader, topic = self._leader_of(identity), self._image().topics.get(identity.topic)
        if leader is None or topic is None:
            return
        asked = FetchPartition(partition=identity.partition, fetch_offset=offset, partition_max_bytes=1)
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=ONLOOKER),
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            session_epoch=NO_SESSION,
            topics=(FetchTopic(topic_id=topic.topic_id, partitions=(asked,)),),
        )
        response = await self._call(leader, request, FETCH_VERSION)
        records = [] if response is None else [data.records for each in response.responses for data in each.partitions]
        if records and records[0]:
            self._written_ms[place] = _first_timestamp(records[0])

    async def _call(self, leader: int, request: Any, version: int) -> Any:
        """None where there is no answer in time."""
        try:
            return await self._peers.call(leader, request, version, timeout=ANSWER_SECONDS_MAX, purpose=PURPOSE)
        except PeerUnreachable:
            return None


def _first_timestamp(data: Any) -> int | None:
    for header, _ in iterate_batches(data):
        return header.base_timestamp if header.base_timestamp >= 0 else None
    return None
