"""What a reader gets of its partitions: consumers what is committed or visible, followers the log as it is stored."""

from typing import NamedTuple, Protocol

from headrace.broker.fetching.lookup import Found, FoundTopic
from headrace.broker.following.sessions import divergence, is_prefix
from headrace.broker.following.throttle import ReplicationThrottle
from headrace.broker.partitions.nearest import NearbyReplicas
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.waiting import Readers
from headrace.model.errors import ErrorCode, RequestError, StorageError
from headrace.model.identity import NO_BROKER
from headrace.wire.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchPartition, PartitionData

ONLOOKER = -2  # Kafka's number for those who look at records and do not consume them


class Reading(Protocol):
    """On whose behalf is read."""

    is_replica: bool
    # Whether what is read counts as consumed.
    consumes: bool
    # Set when there was more to read than the reply has room for.
    filled_reply: bool
    # What was read last, by partition, in bytes and in offsets, and from which offset on.
    served: list[tuple[Partition, int, int, int]]
    # What is in an object store and has to be brought from there.
    to_bring: list[tuple[Partition, FetchPartition]]

    def may_read(self, partition: Partition) -> bool:
        """Whether this broker still is the one to ask."""
        ...

    def readable_to(self, partition: Partition) -> int:
        """Where the reader's view of the log ends."""
        ...

    def readers_of(self, partition: Partition) -> Readers:
        """Those who are woken when that moves."""
        ...

    def read(self, partition: Partition, wanted: FetchPartition, left: int, *, at_least_one: bool) -> PartitionData:
        """So many bytes at most; with `at_least_one`, one batch however large.  Raises RequestError, StorageError."""
        ...

    def read_remote(self, partition: Partition, wanted: FetchPartition, left: int, *, at_least_one: bool) -> PartitionData:
        """The same, where `read` has raised OFFSET_MOVED_TO_TIERED_STORAGE."""
        ...


class ConsumerReading:
    """A consumer sees what is committed, or what the in-sync replicas have; perhaps from a follower nearby."""

    __slots__ = ("_committed_only", "_nearby", "_rack", "consumes", "filled_reply", "served", "to_bring")

    is_replica = False

    def __init__(self, nearby: NearbyReplicas | None, rack: str, *, committed_only: bool, consumes: bool = True) -> None:
        self.consumes = consumes
        self._nearby = nearby  # None for one who must read from the leader
        self._rack = rack
        self._committed_only = committed_only
        self.filled_reply = False
        self.served: list[tuple[Partition, int, int, int]] = []
        self.to_bring: list[tuple[Partition, FetchPartition]] = []

    def may_read(self, partition: Partition) -> bool:
        return partition.is_leader or (self._nearby is not None and self._nearby.is_enabled)

    def readable_to(self, partition: Partition) -> int:
        return partition.readable_to(committed_only=self._committed_only)

    def readers_of(self, partition: Partition) -> Readers:
        return partition.readers

    def read(self, partition: Partition, wanted: FetchPartition, left: int, *, at_least_one: bool) -> PartitionData:
        if self._nearby is None or partition.is_leader:
            partition.require_leader(wanted.current_leader_epoch)
        else:
            self._nearby.require_readable(partition, wanted.current_leader_epoch)
        data = _positions(partition, wanted)
        if wanted.last_fetched_epoch >= 0 and (diverging := divergence(partition, wanted)) is not None:
            data.diverging_epoch = diverging
            return data
        if self._rack and self._nearby is not None:
            data.preferred_read_replica = self._nearby.nearer_replica(partition, self._rack, wanted.fetch_offset)
            if data.preferred_read_replica != NO_BROKER:
                return data
        if left <= 0 and not at_least_one:
            self.filled_reply = True
            return data
        up_to = data.last_stable_offset if self._committed_only else data.high_watermark
        read = partition.log.read(
            wanted.fetch_offset,
            max_bytes=max(0, min(wanted.partition_max_bytes, left)),
            up_to=up_to,
            at_least_one=at_least_one,
        )
        data.records = read.data
        if read.data:
            self.served.append((partition, len(read.data), read.next_offset - wanted.fetch_offset, wanted.fetch_offset))
        if read.next_offset < up_to and left < wanted.partition_max_bytes:
            self.filled_reply = True
        if self._committed_only:
            data.aborted_transactions = self._aborted(partition, wanted.fetch_offset, read.next_offset) if read.data else ()
        return data

    def read_remote(self, partition: Partition, wanted: FetchPartition, left: int, *, at_least_one: bool) -> PartitionData:
        """What was brought from an object store; nothing, and not to be waited for here, where it is still on its way."""
        data = _positions(partition, wanted)
        remote = partition.remote
        if remote is None:
            raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR)
        up_to = data.last_stable_offset if self._committed_only else data.high_watermark
        bytes_max = max(0, min(wanted.partition_max_bytes, left))
        read = remote.take(wanted.fetch_offset, max_bytes=bytes_max, up_to=up_to, at_least_one=at_least_one)
        if read is None:
            self.to_bring.append((partition, wanted))
            return data
        data.records = read.data
        if read.data:
            self.served.append((partition, len(read.data), read.next_offset - wanted.fetch_offset, wanted.fetch_offset))
        # Who reads old records is not kept waiting for more of them.
        self.filled_reply = True
        if self._committed_only:
            found = {(each.producer_id, each.first_offset): each for each in read.aborted if each.first_offset < read.next_offset}
            if not read.aborted_are_all:
                local = partition.log.aborted_transactions(wanted.fetch_offset, read.next_offset)
                found |= {(each.producer_id, each.first_offset): each for each in local}
            data.aborted_transactions = tuple(
                AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in found.values()
            )
        return data

    def _aborted(self, partition: Partition, start: int, end: int) -> tuple[AbortedTransaction, ...]:
        return tuple(
            AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            for aborted in partition.log.aborted_transactions(start, end)
        )


