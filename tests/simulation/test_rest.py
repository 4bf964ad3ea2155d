"""When a simulated cluster is at rest, and when it is only well."""

import asyncio

from headrace.model.identity import TopicPartition
from headrace.model.names import CONSUMER_OFFSETS
from simulation.clients.client import ClusterClient
from simulation.clients.consuming import Reader
from simulation.operators.topics import TopicSpec, create_topic
from simulation.world.cluster import SimulatedCluster
from tests.support.simulated import TOPIC, tell, until

PARTITION = TopicPartition(TOPIC, 0)
COMMITS = 50
COMMIT_PAUSE_S = 0.1
FETCH_WAIT_S = 0.5


async def commit_again_and_again(cluster: SimulatedCluster, client: ClusterClient) -> list[str | None]:
    """What kept the cluster from rest after each commit, and, in between, that it was well."""
    reader = Reader(client, "group", isolated=False)
    reader.begin({PARTITION: 0})
    await until(client, reader.commit)
    unrest = []
    for _ in range(COMMITS):
        await asyncio.sleep(COMMIT_PAUSE_S)
        await reader.commit()
        unrest.append(cluster.unsettled())
        assert cluster.unsettled(in_use=(CONSUMER_OFFSETS,)) is None
    return unrest


def test_followers_of_a_partition_in_use_trail_its_high_watermark_by_one_write_and_catch_up_when_it_is_not() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        await create_topic(client, TopicSpec(name=TOPIC))

        unrest = await commit_again_and_again(cluster, client)
        await asyncio.sleep(2 * FETCH_WAIT_S)

        assert all(why is not None and why.startswith(f"{CONSUMER_OFFSETS}-0 on") for why in unrest)
        assert cluster.unsettled() is None

    tell(story)


def test_a_topic_in_use_whose_replica_is_gone_is_not_well() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        await create_topic(client, TopicSpec(name=TOPIC))
        await commit_again_and_again(cluster, client)

        cluster.kill(cluster.nodes[2])

        assert cluster.unsettled(in_use=(CONSUMER_OFFSETS,)) == "broker-2 does not run"

    tell(story)
