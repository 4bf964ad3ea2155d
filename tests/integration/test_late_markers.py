"""A marker that waits for replicas holds up nobody: neither questions about other transactions, nor other markers."""

import asyncio

import pytest

from headrace.broker.coordinators.transactions import marker_writes as transaction_partitions
from headrace.broker.coordinators.transactions.markers import LATE_PURPOSE, PURPOSE
from headrace.broker.coordinators.transactions.verification import _Question
from headrace.coordination.transaction.markers import Marker
from headrace.model.errors import ErrorCode
from headrace.model.identity import ProducerIdentity, TopicPartition
from headrace.model.names import TRANSACTION_STATE
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from tests.integration.memory_cluster import MemoryCluster, has_coordinator, play

PRODUCER = ProducerIdentity(7, 0)
T = TopicPartition("t", 0)
SETTINGS = {"transaction.state.log.num.partitions": "1"}


def marker(partition: TopicPartition = T) -> Marker:
    return Marker(
        transactional_id="x", producer=PRODUCER, committed=True, partitions=frozenset({partition}), transaction_version=2
    )


async def cluster_with_a_held_partition(cluster: MemoryCluster) -> int:
    """Who leads the topic; its high watermark does not move any more."""
    await cluster.create_topic("t", factor=1)
    leader = cluster.image.topics["t"].partitions[0].leader
    await cluster.until(lambda: bool(cluster.brokers[leader].parts.replicas.of_topic("t")))
    cluster.brokers[leader].parts.replicas.find("t", 0).advance = lambda: None  # type: ignore[method-assign]
    await has_coordinator(cluster, FindCoordinatorRequest(key="x", key_type=1))
    await cluster.until(lambda: all(TRANSACTION_STATE in broker.image.topics for broker in cluster.brokers.values()))
    return leader


def test_a_question_about_a_transaction_does_not_wait_behind_a_marker_that_does() -> None:
    async def story() -> None:
        async with MemoryCluster(2, SETTINGS) as cluster:
            leader = await cluster_with_a_held_partition(cluster)
            other = cluster.brokers[3 - leader]
            late = asyncio.ensure_future(other.parts.transactions.sender._write_everywhere(marker(), 0))
            partition = cluster.brokers[leader].parts.replicas.find("t", 0)
            await cluster.until(lambda: partition.log.end_offset > 0)
            question = _Question("y", PRODUCER, adds=False)
            async with asyncio.timeout(5):
                errors = await other.parts.verification._put_remotely(leader, question, frozenset({T}))  # type: ignore[union-attr]

            assert errors[T] is not ErrorCode.NONE
            assert not late.done()
            del partition.advance
            partition.advance()
            assert await late == {T: ErrorCode.NONE}

    play(story)


def test_a_question_to_one_shard_does_not_wait_behind_another_shard_whose_replicas_do_not_confirm() -> None:
    async def story() -> None:
        async with MemoryCluster(2, {"transaction.state.log.num.partitions": "8"}) as cluster:
            await cluster.create_topic("t", factor=1)
            await has_coordinator(cluster, FindCoordinatorRequest(key="x", key_type=1))
            await cluster.until(lambda: all(TRANSACTION_STATE in broker.image.topics for broker in cluster.brokers.values()))
            held, free = await two_ids_of_one_coordinator(cluster)
            started = await cluster.call(1, InitProducerIdRequest(transactional_id=held, transaction_timeout_ms=60_000), 4)
            assert started.error_code == ErrorCode.NONE
            partition = cluster.brokers[1].parts.replicas.find(TRANSACTION_STATE, shard_of(cluster, held))
            partition.advance = lambda: None  # type: ignore[method-assign]
            end = partition.log.end_offset
            verification = cluster.brokers[2].parts.verification
            assert verification is not None
            producer = ProducerIdentity(started.producer_id, started.producer_epoch)
            waiting = asyncio.ensure_future(
                verification._put_to_coordinator(_Question(held, producer, adds=True), frozenset({T}))
            )
            await cluster.until(lambda: partition.log.end_offset > end)
            async with asyncio.timeout(5):
                errors = await verification._put_to_coordinator(_Question(free, PRODUCER, adds=False), frozenset({T}))

            assert errors[T] is not ErrorCode.NONE
            assert not waiting.done()
            del partition.advance
            partition.advance()
            assert await waiting == {T: ErrorCode.NONE}

    play(story)


def shard_of(cluster: MemoryCluster, transactional_id: str) -> int:
    return cluster.brokers[1].parts.transactions.shards.partition_of(transactional_id)


async def two_ids_of_one_coordinator(cluster: MemoryCluster) -> tuple[str, str]:
    """Two transactional ids that broker 1 coordinates, in different shards; both serve."""
    states = cluster.brokers[1].image.topics[TRANSACTION_STATE].partitions
    by_shard = {shard_of(cluster, name): name for name in map(str, range(100)) if states[shard_of(cluster, name)].leader == 1}
    first, second = list(by_shard.values())[:2]
    for name in (first, second):
        await has_coordinator(cluster, FindCoordinatorRequest(key=name, key_type=1))
        await cluster.until(lambda name=name: cluster.brokers[1].parts.transactions.shards.is_loaded(shard_of(cluster, name)))
    return first, second


def test_a_marker_that_is_late_is_answered_and_sent_again_where_it_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_partitions, "MARKER_SECONDS_MAX", 0.05)

    async def story() -> None:
        async with MemoryCluster(2, SETTINGS) as cluster:
            leader = await cluster_with_a_held_partition(cluster)
            sender = cluster.brokers[3 - leader].parts.transactions.sender
            assert sender._purpose_of(T) == PURPOSE

            assert await sender._write_everywhere(marker(), 0) == {T: ErrorCode.REQUEST_TIMED_OUT}
            assert sender._purpose_of(T) == LATE_PURPOSE
            # What was sent before may still be lost: that it is in the log settles nothing.
            assert await sender._write_everywhere(marker(), 0) == {T: ErrorCode.REQUEST_TIMED_OUT}
            partition = cluster.brokers[leader].parts.replicas.find("t", 0)
            del partition.advance
            partition.advance()
            assert await sender._write_everywhere(marker(), 0) in ({T: ErrorCode.NONE}, {T: ErrorCode.INVALID_PRODUCER_EPOCH})

    play(story)
