"""Quotas in a cluster: a topic's storage is counted where it lies, and changes of the cluster are paid for."""

from collections.abc import Iterable

import pytest

from headrace.broker.partitions.partition import Partition
from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_TOPIC_ID
from headrace.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from headrace.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.integration.memory_cluster import MemoryCluster, play

RECORD = "x" * 10_000


async def limit(cluster: MemoryCluster, kind: str, name: str | None, quota: str, value: float) -> None:
    entry = EntryData(
        entity=(EntityData(entity_type=kind, entity_name=name),), ops=(OpData(key=quota, value=value, remove=False),)
    )
    reply = await cluster.call(1, AlterClientQuotasRequest(entries=(entry,), validate_only=False), 1)
    assert reply.entries[0].error_code == ErrorCode.NONE, reply
    await cluster.until(lambda: all(broker.parts.quotas.active for broker in cluster.brokers.values()))


async def write(cluster: MemoryCluster, partition: int) -> ErrorCode:
    leader = cluster.image.topics["t"].partitions[partition].leader
    response = await cluster.produce(leader, "t", RECORD, partition=partition)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize("factor", [1, 3])
def test_a_topic_of_one_partition_may_use_all_the_storage_it_was_given(factor: int) -> None:
    async def story() -> None:
        async with MemoryCluster(3) as cluster:
            await cluster.create_topic("t", 1, factor)
            await limit(cluster, "topic", "t", "storage_bytes", 95_000)

            codes = [await write(cluster, 0) for _ in range(12)]
            assert codes == [ErrorCode.NONE] * 10 + [ErrorCode.POLICY_VIOLATION] * 2

    play(story)


@pytest.mark.parametrize("factor", [1, 3])
def test_what_lies_in_partitions_that_others_lead_counts_too(factor: int) -> None:
    async def story() -> None:
        async with MemoryCluster(3) as cluster:
            await cluster.create_topic("t", 3, factor)
            await limit(cluster, "topic", "t", "storage_bytes", 95_000)
            # Nothing is shared out beforehand: one partition may have it all.
            assert [await write(cluster, 0) for _ in range(10)] == [ErrorCode.NONE] * 10

            # Whoever leads another one asks, once somebody writes to it.
            await write(cluster, 1)
            sizes = cluster.brokers[cluster.image.topics["t"].partitions[1].leader].parts.topic_sizes
            await cluster.until(lambda: sizes.size_of("t") >= 95_000)
            assert await write(cluster, 1) is ErrorCode.POLICY_VIOLATION
            (own,) = [p.log.size_bytes for p in leaders(cluster) if p.identity.partition == 1]
            assert own < 30_000, "what it holds itself is far below the limit"

    play(story)


def test_what_was_known_of_a_topic_is_forgotten_with_it() -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", 2, 1)
            await limit(cluster, "topic", "t", "storage_bytes", 95_000)
            await write(cluster, 0)
            sizes = cluster.brokers[cluster.image.topics["t"].partitions[1].leader].parts.topic_sizes
            await cluster.until(lambda: sizes.size_of("t") >= 10_000)
            request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t", topic_id=NO_TOPIC_ID),), timeout_ms=10_000)
            await cluster.call(1, request, 6)
            await cluster.until(lambda: all("t" not in broker.image.topics for broker in cluster.brokers.values()))
            await cluster.create_topic("t", 2, 1)

            assert all(broker.parts.topic_sizes.size_of("t") == 0 for broker in cluster.brokers.values())

    play(story)


def leaders(cluster: MemoryCluster) -> Iterable[Partition]:
    return (p for broker in cluster.brokers.values() for p in broker.parts.replicas.of_topic("t") if p.is_leader)


def topic(name: str, partitions: int) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=())


async def create(cluster: MemoryCluster, version: int, *topics: CreatableTopic, validate: bool = False) -> tuple[int, list[int]]:
    request = CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=validate)
    reply = await cluster.call(1, request, version)
    return reply.throttle_time_ms, [result.error_code for result in reply.topics]


def test_whoever_creates_and_deletes_too_much_is_refused_until_it_has_paid() -> None:
    """A rate of one partition a second: eleven are free, one topic more may overdraw (KIP-599)."""

    async def story() -> None:
        async with MemoryCluster(1) as cluster:
            await limit(cluster, "client-id", "test", "controller_mutation_rate", 1)
            exceeded = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            # What cannot be done costs nothing.
            assert await create(cluster, 7, topic("bad/name", 50)) == (0, [ErrorCode.INVALID_TOPIC_EXCEPTION])
            throttle, codes = await create(cluster, 7, topic("a", 10), topic("b", 100), topic("c", 1))
            assert codes == [ErrorCode.NONE, ErrorCode.NONE, exceeded]
            assert 90_000 < throttle <= 99_000

            assert set(cluster.image.topics) == {"a", "b"}
            # The connection rests; another client's quota is another's.
            cluster.client.close()
            more = CreatePartitionsTopic(name="a", count=11, assignments=None)
            grown = await cluster.call(1, CreatePartitionsRequest(topics=(more,), timeout_ms=10_000, validate_only=False), 3)
            assert (grown.results[0].error_code, grown.throttle_time_ms > 0) == (exceeded, True)
            cluster.client.close()
            gone = await cluster.call(
                1, DeleteTopicsRequest(topics=(DeleteTopicState(name="a", topic_id=NO_TOPIC_ID),), timeout_ms=10_000), 6
            )
            assert (gone.responses[0].error_code, gone.throttle_time_ms > 0) == (exceeded, True)
            assert set(cluster.image.topics) == {"a", "b"}

    play(story)


def test_versions_that_do_not_know_the_error_are_served_and_told_to_wait() -> None:
    async def story() -> None:
        async with MemoryCluster(1) as cluster:
            await limit(cluster, "client-id", "test", "controller_mutation_rate", 20)
            throttle, codes = await create(cluster, 5, topic("a", 200), topic("b", 30))

            assert codes == [ErrorCode.NONE] * 2
            assert 400 < throttle <= 500

    play(story)
