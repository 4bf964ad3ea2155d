"""What a fetch is interested in: which partitions are looked at, who wakes it, and what of all that was read is answered."""

from typing import Protocol

from headrace.broker.fetching.lookup import FoundTopic, MayRead, look_up, partitions_of
from headrace.broker.fetching.reading import Reading
from headrace.broker.following.sessions import ReplicaSession
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.partitions.waiting import Reader
from headrace.wire.messages.fetch import FetchableTopicResponse, FetchTopic


class Interest(Protocol):
    """The partitions of one fetch."""

    session_id: int

    @property
    def is_empty(self) -> bool:
        """Whether it is about no partition at all: nothing would ever wake it."""
        ...

    def look(self) -> list[FoundTopic]:
        """What is to be looked at now."""
        ...

    def look_again(self) -> list[FoundTopic]:
        """The same partitions, as they are by now."""
        ...

    def wait(self, found_topics: list[FoundTopic], reader: Reader, missing: int) -> bool:
        """Have the reader woken when something is new, of which so many bytes are missing.  True when something is already."""
        ...

    def is_worth_reading(self) -> bool:
        """Whether what woke the reader may be enough for it."""
        ...

    def leave(self) -> None:
        """Wake the reader no more."""
        ...

    def news(self, topics: list[FetchableTopicResponse]) -> list[FetchableTopicResponse]:
        """Of what was read, what the reader is told."""
        ...


class NamedPartitions:
    """Those that the request names, each of which wakes the reader: a consumer's, or those of a follower without a session."""

    __slots__ = (
        "_by_id",
        "_grown_from",
        "_grown_needed",
        "_may_read",
        "_partitions",
        "_reader",
        "_reading",
        "_replicas",
        "_topics",
    )

    session_id = 0

    def __init__(
        self,
        replicas: Replicas,
        topics: tuple[FetchTopic, ...],
        reading: Reading,
        *,
        by_id: bool,
        may_read: MayRead | None = None,
    ) -> None:
        self._replicas = replicas
        self._topics = topics
        self._reading = reading
        self._by_id = by_id
        self._may_read = may_read
        self._reader: Reader | None = None
        self._partitions: list[Partition] = []
        self._grown_from = 0
        self._grown_needed = 0

    @property
    def is_empty(self) -> bool:
        return not any(topic.partitions for topic in self._topics)

    def look(self) -> list[FoundTopic]:
        return look_up(self._replicas, self._topics, by_id=self._by_id, may_read=self._may_read)

    look_again = look

    def wait(self, found_topics: list[FoundTopic], reader: Reader, missing: int) -> bool:
        if self._reader is None:
            self._reader = reader
            self._partitions = partitions_of(found_topics)
            for partition in self._partitions:
                self._reading.readers_of(partition).add(reader)
        # What is written but may not be read yet becomes readable without the log growing: then each wake-up is worth a look.
        self._grown_needed = 0 if self._has_unreadable() else missing
        self._grown_from = self._log_bytes()
        return False

    def is_worth_reading(self) -> bool:
        # Less than before: old segments were removed, and nobody knows what was added.
        return not 0 <= self._log_bytes() - self._grown_from < self._grown_needed or self._has_lost_something()

    def _log_bytes(self) -> int:
        return sum([partition.log.size_bytes for partition in self._partitions])

    def _has_unreadable(self) -> bool:
        readable_to = self._reading.readable_to
        return any(readable_to(partition) < partition.log.state.end_offset for partition in self._partitions)

    def _has_lost_something(self) -> bool:
        return any(each.failure is not None or not self._reading.may_read(each) for each in self._partitions)

    def leave(self) -> None:
        if self._reader is not None:
            for partition in self._partitions:
                self._reading.readers_of(partition).discard(self._reader)
            self._reader = None
            self._partitions = []

    def news(self, topics: list[FetchableTopicResponse]) -> list[FetchableTopicResponse]:
        return topics


class SessionPartitions:
    """A follower's, within its session: only what is due is looked at, and only what it has not heard yet is answered."""

    __slots__ = ("_reader", "_replicas", "_seen", "_session", "_topics", "session_id")

    def __init__(self, replicas: Replicas, session: ReplicaSession) -> None:
        self._replicas = replicas
        self._session = session
        self._topics: tuple[FetchTopic, ...] = ()
        # How many were due when it was last looked.
        self._seen = 0
        self._reader: Reader | None = None
        self.session_id = session.session_id

    @property
    def is_empty(self) -> bool:
        return not len(self._session)

    def look(self) -> list[FoundTopic]:
        self._seen = len(self._session.due)
        self._topics = self._session.topics()
        return self.look_again()

    def look_again(self) -> list[FoundTopic]:
        return look_up(self._replicas, self._topics, by_id=True)

    def wait(self, found_topics: list[FoundTopic], reader: Reader, missing: int) -> bool:
        if self._reader is None:
            self._reader = self._session.reader = reader
        # Something may have come while a file was read.
        return len(self._session.due) > self._seen

    def is_worth_reading(self) -> bool:
        return True

    def leave(self) -> None:
        # The follower may have come again, on another connection, before this one was seen to be gone.
        if self._reader is not None and self._session.reader is self._reader:
            self._session.reader = None
        self._reader = None

    def news(self, topics: list[FetchableTopicResponse]) -> list[FetchableTopicResponse]:
        with_news = []
        for topic in topics:
            news = tuple(data for data in topic.partitions if self._session.is_worth_telling(topic.topic_id, data))
            if news:
                with_news.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=news))
        return with_news
