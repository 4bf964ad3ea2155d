"""What seeds once found, told as short stories: each was a bug in the broker, and must stay mended."""

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from headrace.broker.following.fetcher import Fetcher
from headrace.broker.housekeeping.housekeeping import positions
from headrace.broker.partitions.flushing import Flusher
from headrace.broker.partitions.partition import Partition
from headrace.controller.entries import PartitionState, Put, TopicEntry, partition_key, topic_key
from headrace.controller.image import ClusterImage
from headrace.log.directory import LogDirectory
from headrace.log.log import Log
from headrace.log.memory.memory_log import MemoryLog
from headrace.metadata.ledger import Ledger
from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_TOPIC_ID, TopicPartition
from headrace.model.topic_settings import LogConfig
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.replication.leader import LeaderState
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.fetch import PartitionData
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from simulation.clients.client import TRANSACTION, ClusterClient
from simulation.clients.producing import Identity, produce_batch
from simulation.clients.reading import fetch
from simulation.operators.topics import TopicSpec
from simulation.operators.topics import create_topic as create
from simulation.world.cluster import Node, SimulatedCluster
from simulation.world.disk import SimulatedDisk
from simulation.world.host import SimulatedClock
from simulation.world.loop import SimulatedLoop
from simulation.world.machine import Machine
from simulation.world.medium import PAGE_BYTES, Medium
from simulation.world.store import NAME as STORE_NAME
from tests.support.simulated import TOPIC, tell, until

PARTITIONS = [TopicPartition(TOPIC, index) for index in range(3)]


async def create_topic(client: ClusterClient) -> None:
    await create(client, TopicSpec(name=TOPIC, partition_count=3))


def leader_of(cluster: SimulatedCluster, name: str, index: int) -> Node:
    broker = cluster.nodes[1].broker
    assert broker is not None
    state = broker.image.partition(name, index)
    assert state is not None
    return cluster.nodes[state.leader]


@pytest.mark.parametrize("seed", range(10))
def test_a_new_data_directory_survives_a_power_failure(seed: int) -> None:
    medium = Medium(random.Random(seed))
    clock = SimulatedClock(SimulatedLoop(0), Machine("any"))
    path = Path("srv/headrace/data")
    LogDirectory(path, SimulatedDisk(medium, clock.wall_ms, lambda: None), clock).adopt("cluster", 1)

    medium.lose_power()

    again = LogDirectory(path, SimulatedDisk(medium, clock.wall_ms, lambda: None), clock)
    assert again.properties["cluster.id"] == "cluster"


def test_a_write_that_is_still_being_verified_when_its_time_is_over_is_not_acknowledged() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        await create_topic(client)
        request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)

        async def identify() -> Any:
            response = await client.call_coordinator(TRANSACTION, "t", request, 4)
            return response if response.error_code == ErrorCode.NONE else None

        given = await until(client, identify)
        coordinator = leader_of(cluster, "__transaction_state", 0)
        elsewhere = next(p for p in PARTITIONS if leader_of(cluster, TOPIC, p.partition) is not coordinator)
        assert coordinator.machine is not None
        cluster.loop.pause(coordinator.machine)
        identity = Identity(given.producer_id, given.producer_epoch)

        answer = await produce_batch(client, elsewhere, ["v"], identity, 0, transactional_id="t", version=12)

        assert answer[:2] == (ErrorCode.REQUEST_TIMED_OUT, -1)

    tell(story)


def test_news_of_a_broker_that_lost_its_lease_do_not_keep_it_registered_for_ever() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        node = cluster.nodes[2]
        assert node.broker is not None
        assert node.machine is not None
        # It hears nothing from the store, gives its lease up in time, and has something to tell before the store lets it end.
        cluster.network.cut(STORE_NAME, node.name)
        while node.broker.parts.membership.lease:
            await asyncio.sleep(0.01)
        assert "brokers/2" in cluster.store.ledger.items
        cluster.loop.start_on(node.machine, node.broker.parts.membership.update(degraded=("its disk is slow",)))
        await asyncio.sleep(0.1)
        cluster.kill(node)
        await asyncio.sleep(5)

        assert "brokers/2" not in cluster.store.ledger.items

    tell(story)


