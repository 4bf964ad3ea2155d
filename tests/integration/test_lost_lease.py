"""A broker whose lease has ended, and which has not noticed yet."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from headrace.metadata.memory import MemoryStore
from tests.integration.memory_cluster import MemoryCluster, play
from tests.support.waiting import stays_async


def test_it_leaves_the_store_alone_until_it_is_registered_again() -> None:
    async def story() -> None:
        async with MemoryCluster(1, settings={"broker.session.timeout.ms": "60000"}) as cluster:
            broker = cluster.brokers[1]
            await cluster.store.revoke(broker.parts.membership.lease)
            await cluster.until(lambda: not broker.image.brokers)
            asked = 0
            transact = MemoryStore.transact

            async def count(store: MemoryStore, *arguments: object) -> object:
                nonlocal asked
                asked += 1
                return await transact(store, *arguments)  # type: ignore[arg-type]

            MemoryStore.transact = count  # type: ignore[method-assign, assignment]
            try:
                await stays_async(lambda: asked <= 3, 0.3, lambda: f"at most three questions to the store: {asked}")
            finally:
                MemoryStore.transact = transact  # type: ignore[method-assign]

    play(story)


def test_one_that_leads_again_and_again_does_not_gather_those_who_want_to_hear_of_failures() -> None:
    async def story() -> None:
        async with MemoryCluster(1, settings={"offsets.topic.num.partitions": "1"}) as cluster:
            broker = cluster.brokers[1]
            await cluster.create_topic("__consumer_offsets", factor=1)
            await cluster.until(lambda: bool(broker.parts.replicas.of_topic("__consumer_offsets")))
            (partition,) = broker.parts.replicas.of_topic("__consumer_offsets")
            may_lead, told = broker.parts.replica_changes.may_lead, []
            for _ in range(10):
                for leads in (False, True):
                    broker.parts.replica_changes.may_lead = may_lead if leads else lambda: False
                    broker.parts.replica_changes.reconsider_roles()
                    await broker.parts.replica_changes.settled()
                told.append(len(partition._on_failure))

            assert partition.is_leader
            assert told[-1] == told[0]

    play(story)
