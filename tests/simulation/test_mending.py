"""A replica on a disk that forgets is mended from the others, and nobody ever reads what is wrong."""

import asyncio
import contextvars

import pytest

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from simulation.clients.client import ClusterClient, Unavailable
from simulation.clients.producing import Identity, produce_batch
from simulation.clients.reading import fetch, read_to_end
from simulation.operators.topics import TopicSpec, create_topic
from simulation.rules.agreement import disagreements
from simulation.world.cluster import DATA, Node, SimulatedCluster
from simulation.world.medium import Inode
from tests.support import simulated
from tests.support.simulated import TOPIC, Story, settled

PARTITION = TopicPartition(TOPIC, 0)
VALUES = [f"p/{number}" for number in range(40)]
BATCH_BYTES = 72
DAMAGED = 4
LAST_OF_SEGMENT = 8
LEADER_EPOCH_POSITION = 12
MAGIC_POSITION = 16


def tell(story: Story) -> None:
    """A cluster of three with one partition of many small segments, on all of them."""

    async def from_the_start(cluster: SimulatedCluster, client: ClusterClient) -> None:
        configs = {"internal.segment.bytes": "700", "min.insync.replicas": "2"}
        await create_topic(client, TopicSpec(name=PARTITION.topic, configs=configs))
        await simulated.until(client, lambda: client.leader(PARTITION))
        for value in VALUES:
            await produce_batch(client, PARTITION, [value], Identity(-1, -1), -1)
        await story(cluster, client)

    simulated.tell(from_the_start)


async def restart_with_damage(
    cluster: SimulatedCluster, node: Node, *, cleanly: bool, batch: int = DAMAGED, within_batch: int = 69
) -> None:
    """Flip a bit of a batch while a broker is down.  One that was stopped cleanly does not look at it when it starts."""
    if cleanly:
        await asyncio.get_running_loop().create_task(cluster.stop(node), context=contextvars.Context())
    else:
        cluster.kill(node)
    cluster.observer.rotten.add(node.broker_id)
    flip(node, batch * BATCH_BYTES + within_batch)
    await asyncio.sleep(3)
    cluster.start(node)
    while not node.serves:
        await asyncio.sleep(0.1)


def flip(node: Node, at: int) -> None:
    inode = node.medium.file(DATA / str(PARTITION) / f"{0:020d}.log")
    assert isinstance(inode, Inode)
    inode.data[at] ^= 4
    inode.durable[at] ^= 4


def is_mended(cluster: SimulatedCluster) -> bool:
    brokers = [node.broker for node in cluster.nodes.values() if node.broker is not None]
    return not list(disagreements(brokers))


async def read_all(client: ClusterClient) -> list[str]:
    while True:
        try:
            return [value for _, value in await read_to_end(client, PARTITION, isolated=False)]
        except Unavailable:
            await client.back_off()


def test_a_damaged_leader_hands_over_and_is_mended_when_somebody_reads_there() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        node = cluster.nodes[await client.leader(PARTITION)]
        await restart_with_damage(cluster, node, cleanly=True)
        await settled(cluster)
        # The preferred leader leads again after a while, and nobody has yet read what it has.
        while await current_leader(client) != node.broker_id:
            await client.back_off()

        (answer,) = await fetch(client, node.broker_id, {PARTITION: DAMAGED}, isolated=False, wait_ms=0)
        assert answer.error is ErrorCode.CORRUPT_MESSAGE
        client.forget_leader(PARTITION)

        assert await read_all(client) == VALUES
        await settled(cluster)
        assert is_mended(cluster)
        assert cluster.history.violations == []

    tell(story)


async def current_leader(client: ClusterClient) -> int:
    client.forget_leader(PARTITION)
    try:
        return await client.leader(PARTITION)
    except Unavailable:
        return -1


def test_a_damaged_follower_that_notices_when_it_starts_is_mended_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        leader = await client.leader(PARTITION)
        node = next(each for each in cluster.nodes.values() if each.broker_id != leader)
        await restart_with_damage(cluster, node, cleanly=False)

        await settled(cluster)

        assert is_mended(cluster)
        assert "events-0 is set aside to be mended" in caplog.text
        assert await read_all(client) == VALUES

    tell(story)


def test_the_only_one_in_sync_goes_on_with_all_that_is_sound() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        leader = cluster.nodes[await client.leader(PARTITION)]
        for node in cluster.nodes.values():
            if node is not leader:
                cluster.kill(node)
        await asyncio.sleep(5)
        await restart_with_damage(cluster, leader, cleanly=False)
        client.forget_leader(PARTITION)
        while await current_leader(client) != leader.broker_id:
            await client.back_off()

        (broken,) = await fetch(client, leader.broker_id, {PARTITION: DAMAGED}, isolated=False, wait_ms=0)
        (sound,) = await fetch(client, leader.broker_id, {PARTITION: 30}, isolated=False, wait_ms=0)
        assert broken.error is ErrorCode.CORRUPT_MESSAGE
        assert sound.error is ErrorCode.NONE
        assert sound.records[0] == (30, VALUES[30])

        for node in cluster.nodes.values():
            if node is not leader:
                cluster.start(node)
        assert await read_all(client) == VALUES
        await settled(cluster)
        assert is_mended(cluster)

    tell(story)


def test_a_flipped_leader_epoch_is_damage_though_no_checksum_covers_it() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        node = cluster.nodes[await client.leader(PARTITION)]
        await restart_with_damage(cluster, node, cleanly=True, within_batch=LEADER_EPOCH_POSITION)
        await settled(cluster)
        while await current_leader(client) != node.broker_id:
            await client.back_off()

        (answer,) = await fetch(client, node.broker_id, {PARTITION: DAMAGED}, isolated=False, wait_ms=0)

        assert answer.error is ErrorCode.CORRUPT_MESSAGE
        await settled(cluster)
        assert is_mended(cluster)

    tell(story)


def test_retention_that_meets_damage_leaves_a_follower_in_its_place() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        leader = await client.leader(PARTITION)
        node = next(each for each in cluster.nodes.values() if each.broker_id != leader)
        await asyncio.sleep(6)  # until it is written down that the segment need not be looked at after a crash
        await restart_with_damage(cluster, node, cleanly=False, batch=LAST_OF_SEGMENT, within_batch=MAGIC_POSITION)
        await asyncio.sleep(5)

        await settled(cluster)

        assert node.broker is not None
        assert node.broker.parts.replicas.find(PARTITION.topic, 0).failure is None

    tell(story)
