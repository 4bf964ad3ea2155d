"""Fetch sessions of followers (KIP-227): a follower names only partitions of which it has something new to say, and is told
only of those of which there is something new to hear.  A fetch costs the same, however many partitions are idle.

Always: a partition is due while the follower may lack something of it that can be told: new records, another high watermark
or log start, an error.  What a follower last said of a partition holds until it says something else, or ends its session.
One session for each follower; a new one ends the one before.  Consumers get none: they name their partitions.
"""

from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.partitions.waiting import Reader
from headrace.controller.image import CurrentImage
from headrace.model.errors import ErrorCode, RequestError
from headrace.replication.follower import divergence as divergence_of
from headrace.wire.messages.fetch import EpochEndOffset, FetchPartition, FetchRequest, FetchTopic, PartitionData

NO_SESSION, NEW_SESSION = -1, 0
EPOCH_MAX: Final = 2**31 - 1
LOOK_AROUND_S: Final = 5.0  # what no event tells of, a log start for instance, is looked for this often

Key = tuple[UUID, int]


class _Entry:
    """One partition in a session; woken as a reader is, when its log grows or it is no longer led here."""

    __slots__ = ("key", "last_sent", "partition", "session", "wanted")

    def __init__(self, session: "ReplicaSession", key: Key, wanted: FetchPartition) -> None:
        self.session = session
        self.key = key
        self.wanted = wanted
        self.partition: Partition | None = None
        self.last_sent: tuple[int, int] | None = None  # high watermark and log start

    def wake(self) -> None:
        self.session.due[self.key] = None
        self.session.wake()

    def on_high_watermark(self) -> None:
        # Worth telling, not worth an answer of its own.
        self.session.due[self.key] = None

    def attach(self, partition: Partition | None) -> None:
        if partition is self.partition:
            return
        if self.partition is not None:
            self.partition.replica_readers.discard(self)
            if self.on_high_watermark in self.partition.on_high_watermark:
                self.partition.on_high_watermark.remove(self.on_high_watermark)
        self.partition = partition
        if partition is not None:
            partition.replica_readers.add(self)
            partition.on_high_watermark.append(self.on_high_watermark)


