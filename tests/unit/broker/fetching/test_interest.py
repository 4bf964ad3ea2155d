"""What a fetch is interested in, and what is read for it, on partitions in memory."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from headrace.broker.fetching.interest import NamedPartitions, SessionPartitions
from headrace.broker.fetching.reading import ConsumerReading, Reading, ReplicaReading, read_all
from headrace.broker.following.sessions import NEW_SESSION, ReplicaSessions
from headrace.broker.following.throttle import ReplicationThrottle
from headrace.broker.partitions.flushing import Flusher
from headrace.broker.partitions.partition import Alone, Partition
from headrace.broker.partitions.replicas import Replicas
from headrace.controller.entries import PartitionState
from headrace.controller.image import ClusterImage
from headrace.host.clock import SystemClock
from headrace.host.entropy import SystemEntropy
from headrace.log.memory.memory_log import MemoryLog
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import TopicPartition
from headrace.model.topic_settings import LogConfig
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

TOPIC_ID = SystemEntropy().uuid()
STATE = PartitionState(replicas=(1,), leader=1, leader_epoch=0, isr=(1,))
CONSUMER = ConsumerReading(None, "", committed_only=False)
UNTHROTTLED = cast(
    ReplicationThrottle, SimpleNamespace(holds_back=lambda partition, id: False, on_bytes=lambda partition, id, size: None)
)
FOLLOWER = ReplicaReading(2, UNTHROTTLED)
BATCH = build_batch([Record(0, 0, b"k", b"v" * 100)])
EVERYTHING = 1 << 20


class Place:
    """Two partitions, and who waits for them."""

    def __init__(self) -> None:
        self.partitions = [self._led(index) for index in range(2)]
        self.wakes = 0

    def _led(self, index: int) -> Partition:
        loop = asyncio.get_running_loop()
        log = MemoryLog(LogConfig(), SystemClock())
        partition = Partition(TopicPartition("t", index), TOPIC_ID, log, flusher=Flusher(loop), loop=loop)
        partition.lead(STATE, Alone())
        return partition

    def find(self, topic: str, index: int) -> Partition:
        if index >= len(self.partitions):
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.partitions[index]

    def find_by_id(self, topic_id: object, index: int) -> Partition:
        return self.find("t", index)

    def wake(self) -> None:
        self.wakes += 1

    @property
    def replicas(self) -> Replicas:
        return cast(Replicas, self)

    def named(self, *indexes: int, reading: Reading = CONSUMER) -> NamedPartitions:
        return NamedPartitions(self.replicas, (wanted(*indexes),), reading, by_id=False)

    def session(self, *indexes: int) -> SessionPartitions:
        sessions = ReplicaSessions(self.replicas, lambda: cast(ClusterImage, None), lambda: 0.0)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_epoch=NEW_SESSION,
            replica_state=ReplicaState(replica_id=2, replica_epoch=1),
            topics=(wanted(*indexes),),
        )
        return SessionPartitions(self.replicas, sessions.resume(2, request))


def wanted(*indexes: int) -> FetchTopic:
    each = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=EVERYTHING) for index in indexes]
    return FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=tuple(each))


def on(story: Callable[[Place], Any]) -> None:
    async def within() -> None:
        story(Place())

    asyncio.run(within())


def test_a_partition_that_is_not_here_is_an_error_beside_the_records_of_the_others() -> None:
    def story(place: Place) -> None:
        place.partitions[0].append(BATCH)
        readout = read_all(place.named(0, 7).look(), CONSUMER, EVERYTHING)

        first, missing = readout.topics[0].partitions
        assert (first.error_code, len(first.records or b"")) == (ErrorCode.NONE, len(BATCH))
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (readout.size, readout.is_urgent) == (len(BATCH), True)

    on(story)


def test_the_first_batch_is_read_however_large_and_the_next_only_where_there_is_room() -> None:
    def story(place: Place) -> None:
        for partition in place.partitions:
            partition.append(BATCH)
        found = place.named(0, 1).look()

        assert [len(data.records or b"") for data in read_all(found, CONSUMER, 1).topics[0].partitions] == [len(BATCH), 0]
        assert read_all(found, CONSUMER, 2 * len(BATCH)).size == 2 * len(BATCH)
        assert read_all(found, CONSUMER, 0, at_least_one=False).size == 0

    on(story)


def test_whoever_waits_is_woken_by_each_of_its_partitions_until_it_leaves() -> None:
    def story(place: Place) -> None:
        interest = place.named(0, 1)
        interest.wait(interest.look(), place, 1)
        for partition in place.partitions:
            partition.append(BATCH)
        assert place.wakes == 2
        interest.leave()
        place.partitions[0].append(BATCH)

        assert place.wakes == 2
        assert not any(partition.readers for partition in place.partitions)

    on(story)


def test_a_wake_up_is_worth_reading_once_what_was_missing_is_there() -> None:
    def story(place: Place) -> None:
        interest = place.named(0, 1)
        interest.wait(interest.look(), place, len(BATCH) + 1)
        place.partitions[0].append(BATCH)
        assert not interest.is_worth_reading()
        place.partitions[1].append(BATCH)

        assert interest.is_worth_reading()

    on(story)


def test_a_partition_that_is_no_longer_led_here_is_worth_a_look_at_once() -> None:
    def story(place: Place) -> None:
        interest = place.named(0)
        interest.wait(interest.look(), place, EVERYTHING)
        place.partitions[0].follow(STATE.changed(leader=2))

        assert place.wakes == 1
        assert interest.is_worth_reading()

    on(story)


def test_a_follower_waits_where_the_log_grows_and_a_consumer_where_it_becomes_visible() -> None:
    def story(place: Place) -> None:
        for reading in (CONSUMER, FOLLOWER):
            place.named(0, reading=reading).wait(place.named(0).look(), place, 1)

        assert place.partitions[0].readers
        assert place.partitions[0].replica_readers

    on(story)


def test_in_a_session_only_what_is_due_is_looked_at_and_only_news_are_told() -> None:
    def story(place: Place) -> None:
        interest = place.session(0, 1)
        told = interest.news(read_all(interest.look(), FOLLOWER, EVERYTHING).topics)
        assert [data.partition_index for data in told[0].partitions] == [0, 1]
        place.partitions[1].append(BATCH)
        found = interest.look()

        assert [each.partition for _, pairs in found for each, _, _ in pairs] == [1]
        assert [len(data.records or b"") for data in interest.news(read_all(found, FOLLOWER, 1).topics)[0].partitions] == [
            len(BATCH)
        ]
        assert interest.look() == []

    on(story)


def test_in_a_session_what_came_while_a_file_was_read_is_not_missed() -> None:
    def story(place: Place) -> None:
        interest = place.session(0, 1)
        interest.news(read_all(interest.look(), FOLLOWER, EVERYTHING).topics)
        found = interest.look()
        place.partitions[0].append(BATCH)

        assert interest.wait(found, place, 1)

    on(story)


def test_a_follower_that_came_again_is_not_left_unwoken_when_its_earlier_request_goes() -> None:
    def story(place: Place) -> None:
        earlier = place.session(0)
        later = SessionPartitions(place.replicas, earlier._session)
        earlier.wait(earlier.look(), cast(Any, SimpleNamespace(wake=lambda: None)), 1)
        later.wait(later.look(), place, 1)
        earlier.leave()
        place.partitions[0].append(BATCH)

        assert place.wakes == 1

    on(story)
