"""Proposals to change in-sync sets reach the store together, and one that was overtaken holds up nobody else."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.cluster.insync_proposals import InSyncProposals
from headrace.controller.entries import (
    BrokerRegistration,
    Condition,
    Operation,
    PartitionState,
    Put,
    TopicEntry,
    admitted_key,
    broker_key,
    encode_number,
    partition_key,
    topic_key,
)
from headrace.host.entropy import SystemEntropy
from headrace.metadata.cluster import ClusterMetadata
from headrace.metadata.memory import MemoryStore
from headrace.metadata.store import StoreUnavailable, TransactionResult
from headrace.model.identity import TopicPartition
from headrace.model.topic_settings import LogConfig
from headrace.replication.leader import LeaderState
from headrace.testing.tasks import keep

TOPIC = SystemEntropy().uuid()
PARTITIONS = 300


class CountingStore(MemoryStore):
    """Remembers how many operations each transaction had that was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []
        self.failures: list[Exception] = []

    async def transact(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> TransactionResult:
        self.asked.append(len(operations))
        assert len({operation.key for operation in operations if isinstance(operation, Put)}) == len(operations), "etcd refuses"
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop()
        return await super().transact(conditions, operations)


class Leader:
    """Broker 1, which leads every partition of a topic that broker 2 has just caught up with."""

    def __init__(self, store: CountingStore, view: ClusterMetadata) -> None:
        self.store = store
        self.cluster = view
        self.image = view.image
        membership: Any = SimpleNamespace(registration=view.image.brokers[1], epoch=view.image.brokers[1].epoch)
        self.tasks: list[asyncio.Task[None]] = []
        self.proposals = InSyncProposals(view, membership, self.spawn)

    def spawn(self, coroutine: Coroutine[Any, Any, None], kind: str = "") -> None:
        self.tasks.append(asyncio.create_task(coroutine))

    def propose(self, index: int) -> LeaderState:
        partition: Any = SimpleNamespace(identity=TopicPartition("t", index), topic_id=TOPIC, config=LogConfig())
        state = self.image.topics["t"].partitions[index]
        leader = LeaderState(1, state, 0, 10.0, 1, 0, proposed=frozenset({1, 2}))
        self.proposals.add(partition, leader, {1: -1, 2: -1})
        return leader

    async def written(self) -> None:
        await asyncio.gather(*self.tasks)

    def in_sync(self, index: int) -> tuple[int, ...]:
        return self.image.topics["t"].partitions[index].isr


def tell(story: Callable[[Leader], Awaitable[None]]) -> None:
    async def run() -> None:
        store = CountingStore()
        view = ClusterMetadata(store, SystemEntropy())
        await view.start(keep)
        for broker in (1, 2):
            result = await store.transact([], [Put(broker_key(broker), BrokerRegistration(broker_id=broker).to_value())])
            await store.transact([], [Put(admitted_key(broker), encode_number(result.revision))])
        alone = PartitionState(replicas=(1, 2), leader=1, isr=(1,)).to_value()
        for index in range(PARTITIONS):
            await store.transact([], [Put(partition_key(TOPIC, index), alone)])
        topic = TopicEntry(topic_id=TOPIC, partition_count=PARTITIONS, configs={}).to_value()
        made = await store.transact([], [Put(topic_key("t"), topic)])
        await view.wait_until(lambda image: image.revision >= made.revision, 5)
        store.asked.clear()
        try:
            async with asyncio.timeout(10):
                await story(Leader(store, view))
        finally:
            await view.close()
            await store.close()

    asyncio.run(run())


def test_proposals_that_come_together_are_written_together() -> None:
    async def story(broker: Leader) -> None:
        for index in range(PARTITIONS):
            broker.propose(index)
        await broker.written()

        assert all(broker.in_sync(index) == (1, 2) for index in range(PARTITIONS))
        assert len(broker.store.asked) <= PARTITIONS // 50

    tell(story)


def test_one_that_was_overtaken_is_refused_and_the_others_are_written() -> None:
    async def story(broker: Leader) -> None:
        leaders = [broker.propose(index) for index in range(20)]
        # The controller is faster: it has put the leader of one partition out of office.
        overtaken = broker.image.topics["t"].partitions[7].changed(leader=2, leader_epoch=1, isr=(2,))
        await broker.store.transact([], [Put(partition_key(TOPIC, 7), overtaken.to_value())])
        await broker.written()

        assert [index for index in range(20) if broker.in_sync(index) != (1, 2)] == [7]
        assert broker.in_sync(7) == (2,)
        assert leaders[7].proposed is None

    tell(story)


def test_a_proposal_is_not_held_back_to_wait_for_others() -> None:
    async def story(broker: Leader) -> None:
        broker.propose(0)
        await broker.written()
        broker.propose(1)
        await broker.written()

        assert broker.store.asked == [1, 1]

    tell(story)


def test_a_leadership_that_begins_anew_proposes_again_and_only_that_counts() -> None:
    async def story(broker: Leader) -> None:
        before, after = broker.propose(3), broker.propose(3)
        await broker.written()

        assert broker.in_sync(3) == (1, 2)
        assert broker.store.asked == [1]
        assert before is not after

    tell(story)


def test_a_store_that_fails_in_whatever_way_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.broker.cluster.insync_proposals.RETRY_S", 0.001)

    async def story(broker: Leader) -> None:
        broker.store.failures = [RuntimeError("never seen before"), StoreUnavailable("away")]
        for index in range(10):
            broker.propose(index)
        await broker.written()

        assert all(broker.in_sync(index) == (1, 2) for index in range(10))

    tell(story)
