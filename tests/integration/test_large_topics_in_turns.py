"""A topic of thousands of partitions is made in small turns of the event loop, so that a lease is renewed meanwhile."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headrace.controller import placement
from headrace.controller.entries import PartitionState
from headrace.controller.image import ClusterImage
from headrace.metadata.cluster import PARTITIONS_PER_TURN
from headrace.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.integration.memory_cluster import MemoryCluster, play

PARTITIONS = 3 * PARTITIONS_PER_TURN


class Turns:
    """Counts how often something is done in each turn of the event loop."""

    def __init__(self) -> None:
        self._turn = 0
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.done: dict[str, Counter[int]] = {}
        self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._turn += 1
        self._loop.call_soon(self._next)

    def counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        counts = self.done[name] = Counter()

        def counting(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == self._thread:
                counts[self._turn] += 1
            return function(*args, **kwargs)

        return counting

    def most(self) -> dict[str, int]:
        return {name: max(counts.values(), default=0) for name, counts in self.done.items()}


def test_no_turn_deals_with_more_partitions_than_it_may_where_nothing_is_to_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with MemoryCluster(1, {"broker.session.timeout.ms": "60000"}) as cluster:
            await cluster.create_topic("small", 1, factor=1)
            turns = Turns()
            monkeypatch.setattr(placement, "walk", turns.counted("placed", placement.walk))
            monkeypatch.setattr(PartitionState, "to_value", turns.counted("written down", PartitionState.to_value))
            topic = CreatableTopic(name="large", num_partitions=PARTITIONS, replication_factor=1, assignments=(), configs=())
            created = await cluster.call(1, CreateTopicsRequest(topics=(topic,), timeout_ms=10_000, validate_only=True), 5)
            assert [each.error_code for each in created.topics] == [0]
            more = CreatePartitionsTopic(name="small", count=PARTITIONS, assignments=None)
            grown = await cluster.call(1, CreatePartitionsRequest(topics=(more,), timeout_ms=10_000, validate_only=True), 3)
            assert [each.error_code for each in grown.results] == [0]

            assert {name: each.partition_count for name, each in cluster.image.topics.items()} == {"small": 1}
            assert all(most <= PARTITIONS_PER_TURN for most in turns.most().values()), turns.most()
            monkeypatch.undo()

    play(story)


def test_no_turn_of_the_event_loop_deals_with_more_partitions_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with MemoryCluster(1, {"broker.session.timeout.ms": "60000"}) as cluster:
            turns = Turns()
            monkeypatch.setattr(placement, "walk", turns.counted("placed", placement.walk))
            monkeypatch.setattr(PartitionState, "to_value", turns.counted("written down", PartitionState.to_value))
            monkeypatch.setattr(ClusterImage, "apply", turns.counted("taken into the image", ClusterImage.apply))
            await cluster.create_topic("large", PARTITIONS, factor=1)
            topic = CreatePartitionsTopic(name="large", count=2 * PARTITIONS, assignments=None)
            await cluster.call(1, CreatePartitionsRequest(topics=(topic,), timeout_ms=10_000, validate_only=False), 3)
            assert cluster.image.topics["large"].partition_count == 2 * PARTITIONS

            assert turns.done["taken into the image"].total() >= 2 * PARTITIONS
            assert all(most <= PARTITIONS_PER_TURN for most in turns.most().values()), turns.most()
            monkeypatch.undo()

    play(story)
