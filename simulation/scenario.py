"""One simulated run, from a seed: a cluster, clients, a time of faults, a time to heal, and the rules."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Container, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from headrace.model.identity import TopicPartition
from headrace.model.names import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from simulation.clients.client import ClusterClient, Unavailable
from simulation.clients.consuming import committed_offsets
from simulation.clients.reading import earliest_offset, read_to_end
from simulation.clients.rebirth import in_this_life
from simulation.faults.nemesis import Nemesis
from simulation.operators.consenting import elect_at_any_price
from simulation.operators.topics import TopicSpec, create_topic
from simulation.participants import Launched, Participants
from simulation.plan import REPLICATION_FACTOR, TOPIC, Plan
from simulation.rules.agreement import disagreements, disagreements_about_rights
from simulation.rules.checkers import FinalState, check
from simulation.rules.history import Acknowledged, Consented, History, Polled, StoryHandler
from simulation.rules.tally import Tally, signs_of
from simulation.side_topics import QUEUE, REBORN, SIDE_TOPICS
from simulation.world.cluster import SimulatedCluster
from simulation.world.loop import SimulatedLoop

Result = TypeVar("Result")
HEALING_SECONDS_MAX = 120.0
SETTLE_LOOK_S = 0.25
# How long an operator waits for the brokers to find a leader by themselves.
CONSENT_AFTER_S = 10.0
VIOLATIONS_TOLD = 12
CLOSED_ONE_IN = 4
QUEUE_ONE_IN = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    seed: int
    plan: Plan
    history: History
    violations: list[str]
    faults: Tally = field(default_factory=Tally)
    # As asked for; None when the seed decided.
    fault_seconds: float | None = None

    @property
    def tally(self) -> Tally:
        """What happened, and how often."""
        return self.faults + signs_of(self.history.story)

    @property
    def digest(self) -> str:
        return self.history.digest()

    @property
    def acknowledged(self) -> int:
        return sum(1 for _ in self.history.of(Acknowledged))

    @property
    def polled(self) -> int:
        return sum(1 for _ in self.history.of(Polled))

    def report(self, lines: int) -> str:
        """For people: the seed, what was broken, and the end of the story."""
        longer = "" if self.fault_seconds is None else f' ARGS="--fault-seconds {self.fault_seconds:g}"'
        head = f"seed {self.seed}: {len(self.violations)} rule(s) broken; replay with: make simulate SEED={self.seed}{longer}"
        return "\n".join([head, *self.broken(), f"the last {lines} events:", *self.history.story[-lines:]])

    def broken(self) -> list[str]:
        """The broken rules in the order in which they were noticed, each once, the first few."""
        counts = Counter(self.violations)
        told = [f"  {text}" + (f" ({count} times)" if count > 1 else "") for text, count in counts.items()]
        return told if len(told) <= VIOLATIONS_TOLD else [*told[:VIOLATIONS_TOLD], f"  and {len(told) - VIOLATIONS_TOLD} more"]


def run_seed(seed: int, *, fault_seconds: float | None = None) -> Outcome:
    """Run the scenario of a seed and check it."""
    loop = SimulatedLoop(seed)
    history = History(loop)
    plan = Plan.of_seed(loop.random, fault_seconds)
    plan = replace(plan, is_closed=seed % CLOSED_ONE_IN == CLOSED_ONE_IN - 1)
    if seed % QUEUE_ONE_IN == 1:
        plan = replace(plan, side_topics=(*plan.side_topics, QUEUE))
    with _story_of(history):
        history.tell(f"seed {seed}")
        for line in plan.described():
            history.tell(line)
        scenario = _Scenario(loop, history, plan)
        try:
            violations = loop.run(scenario.run())
        except Exception as error:
            violations = [*history.violations, f"the simulation itself failed: {error!r}"]
        violations += [f"unhandled: {failure}" for failure in loop.failures]
    return Outcome(seed, plan, history, violations, loop.tally, fault_seconds)


@contextmanager
def _story_of(history: History) -> Iterator[None]:
    """Let what the brokers log go into the story, and nowhere else, for a while."""
    logger = logging.getLogger("headrace")
    handlers, level, propagates = logger.handlers, logger.level, logger.propagate
    logger.handlers, logger.propagate = [StoryHandler(history)], False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers, logger.propagate = handlers, propagates
        logger.setLevel(level)


class _Scenario:
    def __init__(self, loop: SimulatedLoop, history: History, plan: Plan) -> None:
        self._loop = loop
        self._history = history
        self._plan = plan
        self._spec = TopicSpec(
            name=TOPIC,
            partition_count=plan.partitions,
            factor=REPLICATION_FACTOR,
            configs={
                "min.insync.replicas": str(plan.min_insync_replicas),
                "headrace.flush": plan.flush,
                "internal.segment.bytes": str(plan.segment_bytes),
            },
        )
        self._partitions = self._spec.partitions
        self._side_topics = [SIDE_TOPICS[name](plan.flush) for name in plan.side_topics]

    async def run(self) -> list[str]:
        plan = self._plan
        self._cluster = cluster = SimulatedCluster(
            self._loop, self._history, plan.brokers, has_racks=plan.racks, is_closed=plan.is_closed
        )
        self._participants = Participants(cluster, plan, self._spec, self._side_topics)
        for node in cluster.nodes.values():
            cluster.start(node)
        for spec in (self._spec, *(side.spec for side in self._side_topics)):
            await self._on_client("admin", partial(create_topic, spec=spec))
        writers, readers = self._participants.writers(), self._participants.readers()
        await Nemesis(cluster, plan.faults, [task.get_name() for _, task in [*writers, *readers]]).run(
            until=self._loop.now + plan.fault_seconds
        )
        cluster.heal()
        operator = asyncio.create_task(self._consent_where_needed(), name="operator")
        try:
            return await self._end(writers, readers)
        finally:
            operator.cancel()

    async def _end(self, writers: Sequence[Launched], readers: Sequence[Launched]) -> list[str]:
        """When all is at rest again, every rule is checked."""
        cluster = self._cluster
        if await self._comes_to_rest(writers, readers):
            final = await self._on_client("reader", self._read_all)
            # The last reader may be the first who reads what a disk has forgotten: that is mended then.
            await self._settled()
            brokers = [node.broker for node in cluster.nodes.values() if node.broker is not None]
            return [
                *check(self._history, final, cluster.observer.committed),
                *disagreements(brokers, cluster.observer.rotten),
                *disagreements_about_rights(brokers, self._participants.ruler),
            ]
        return self._history.violations

    async def _on_client(self, name: str, work: Callable[[ClusterClient], Coroutine[Any, Any, Any]]) -> Any:
        machine, client = self._participants.client(name, (TOPIC, *(side.spec.name for side in self._side_topics)))
        try:
            return await self._loop.start_on(machine, work(client))
        finally:
            client.close()

    async def _read_all(self, client: ClusterClient) -> FinalState:
        for group in self._participants.groups:
            partitions = next((side.spec.partitions for side in self._side_topics if group in side.groups), self._partitions)
            await self._until_available(client, partial(committed_offsets, client, group, partitions))
        everything: dict[TopicPartition, list[tuple[int, str]]] = {}
        isolated: dict[TopicPartition, list[tuple[int, str]]] = {}
        for partition in self._partitions:
            everything[partition] = await self._read(client, partition, isolated=False)
            isolated[partition] = await self._read(client, partition, isolated=True)
        starts: dict[TopicPartition, int] = {}
        for side in self._side_topics:
            while side.spec.name not in client.topic_ids:
                await self._until_available(client, client.refresh)
            for partition in side.spec.partitions:
                name = side.named(partition, client)
                starts[name] = await self._until_available(client, partial(earliest_offset, client, partition))
                everything[name] = isolated[name] = await self._read(client, partition, isolated=False)
        return FinalState(
            everything,
            isolated,
            starts,
            compacted=frozenset(p for side in self._side_topics if side.is_compacted for p in side.spec.partitions),
            lossy=frozenset(p for side in self._side_topics if side.is_lossy for p in side.spec.partitions),
        )

    async def _read(self, client: ClusterClient, partition: TopicPartition, *, isolated: bool) -> list[tuple[int, str]]:
        return await self._until_available(client, lambda: read_to_end(client, partition, isolated=isolated))

    async def _until_available(self, client: ClusterClient, ask: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        while True:
            try:
                return await ask()
            except Unavailable:
                await client.back_off()

    # -- the end

    async def _comes_to_rest(self, writers: Sequence[Launched], readers: Sequence[Launched]) -> bool:
        """Writers end, and while readers go on and commit how far they are, all is mended; then they end, too."""
        return (
            await self._finished(writers)
            and await self._settled(in_use=(CONSUMER_OFFSETS, SHARE_GROUP_STATE))
            and await self._finished(readers)
            and await self._settled()
        )

    async def _finished(self, workers: Sequence[Launched]) -> bool:
        for worker, _ in workers:
            worker.stop()
        if not workers:
            return True
        done, pending = await asyncio.wait([task for _, task in workers], timeout=HEALING_SECONDS_MAX)
        for task in done:
            task.result()
        if pending:
            names = sorted(task.get_name() for task in pending)
            self._history.violate(f"{names} did not finish in {HEALING_SECONDS_MAX:.0f} s after all was healed")
        return not pending

    async def _consent_where_needed(self) -> None:
        """An operator looks after the cluster, now and then, and decides where the brokers must not."""
        while True:
            await asyncio.sleep(CONSENT_AFTER_S)
            for topic_id, partition in list(self._cluster.waiting_for_consent()):
                self._cluster.observer.forget(topic_id, partition)
                named = in_this_life(partition, topic_id) if partition.topic == REBORN else partition
                self._history.record(Consented(partition=named))
                await self._on_client("operator", partial(elect_at_any_price, partition=partition))

    async def _settled(self, in_use: Container[str] = ()) -> bool:
        deadline = self._loop.now + HEALING_SECONDS_MAX
        while (why := self._cluster.unsettled(in_use)) is not None:
            if self._loop.now > deadline:
                self._history.violate(f"the cluster did not recover in {HEALING_SECONDS_MAX:.0f} s: {why}")
                return False
            await asyncio.sleep(SETTLE_LOOK_S)
        return True
