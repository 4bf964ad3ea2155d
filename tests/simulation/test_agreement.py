"""That replicas hold the same in the end is looked at byte by byte, or key by key: a difference is found and told."""

from headrace.broker.partitions.partition import Partition
from headrace.model.identity import TopicPartition
from headrace.records.batch import build_batch
from headrace.records.record import Record
from simulation.clients.client import ClusterClient
from simulation.clients.producing import Identity, produce_batch
from simulation.operators.topics import TopicSpec, create_topic
from simulation.rules.agreement import disagreements
from simulation.world.cluster import SimulatedCluster
from tests.support.simulated import TOPIC, settled, tell, until

PARTITION = TopicPartition(TOPIC, 0)
VALUES = [f"p/{number}" for number in range(5)]


def found(cluster: SimulatedCluster) -> list[str]:
    return list(disagreements(node.broker for node in cluster.nodes.values() if node.broker is not None))


async def follower_of_some(cluster: SimulatedCluster, client: ClusterClient, **configs: str) -> Partition:
    """A follower's replica of a partition with some records, when all is even."""
    await create_topic(client, TopicSpec(name=TOPIC, configs=configs))
    await until(client, lambda: client.leader(PARTITION))
    for value in VALUES:
        await produce_batch(client, PARTITION, [value], Identity(-1, -1), -1)
    await settled(cluster)
    leader = await client.leader(PARTITION)
    node = next(node for node in cluster.nodes.values() if node.broker_id != leader)
    assert node.broker is not None
    return node.broker.parts.replicas.find(TOPIC, 0)


def forge_last(follower: Partition, key: bytes) -> None:
    """Put another record in the place of the last, with all that belongs to it."""
    last = follower.log.end_offset - 1
    follower.log.truncate_to(last)
    forged = build_batch([Record(0, 1, key, b"forged")], base_offset=last, leader_epoch=follower.leader_epoch)
    follower.log.append_as_follower(forged)


def test_replicas_that_hold_the_same_agree_and_one_other_record_is_found() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        follower = await follower_of_some(cluster, client)
        assert found(cluster) == []

        forge_last(follower, b"p")

        assert [text for text in found(cluster) if text.startswith("events-0 differs in the end")]

    tell(story)


def test_of_a_compacted_topic_the_last_word_on_a_key_must_be_the_same() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        follower = await follower_of_some(cluster, client, **{"cleanup.policy": "compact"})
        assert found(cluster) == []

        forge_last(follower, b"p")

        assert [text for text in found(cluster) if text.startswith("events-0 differs in the end")]

    tell(story)


def test_a_replica_that_lacks_the_end_is_not_even() -> None:
    async def story(cluster: SimulatedCluster, client: ClusterClient) -> None:
        follower = await follower_of_some(cluster, client)
        follower.log.truncate_to(follower.log.end_offset - 1)
        follower.on_truncated()

        why = cluster.unsettled()
        assert why is not None
        assert why.startswith("events-0 ends at ")

    tell(story)
