"""A broker that crashes at every single step of its work on transactions: each transaction ends whole, one way or the other.

The broker runs in the simulation.  Its disk fails at the first, the second, the third ... change of any file, until a run gets
through without; after each crash the broker starts again on what is left.
"""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.model.names import TRANSACTION_STATE
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from simulation.clients.client import ClusterClient, Unavailable
from simulation.clients.reading import read_to_end
from simulation.rules.history import History
from simulation.world.cluster import Node, SimulatedCluster
from simulation.world.loop import SimulatedLoop
from simulation.world.machine import Machine
from tests.integration.transaction_session import TRANSACTION_TIMEOUT_MS, Session
from tests.support.torture import only_in_torture

TOPIC = "events"
LEFT, RIGHT = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
GROUP_ID = "readers"
# How each transaction of the story ends, as its producer wants it.
STORY = (True, False, True)
RESTART_PAUSE_S = 0.3
# Long enough for the others to take over.
FAILOVER_PAUSE_S = 8.0
# In a cluster every step costs more to simulate: every so-manieth is crashed at.
CLUSTER_STRIDE = 6


class PoweredCluster(SimulatedCluster):
    """A crash takes what was not synced."""


class KilledCluster(SimulatedCluster):
    """A crash is that of the process alone: what was written is in the page cache."""

    def _on_power_failure(self, node: Node) -> None:
        self._end(node, silently=False)


@dataclass
class Result:
    """What was told, and what is there afterwards."""

    crashed: bool = False
    told: list[bool] = field(default_factory=list)
    begun: int = 0
    asked_to_end: int = 0
    left: list[str] = field(default_factory=list)
    right: list[str] = field(default_factory=list)
    everything: list[str] = field(default_factory=list)
    offset: int = -1


class Story:
    """One run: a few transactions over two partitions and a group's offset, and one crash, of the transaction coordinator."""

    def __init__(
        self, kind: type[SimulatedCluster], version: int, crash_at: int, *, client_dies: bool = False, brokers: int = 1
    ) -> None:
        self.loop = SimulatedLoop(crash_at)
        self.brokers = brokers
        self.kind = kind
        self.version = version
        self.crash_at = crash_at
        self.client_dies = client_dies
        self.result = Result()

    def run(self) -> Result:
        result = self.loop.run(self._run())
        assert not self.loop.failures, self.loop.failures
        return result

    async def _run(self) -> Result:
        self.cluster = self.kind(self.loop, History(self.loop), broker_count=self.brokers)
        for node in self.cluster.nodes.values():
            self.cluster.start(node)
        session = await self._on_client("setup", self._set_up)
        self.node = self._coordinator()
        self._arm()
        producing = self.loop.start_on(Machine("producer"), self._produce(session))
        keeper = self.loop.create_task(self._keep_running(producing))
        await asyncio.wait([producing])
        if not producing.cancelled():
            producing.result()
        await keeper
        assert self.node.disk is not None
        self.node.disk.changes_until_power_failure = None
        await self._on_client("checker", self._look)
        return self.result

    def _coordinator(self) -> Node:
        broker = next(node.broker for node in self.cluster.nodes.values() if node.broker is not None)
        state = broker.image.partition(TRANSACTION_STATE, 0)
        assert state is not None
        return self.cluster.nodes[state.leader]

    def _arm(self) -> None:
        assert self.node.disk is not None
        self.node.disk.changes_until_power_failure = self.crash_at

    async def _keep_running(self, producing: "asyncio.Task[None]") -> None:
        """Start the broker again when it has crashed."""
        while not producing.done() and self.node.is_running:
            await asyncio.sleep(0.001)
        if self.node.is_running:
            return
        self.result.crashed = True
        if self.client_dies:
            producing.cancel()
        await asyncio.sleep(RESTART_PAUSE_S if self.brokers == 1 else FAILOVER_PAUSE_S)
        self.cluster.start(self.node)

    # --- clients

    def _client(self, name: str) -> ClusterClient:
        return ClusterClient(name, self.cluster.addresses, (TOPIC,), History(self.loop), random.Random(1))

    async def _on_client(self, name: str, work: Any) -> Any:
        return await self.loop.start_on(Machine(name), work(self._client(name)))

    async def _set_up(self, client: ClusterClient) -> Session:
        topic = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=self.brokers, assignments=(), configs=())
        while True:
            try:
                response = await client.call_any(CreateTopicsRequest(topics=(topic,)), 5)
                if response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    break
            except Unavailable:
                pass
            await client.back_off()
        session = Session(client, "story", self.version)
        await session.begin_life()
        # The offsets topic comes to be here, so that its files do not count as steps of the story.
        await session.committed_offset(GROUP_ID, LEFT)
        return session

    async def _produce(self, session: Session) -> None:
        for number, committed in enumerate(STORY):
            self.result.begun += 1
            await session.write(LEFT, f"left-{number}")
            await session.write(RIGHT, f"right-{number}")
            await session.commit_offset(GROUP_ID, LEFT, number + 1)
            self.result.asked_to_end += 1
            await session.end(committed=committed)
            self.result.told.append(committed)

    async def _look(self, client: ClusterClient) -> None:
        # Long enough for the time-out of a transaction whose producer died with it.
        await asyncio.sleep(TRANSACTION_TIMEOUT_MS / 1000 + 5)
        self.result.left = await self._values(client, LEFT, isolated=True)
        self.result.right = await self._values(client, RIGHT, isolated=True)
        self.result.everything = await self._values(client, LEFT, isolated=False)
        self.result.offset = await Session(client, "looker", self.version).committed_offset(GROUP_ID, LEFT)

    async def _values(self, client: ClusterClient, partition: TopicPartition, *, isolated: bool) -> list[str]:
        while True:
            try:
                return [value for _, value in await read_to_end(client, partition, isolated=isolated)]
            except Unavailable:
                await client.back_off()