class ReplicaReading:
    """A follower gets the whole log of its leader, though not faster than it may catch up, and tells how far it has got."""

    __slots__ = ("_replica_id", "_throttle", "filled_reply", "served", "to_bring")

    is_replica = True
    consumes = False

    def __init__(self, replica_id: int, throttle: ReplicationThrottle) -> None:
        self._replica_id = replica_id
        self._throttle = throttle
        self.filled_reply = False
        self.served: list[tuple[Partition, int, int, int]] = []
        self.to_bring: list[tuple[Partition, FetchPartition]] = []

    def may_read(self, partition: Partition) -> bool:
        return partition.is_leader

    def readable_to(self, partition: Partition) -> int:
        return partition.log.end_offset

    def readers_of(self, partition: Partition) -> Readers:
        return partition.replica_readers

    def read(self, partition: Partition, wanted: FetchPartition, left: int, *, at_least_one: bool) -> PartitionData:
        partition.require_leader(wanted.current_leader_epoch)
        data = _positions(partition, wanted)
        if (diverging := divergence(partition, wanted)) is not None:
            data.diverging_epoch = diverging
            return data
        if left <= 0 and not at_least_one:
            self.filled_reply = True
            return data
        if self._throttle.holds_back(partition, self._replica_id):
            return data
        log = partition.log
        read = log.read(
            wanted.fetch_offset,
            max_bytes=max(0, min(wanted.partition_max_bytes, left)),
            up_to=log.end_offset,
            at_least_one=at_least_one,
            as_stored=True,
        )
        data.records = read.data
        if read.data:
            self.served.append((partition, len(read.data), read.next_offset - wanted.fetch_offset, wanted.fetch_offset))
        if read.next_offset < log.end_offset and left < wanted.partition_max_bytes:
            self.filled_reply = True
        self._throttle.on_bytes(partition, self._replica_id, len(read.data))
        return data

    def read_remote(self, partition: Partition, wanted: FetchPartition, left: int, *, at_least_one: bool) -> PartitionData:
        """A follower is told that it is there, and begins behind it."""
        raise RequestError(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)

    def note_positions(self, found_topics: list[FoundTopic], replica_epoch: int) -> None:
        """A follower that asks for an offset has everything below: let the high watermark, and the in-sync set, know."""
        for _, found in found_topics:
            for wanted, partition, _ in found:
                if partition is not None and self._may_be_counted(partition, wanted):
                    offset, start_offset = wanted.fetch_offset, wanted.log_start_offset
                    partition.leadership.on_fetch(self._replica_id, offset, start_offset, replica_epoch)

    def _may_be_counted(self, partition: Partition, wanted: FetchPartition) -> bool:
        try:
            partition.require_leader(wanted.current_leader_epoch)
        except RequestError:
            return False
        return is_prefix(partition, wanted)


def _positions(partition: Partition, wanted: FetchPartition) -> PartitionData:
    return PartitionData(
        partition_index=wanted.partition,
        error_code=ErrorCode.NONE,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.start_offset,
        aborted_transactions=None,
    )


class Readout(NamedTuple):
    """What was read."""

    topics: list[FetchableTopicResponse]
    size: int
    # Whether it has something to say besides records, which does not wait for them, or has no room for more of them.
    is_urgent: bool


def read_all(found_topics: list[FoundTopic], reading: Reading, left: int, *, at_least_one: bool = True) -> Readout:
    """Read what was found, up to so many bytes of it; with `at_least_one`, a batch however large."""
    topics = []
    size = 0
    is_urgent = reading.filled_reply = False
    reading.served.clear()
    reading.to_bring.clear()
    for topic, found in found_topics:
        answers = []
        for each in found:
            data = _read(each, reading, left - size, at_least_one)
            if data.records:
                size += len(data.records)
                at_least_one = False
            elif data.error_code or data.preferred_read_replica != NO_BROKER or data.diverging_epoch.epoch >= 0:
                is_urgent = True
            answers.append(data)
        topics.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=tuple(answers)))
    # A reply that cannot grow waits for no more records, however many bytes were asked for at least.
    return Readout(topics, size, is_urgent or (reading.filled_reply and size > 0))


def _read(found: Found, reading: Reading, left: int, at_least_one: bool) -> PartitionData:
    wanted, partition, code = found
    if partition is None:
        return PartitionData(partition_index=wanted.partition, error_code=code)
    try:
        try:
            return reading.read(partition, wanted, left, at_least_one=at_least_one)
        except RequestError as error:
            if error.code is not ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
                raise
            return reading.read_remote(partition, wanted, left, at_least_one=at_least_one)
    except RequestError as error:
        return PartitionData(partition_index=wanted.partition, error_code=error.code)
    except StorageError as error:
        return PartitionData(partition_index=wanted.partition, error_code=partition.on_failed_read(error))


def estimate(found_topics: list[FoundTopic], reading: Reading) -> int:
    """About how many bytes there are to be read."""
    size = 0
    for _, found in found_topics:
        for wanted, partition, _ in found:
            if partition is None:
                continue
            log = partition.log
            unread = reading.readable_to(partition) - max(wanted.fetch_offset, log.start_offset)
            if unread > 0:
                average = log.size_bytes / max(1, log.end_offset - log.start_offset)
                size += min(wanted.partition_max_bytes, max(1, round(unread * average)))
    return size