def test_a_topic_whose_partitions_changed_while_nobody_looked_is_taken_up_from_a_listing() -> None:
    image = ClusterImage()
    ledger = Ledger()
    topic_id = UUID(int=7)
    state = PartitionState(replicas=(1,), leader=1, isr=(1,))
    entry = TopicEntry(topic_id=topic_id, partition_count=1, configs={})
    ledger.apply(ledger.plan([Put(partition_key(topic_id, 0), state.to_value())]))
    ledger.apply(ledger.plan([Put(topic_key(TOPIC), entry.to_value())]))
    ledger.apply(ledger.plan([Put(partition_key(topic_id, 0), state.changed(leader_epoch=5).to_value())]))

    for event in image.events_towards(ledger.list("").items, ledger.revision):
        image.apply(event)

    found = image.partition(TOPIC, 0)
    assert found is not None
    assert found.leader_epoch == 5


def test_a_page_that_was_once_half_full_and_never_written_again_is_torn_and_not_damaged() -> None:
    medium = Medium(random.Random(1))
    clock = SimulatedClock(SimulatedLoop(0), Machine("any"))
    disk = SimulatedDisk(medium, clock.wall_ms, lambda: None)
    log = Log.open(Path("log"), LogConfig(), disk=disk, clock=clock, clean=True)
    log.append(build_batch([Record(0, 1, None, b"kept")]), 0)
    log.sync()
    kept_bytes = log.size_bytes
    for _ in range(20):
        log.append(build_batch([Record(0, 1, None, b"x" * 500)]), 0)
    inode = medium.file(Path("log/00000000000000000000.log"))
    inode.data[kept_bytes:PAGE_BYTES] = bytes(PAGE_BYTES - kept_bytes)

    again = Log.open(Path("log"), LogConfig(), disk=disk, clock=clock, clean=False)

    assert (again.end_offset, again.corruption_count) == (1, 0)


def without_news(cluster: SimulatedCluster, node: Node, seconds: float) -> None:
    """Let the store keep changes from one broker for a while."""
    for watch in cluster.store._watches:
        if watch._machine is node.machine:
            watch._is_due = True
            cluster.loop.call_on(None, seconds, watch.pump)


def test_a_name_is_free_when_its_topic_is_deleted_whichever_broker_is_asked() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        spec = TopicSpec(name=TOPIC)
        await create(client, spec)
        await client.refresh()
        await asyncio.sleep(1)
        without_news(cluster, cluster.nodes[2], 1.0)
        gone = DeleteTopicsRequest(topics=(DeleteTopicState(name=TOPIC, topic_id=NO_TOPIC_ID),), timeout_ms=1000)
        assert (await client.call(1, gone, 6)).responses[0].error_code == ErrorCode.NONE

        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=3, assignments=(), configs=())
        made = await client.call(2, CreateTopicsRequest(topics=(topic,)), 7)

        assert made.topics[0].error_code == ErrorCode.NONE
        without_news(cluster, cluster.nodes[3], 1.0)
        by_id = DeleteTopicsRequest(topics=(DeleteTopicState(topic_id=made.topics[0].topic_id),), timeout_ms=1000)
        assert (await client.call(3, by_id, 6)).responses[0].error_code == ErrorCode.NONE

    tell(story)


def test_a_leader_without_its_lease_tells_nobody_as_a_follower_nearby_how_far_its_partition_goes() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        await create_topic(client)
        node = cluster.nodes[await until(client, lambda: client.leader(PARTITIONS[0]))]
        assert node.broker is not None
        cluster.network.cut(STORE_NAME, node.name)
        while node.broker.parts.membership.is_valid:
            await asyncio.sleep(0.1)

        # By now others may have written far beyond what it has.
        (answer,) = await fetch(client, node.broker_id, {PARTITIONS[0]: 7}, isolated=False, wait_ms=0, rack="rack-0")

        assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    tell(story, has_racks=True)


def test_a_topic_deleted_by_its_id_does_not_take_its_namesake_along() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        spec = TopicSpec(name=TOPIC)
        await create(client, spec)
        await until(client, lambda: refreshed(client))
        old = client.topic_ids[TOPIC]
        without_news(cluster, cluster.nodes[2], 1.0)
        request = DeleteTopicsRequest(topics=(DeleteTopicState(topic_id=old),), timeout_ms=1000)
        await client.call(1, request, 6)
        await create(client, spec)

        # Broker 2 knows only the old one, and is told of both changes while it is at work.
        answer = await client.call(2, request, 6)

        assert answer.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        broker = cluster.nodes[1].broker
        assert broker is not None
        assert broker.image.topics[TOPIC].topic_id != old

    tell(story)


