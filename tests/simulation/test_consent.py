"""A partition that waits for an operator's consent gets a leader when he gives it, and the last one that led it leads again."""

import asyncio

from headrace.model.identity import TopicPartition
from simulation.clients.client import ClusterClient
from simulation.clients.producing import Identity, produce_batch
from simulation.clients.reading import read_to_end
from simulation.operators.consenting import elect_at_any_price
from simulation.operators.topics import TopicSpec, create_topic
from simulation.world.cluster import SimulatedCluster
from tests.support.simulated import TOPIC, settled, tell, until

PARTITION = TopicPartition(TOPIC, 0)


def test_when_all_replicas_were_killed_with_unflushed_records_an_operators_consent_brings_the_partition_back() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        await create_topic(client, TopicSpec(name=TOPIC, configs={"headrace.flush": "os"}))
        await settled(cluster)
        await until(client, lambda: produce_batch(client, PARTITION, ["p/1"], Identity(-1, -1), -1))
        for node in cluster.nodes.values():
            cluster.kill(node)
        for node in cluster.nodes.values():
            cluster.start(node)
        while not (waiting := list(cluster.waiting_for_consent())):
            await asyncio.sleep(0.1)
        assert [partition for _, partition in waiting] == [PARTITION]

        await elect_at_any_price(client, PARTITION)

        await settled(cluster)
        assert list(cluster.waiting_for_consent()) == []
        client.forget_leader(PARTITION)
        assert await until(client, lambda: read_to_end(client, PARTITION, isolated=False)) == [(0, "p/1")]

    tell(story)


def test_where_everything_is_flushed_before_it_is_acknowledged_nobody_is_asked() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        await create_topic(client, TopicSpec(name=TOPIC))
        await settled(cluster)
        for node in cluster.nodes.values():
            cluster.kill(node)
        for node in cluster.nodes.values():
            cluster.start(node)

        await settled(cluster)

        assert list(cluster.waiting_for_consent()) == []

    tell(story)
