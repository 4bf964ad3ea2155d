"""Simulated clients do what real ones do, so that what they meet is the cluster's doing."""

from headrace.model.identity import TopicPartition
from simulation.clients.client import ClusterClient
from simulation.operators.topics import TopicSpec, create_topic
from simulation.world.cluster import SimulatedCluster
from tests.support.simulated import TOPIC, tell, until

PARTITIONS = [TopicPartition(TOPIC, index) for index in range(2)]


def test_a_client_asks_nobody_under_an_epoch_in_which_another_leads() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        await create_topic(client, TopicSpec(name=TOPIC, partition_count=len(PARTITIONS)))
        known = await until(client, lambda: client.leaders(PARTITIONS))
        before = known[PARTITIONS[0]]
        cluster.kill(cluster.nodes[before])

        while True:
            client.forget_leader(PARTITIONS[1])
            leaders = await until(client, lambda: client.leaders(PARTITIONS))
            assert (leaders[PARTITIONS[0]] == before) == (client.leader_epochs[PARTITIONS[0]] == 0)
            if leaders[PARTITIONS[0]] != before:
                break
            await client.back_off()

    tell(story)