def check(result: Result, *, client_dies: bool) -> None:
    left = [int(value.removeprefix("left-")) for value in result.left]
    right = [int(value.removeprefix("right-")) for value in result.right]

    assert left == right, "one transaction, one outcome"
    assert left == sorted(set(left)), "in order, and each once"
    for number, committed in enumerate(result.told):
        assert (number in left) == committed, f"transaction {number} is not what its producer was told"
    if not client_dies:
        assert len(result.told) == len(STORY), "a producer that keeps asking gets through"
    undecided = [number for number in left if number >= len(result.told)]
    for number in undecided:
        assert number < result.asked_to_end, "nobody asked to commit this"
        assert STORY[number]
    assert result.offset == (left[-1] + 1 if left else -1), "the offset goes with its transaction"


GOES_ON, DIES = False, True


# Each of both once; all eight together take four times as long and meet the same steps.
@pytest.mark.parametrize(
    ("kind", "version", "client_dies"),
    [
        (PoweredCluster, 0, GOES_ON),
        (KilledCluster, 2, DIES),
        pytest.param(PoweredCluster, 0, DIES, marks=only_in_torture),
        pytest.param(KilledCluster, 2, GOES_ON, marks=only_in_torture),
    ],
)
def test_a_crash_at_any_step_leaves_every_transaction_whole(
    kind: type[SimulatedCluster], version: int, client_dies: bool
) -> None:
    crashes = 0
    while True:
        result = Story(kind, version, crashes + 1, client_dies=client_dies).run()
        check(result, client_dies=client_dies)
        if not result.crashed:
            break
        crashes += 1

    assert crashes >= 20, "the story has more steps than that"
    assert result.left == ["left-0", "left-2"]
    assert result.everything == ["left-0", "left-1", "left-2"], "a reader of everything sees what was aborted"


@pytest.mark.parametrize("version", [0, 2])
def test_a_coordinator_that_dies_in_a_cluster_is_succeeded_by_one_that_finishes_its_work(version: int) -> None:
    crash_at = 1
    while True:
        result = Story(KilledCluster, version, crash_at, brokers=3).run()
        check(result, client_dies=False)
        if not result.crashed:
            break
        crash_at += CLUSTER_STRIDE

    assert crash_at > CLUSTER_STRIDE, "the coordinator was never crashed"