class ReplicaSession:
    """What one follower wants of this broker."""

    def __init__(self, replicas: Replicas, now: Callable[[], float], session_id: int) -> None:
        self._replicas = replicas
        self._now = now
        self.session_id = session_id
        self.epoch = 1  # of the next request
        self.follower_epoch = -1
        self.due: dict[Key, None] = {}
        self.reader: Reader | None = None  # the request that waits for something to be due
        self._entries: dict[Key, _Entry] = {}
        self._looked_at = now()

    def __len__(self) -> int:
        return len(self._entries)

    def wake(self) -> None:
        if self.reader is not None:
            self.reader.wake()

    def take(self, request: FetchRequest) -> None:
        """Learn what a request says anew."""
        self.follower_epoch = request.replica_state.replica_epoch
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                self._forget((topic.topic_id, index))
        for named in request.topics:
            for wanted in named.partitions:
                self._name((named.topic_id, wanted.partition), wanted)
        now = self._now()
        if now - self._looked_at >= LOOK_AROUND_S:
            self._looked_at = now
            self._look_around()

    def _name(self, key: Key, wanted: FetchPartition) -> None:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(self, key, wanted)
        entry.wanted = wanted
        entry.last_sent = None  # it may not have taken what it was told: who has to cut its log does not
        try:
            entry.attach(self._replicas.find_by_id(*key))
        except RequestError:
            entry.attach(None)
        self.due[key] = None

    def _forget(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            entry.attach(None)
            self.due.pop(key, None)

    def _look_around(self) -> None:
        for key, entry in self._entries.items():
            if entry.partition is not None and _positions(entry.partition) != entry.last_sent:
                self.due[key] = None

    def wanted(self, key: Key) -> FetchPartition | None:
        """What the follower last said of a partition."""
        entry = self._entries.get(key)
        return entry.wanted if entry is not None else None

    def topics(self) -> tuple[FetchTopic, ...]:
        """What is due, in the form of a request."""
        by_topic: dict[UUID, list[FetchPartition]] = {}
        for topic_id, index in self.due:
            by_topic.setdefault(topic_id, []).append(self._entries[topic_id, index].wanted)
        return tuple(FetchTopic(topic_id=topic_id, partitions=tuple(wanted)) for topic_id, wanted in by_topic.items())

    def is_worth_telling(self, topic_id: UUID, data: PartitionData) -> bool:
        """Whether the follower has not heard this yet.  Called once for each answer; what is told is then no longer due."""
        key = (topic_id, data.partition_index)
        entry = self._entries.get(key)
        if entry is None:
            return False
        if data.error_code or data.records or data.diverging_epoch.epoch >= 0:
            self.due.pop(key, None)
            entry.last_sent = None if data.error_code else (data.high_watermark, data.log_start_offset)
            return True
        partition = entry.partition
        if partition is None or partition.log.end_offset <= entry.wanted.fetch_offset:
            self.due.pop(key, None)
        before, entry.last_sent = entry.last_sent, (data.high_watermark, data.log_start_offset)
        return before != entry.last_sent

    def close(self) -> None:
        for entry in self._entries.values():
            entry.attach(None)
        self._entries.clear()
        self.due.clear()
        self.reader = None


class ReplicaSessions:
    """The sessions of all followers of this broker."""

    def __init__(self, replicas: Replicas, image: CurrentImage, now: Callable[[], float]) -> None:
        """`now` is the event loop's time."""
        self._replicas = replicas
        self._image = image
        self._now = now
        self._sessions: dict[int, ReplicaSession] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """How many partitions all of them name."""
        return sum(map(len, self._sessions.values()))

    def resume(self, follower: int, request: FetchRequest) -> ReplicaSession:
        """The session that a request belongs to, with what the request says taken in.  Raises RequestError."""
        session = self._begin(follower) if request.session_epoch == NEW_SESSION else self._go_on(follower, request)
        session.take(request)
        return session

    def remind(self, partition: Partition) -> None:
        """A partition's leadership is new or has new followers: tell it how far those are who will not say so again."""
        key = (partition.topic_id, partition.identity.partition)
        for follower, session in self._sessions.items():
            registered = self._image().brokers.get(follower)
            wanted = session.wanted(key)
            # Another life of the follower, or another epoch of the leader: then it will speak for itself.
            if wanted is None or registered is None or registered.epoch != session.follower_epoch:
                continue
            if wanted.current_leader_epoch == partition.leader_epoch and is_prefix(partition, wanted):
                partition.leadership.on_fetch(follower, wanted.fetch_offset, wanted.log_start_offset, session.follower_epoch)

    def _begin(self, follower: int) -> ReplicaSession:
        if (before := self._sessions.pop(follower, None)) is not None:
            before.close()
        self._last_id = self._last_id % EPOCH_MAX + 1
        session = self._sessions[follower] = ReplicaSession(self._replicas, self._now, self._last_id)
        return session

    def _go_on(self, follower: int, request: FetchRequest) -> ReplicaSession:
        session = self._sessions.get(follower)
        if session is None or session.session_id != request.session_id:
            raise RequestError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise RequestError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.epoch = session.epoch % EPOCH_MAX + 1
        return session

    def __iter__(self) -> Iterator[ReplicaSession]:
        return iter(self._sessions.values())


def _positions(partition: Partition) -> tuple[int, int]:
    return partition.high_watermark, partition.log.start_offset


def is_prefix(partition: Partition, wanted: FetchPartition) -> bool:
    """Whether everything that the reader has is in our log too."""
    try:
        return divergence(partition, wanted) is None and wanted.fetch_offset <= partition.log.end_offset
    except RequestError:
        return False


def divergence(partition: Partition, wanted: FetchPartition) -> EpochEndOffset | None:
    """Where the reader's log parts from ours (KIP-595, KIP-320), or None when what it has is a prefix of ours."""
    end = divergence_of(partition.log.epochs, wanted.fetch_offset, wanted.last_fetched_epoch)
    return EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset) if end is not None else None