async def refreshed(client: ClusterClient) -> bool | None:
    await client.refresh()
    return True if TOPIC in client.topic_ids else None


def test_a_follower_that_left_the_in_sync_set_is_let_in_when_it_is_heard_of_again_and_not_before() -> None:
    """One whose disk had failed left by itself, was let in for what was once known of it, left again, and so on."""
    state = PartitionState(replicas=(1, 2, 3), leader=1, isr=(1, 2, 3))
    leader = LeaderState.begin(1, state, end_offset=10, high_watermark=10, now=0.0, lag_time_max_s=3.0, min_insync_replicas=2)
    for follower in (2, 3):
        leader.on_fetch(follower, 10, 0, 10, 1.0, broker_epoch=follower)
    leader.on_state(state.changed(isr=(1, 3)), 1.5)

    assert leader.propose(10, 2.0, lambda broker, epoch: True) is None
    leader.on_fetch(2, 10, 0, 10, 2.5, broker_epoch=2)
    assert leader.propose(10, 2.5, lambda broker, epoch: True) == {1: -1, 2: 2, 3: 3}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("offset", [0, 5])
def test_a_power_failure_amid_a_truncation_leaves_a_shorter_log_and_not_a_later_one(seed: int, offset: int) -> None:
    medium = Medium(random.Random(seed))
    clock = SimulatedClock(SimulatedLoop(0), Machine("any"))
    disk = SimulatedDisk(medium, clock.wall_ms, lambda: None)
    disk.make_directory(Path("log"))
    disk.sync_directory(Path())
    config = LogConfig(segment_bytes=200)
    log = Log.open(Path("log"), config, disk=disk, clock=clock, clean=True)
    for _ in range(12):
        log.append(build_batch([Record(0, 1, None, b"x" * 30)]), 0)
    log.sync()
    removed = log.truncate_to(offset) if offset else log.truncate_fully_and_start_at(0)
    medium.lose_power()

    again = Log.open(Path("log"), config, disk=disk, clock=clock, clean=False)

    assert len(removed) > 1
    assert again.start_offset == 0
    bases = [segment.base_offset for segment in again.segments]
    assert bases[0] == 0
    assert bases == list(range(0, 2 * len(bases), 2))


def test_a_high_watermark_is_written_down_only_as_far_as_the_log_is_flushed() -> None:
    """Else a power failure brings back what a follower gave up, below a high watermark that is about something else."""
    flusher = Flusher(SimulatedLoop(0))
    log = MemoryLog(LogConfig(), clock=SimulatedClock(SimulatedLoop(0), Machine("any")))
    follower = Partition(PARTITIONS[0], UUID(int=1), log, flusher=flusher, loop=SimulatedLoop(0))
    follower.high_watermark = 38

    high_watermarks, _ = positions([follower])

    assert log.flushed_offset == 0
    assert high_watermarks == {PARTITIONS[0]: 0}


def test_what_its_leader_has_not_any_more_goes_before_a_follower_s_high_watermark_passes_it() -> None:
    """Nobody can tell any more whether it was ever committed: below the leader's log start, logs are not compared."""
    log = MemoryLog(LogConfig(), clock=SimulatedClock(SimulatedLoop(0), Machine("any")))
    for _ in range(4):
        log.append(build_batch([Record(0, 1, None, b"written by nobody else")]), 0)
    follower = Partition(PARTITIONS[0], UUID(int=1), log, flusher=Flusher(SimulatedLoop(0)), loop=SimulatedLoop(0))
    seen: list[tuple[int, int]] = []
    follower.on_high_watermark.append(lambda: seen.append((log.start_offset, follower.high_watermark)))
    following = SimpleNamespace(removal=SimpleNamespace(unlink_soon=lambda removed: None))
    fetcher: Any = SimpleNamespace(_following=following, _moved_starts={})

    Fetcher._append(fetcher, follower, PartitionData(partition_index=0, error_code=0, high_watermark=4, log_start_offset=4))

    assert seen == [(4, 4)]
