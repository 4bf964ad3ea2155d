"""One simulated run, from a seed: a cluster, clients, a time of faults, a time to heal, and the rules."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Container, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from headrace.model.identity import TopicPartition
from headrace.model.names import CONSUMER_OFFSETS
from headrace.testing.simulation.agreement import disagreements
from headrace.testing.simulation.checkers import FinalState, check
from headrace.testing.simulation.client import ClusterClient, Unavailable
from headrace.testing.simulation.cluster import SimulatedCluster
from headrace.testing.simulation.consuming import Auditor, Consumer, committed_offsets
from headrace.testing.simulation.grouping import GroupMember
from headrace.testing.simulation.heartbeating import HeartbeatingMember
from headrace.testing.simulation.history import Acknowledged, History, Polled, StoryHandler
from headrace.testing.simulation.loop import SimulatedLoop
from headrace.testing.simulation.machine import Machine
from headrace.testing.simulation.moving import Mover
from headrace.testing.simulation.nemesis import Faults, Nemesis
from headrace.testing.simulation.producing import CarelessProducer, Producer
from headrace.testing.simulation.reading import earliest_offset, read_to_end
from headrace.testing.simulation.sides import SIDES, Make, Worker
from headrace.testing.simulation.topics import TopicSpec, create_topic
from headrace.testing.simulation.transacting import TransactionalProducer

TOPIC = "events"
SHARED_GROUP = "group-shared"
HEARTBEATING_GROUP = "group-heartbeating"
REPLICATION_FACTOR = 3
AUDIT_PAUSE_S = (0.1, 0.6)

Result = TypeVar("Result")
Launched = tuple[Worker, "asyncio.Task[None]"]
HEALING_SECONDS_MAX = 120.0
SETTLE_LOOK_S = 0.25
VIOLATIONS_TOLD = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run consists of; by default the seed decides."""

    brokers: int = 3
    partitions: int = 2
    min_insync_replicas: int = 2
    flush: str = "ack"
    segment_bytes: int = 1 << 20
    producers: int = 2
    in_flight_max: int = 1
    careless: int = 0
    transactors: int = 1
    shared_transactional_id: bool = False
    transaction_version: int = 2
    consumers: int = 1
    members: int = 0
    heartbeating: int = 0
    racks: bool = False
    sides: tuple[str, ...] = ()
    isolated: bool = True
    fault_seconds: float = 9.0
    pause_s: tuple[float, float] = (0.2, 0.9)
    faults: Faults = field(default_factory=Faults)

    def described(self) -> list[str]:
        """For people."""
        clients = {
            "producers": self.producers,
            "careless producers": self.careless,
            f"transactional producers (version {self.transaction_version})": self.transactors,
            "consumers": self.consumers,
            "members of a classic group": self.members,
            "members of a KIP-848 group": self.heartbeating,
        }
        return [
            f"{self.brokers} brokers{', in racks' if self.racks else ''}; {TOPIC} has {self.partitions} partition(s), "
            f"min.insync.replicas {self.min_insync_replicas}, flush {self.flush}, segments of {self.segment_bytes} bytes",
            "clients: " + ", ".join(f"{count} {what}" for what, count in clients.items() if count),
            f"beside it: {', '.join(self.sides) or 'nothing'}; faults: {self.faults}",
        ]

    @staticmethod
    def of_seed(chance: random.Random) -> "Plan":
        # Where nothing is flushed before it is acknowledged, a power failure of several brokers may lose it, and is not tried.
        flush = chance.choice(["ack", "ack", "ack", "os"])
        # Where one broker alone may acknowledge, what its disk forgets is lost.
        minimum = chance.choice([1, 2, 2, 2])
        return Plan(
            brokers=chance.choice([3, 3, 4]),
            partitions=chance.choice([1, 2, 3]),
            flush=flush,
            min_insync_replicas=minimum,
            segment_bytes=chance.choice([1 << 20, 2048, 700]),
            careless=chance.choice([0, 1]),
            in_flight_max=chance.choice([1, 1, 4]),
            transactors=chance.choice([0, 1, 1, 2]),
            shared_transactional_id=chance.choice([True, False]),
            transaction_version=chance.choice([1, 2, 2]),
            consumers=chance.choice([0, 1, 1]),
            members=chance.choice([0, 0, 2]),
            heartbeating=chance.choice([0, 0, 2]),
            racks=chance.choice([True, False, False]),
            sides=tuple(chance.sample(list(SIDES), chance.choice([0, 1, 1, 2]))),
            isolated=chance.choice([True, False]),
            faults=Faults(power_failures=flush == "ack", disk_errors=flush == "ack", rot=flush == "ack" and minimum > 1),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    seed: int
    plan: Plan
    history: History
    violations: list[str]

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
        head = f"seed {self.seed}: {len(self.violations)} rule(s) broken; replay with: make simulate SEED={self.seed}"
        return "\n".join([head, *self.broken(), f"the last {lines} events:", *self.history.story[-lines:]])

    def broken(self) -> list[str]:
        """The broken rules in the order in which they were noticed, each once, the first few."""
        counts = Counter(self.violations)
        told = [f"  {text}" + (f" ({count} times)" if count > 1 else "") for text, count in counts.items()]
        return told if len(told) <= VIOLATIONS_TOLD else [*told[:VIOLATIONS_TOLD], f"  and {len(told) - VIOLATIONS_TOLD} more"]


def run_seed(seed: int, plan: Plan | None = None) -> Outcome:
    """Run the scenario of a seed and check it."""
    loop = SimulatedLoop(seed)
    history = History(loop)
    chosen = plan or Plan.of_seed(loop.random)
    with _story_of(history):
        history.tell(f"seed {seed}")
        for line in chosen.described():
            history.tell(line)
        scenario = _Scenario(loop, history, chosen)
        try:
            violations = loop.run(scenario.run())
        except Exception as error:
            violations = [*history.violations, f"the simulation itself failed: {error!r}"]
        violations += [f"unhandled: {failure}" for failure in loop.failures]
    return Outcome(seed, chosen, history, violations)


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
                "segment.bytes": str(plan.segment_bytes),
            },
        )
        self._partitions = self._spec.partitions
        self._sides = [SIDES[name](plan.flush) for name in plan.sides]
        self._groups: list[str] = []

    async def run(self) -> list[str]:
        plan = self._plan
        self._cluster = cluster = SimulatedCluster(self._loop, self._history, plan.brokers, has_racks=plan.racks)
        for node in cluster.nodes.values():
            cluster.start(node)
        for spec in (self._spec, *(side.spec for side in self._sides)):
            await self._on_client("admin", partial(create_topic, spec=spec))
        writers, readers = self._writers(), self._readers()
        await Nemesis(cluster, plan.faults, [task.get_name() for _, task in [*writers, *readers]]).run(
            until=self._loop.now + plan.fault_seconds
        )
        cluster.heal()
        if await self._comes_to_rest(writers, readers):
            final = await self._on_client("reader", self._read_all)
            # The last reader may be the first who reads what a disk has forgotten: that is mended then.
            await self._settled()
            brokers = [node.broker for node in cluster.nodes.values() if node.broker is not None]
            return [*check(self._history, final, cluster.observer.committed), *disagreements(brokers, cluster.observer.rotten)]
        return self._history.violations

    def _writers(self) -> list[Launched]:
        plan = self._plan
        writers = [
            *(self._launch(f"producer-{n}", self._producer) for n in range(1, plan.producers + 1)),
            *(self._launch(f"careless-{n}", self._careless) for n in range(1, plan.careless + 1)),
            *(self._launch(f"transactor-{n}", self._transactor) for n in range(1, plan.transactors + 1)),
        ]
        for side in self._sides:
            writers += [self._launch(name, make, side.spec) for name, make in side.writers.items()]
        if plan.brokers > REPLICATION_FACTOR:
            writers.append(self._launch("mover", self._mover))
        return writers

    def _readers(self) -> list[Launched]:
        plan = self._plan
        readers = [self._launch(f"consumer-{n}", self._consumer) for n in range(1, plan.consumers + 1)]
        readers += [self._launch(f"member-{n}", self._member) for n in range(1, plan.members + 1)]
        readers += [self._launch(f"heartbeat-{n}", self._heartbeating) for n in range(1, plan.heartbeating + 1)]
        for side in self._sides:
            readers += [self._launch(name, make, side.spec) for name, make in side.readers.items()]
            self._groups += side.groups
        if self._groups:
            readers.append(self._launch("auditor", self._auditor))
        return readers

    # -- clients

    def _client(self, name: str, topics: tuple[str, ...]) -> tuple[Machine, ClusterClient]:
        chance = random.Random(self._loop.random.getrandbits(64))
        return Machine(name), ClusterClient(name, self._cluster.addresses, topics, self._history, chance)

    def _launch(self, name: str, make: Make, spec: TopicSpec | None = None) -> Launched:
        spec = spec or self._spec
        machine, client = self._client(name, (spec.name,))
        worker = make(client)
        return worker, self._loop.start_on(machine, worker.run(spec.partitions), name)

    def _producer(self, client: ClusterClient) -> Worker:
        return Producer(client, pause_s=self._plan.pause_s, in_flight_max=self._plan.in_flight_max)

    def _careless(self, client: ClusterClient) -> Worker:
        return CarelessProducer(client, pause_s=self._plan.pause_s)

    def _mover(self, client: ClusterClient) -> Worker:
        return Mover(client, factor=REPLICATION_FACTOR)

    def _transactor(self, client: ClusterClient) -> Worker:
        transactional_id = "id-shared" if self._plan.shared_transactional_id else f"id-{client.name}"
        transactor = TransactionalProducer(
            client, transactional_id, version=self._plan.transaction_version, pause_s=self._plan.pause_s
        )
        self._groups.append(transactor.group)
        return transactor

    def _consumer(self, client: ClusterClient) -> Worker:
        rack = self._cluster.rack_of(1) if self._plan.racks else ""
        consumer = Consumer(client, isolated=self._plan.isolated, rack=rack)
        self._groups.append(consumer.group)
        return consumer

    def _member(self, client: ClusterClient) -> Worker:
        if SHARED_GROUP not in self._groups:
            self._groups.append(SHARED_GROUP)
        return GroupMember(client, SHARED_GROUP, isolated=self._plan.isolated)

    def _heartbeating(self, client: ClusterClient) -> Worker:
        if HEARTBEATING_GROUP not in self._groups:
            self._groups.append(HEARTBEATING_GROUP)
        return HeartbeatingMember(client, HEARTBEATING_GROUP, TOPIC, isolated=self._plan.isolated)

    def _auditor(self, client: ClusterClient) -> Worker:
        return Auditor(client, self._groups, pause_s=AUDIT_PAUSE_S)

    async def _on_client(self, name: str, work: Callable[[ClusterClient], Coroutine[Any, Any, Any]]) -> Any:
        machine, client = self._client(name, (TOPIC, *(side.spec.name for side in self._sides)))
        try:
            return await self._loop.start_on(machine, work(client))
        finally:
            client.close()

    async def _read_all(self, client: ClusterClient) -> FinalState:
        for group in self._groups:
            partitions = next((side.spec.partitions for side in self._sides if group in side.groups), self._partitions)
            await self._until_available(client, partial(committed_offsets, client, group, partitions))
        everything: dict[TopicPartition, list[tuple[int, str]]] = {}
        isolated: dict[TopicPartition, list[tuple[int, str]]] = {}
        for partition in self._partitions:
            everything[partition] = await self._read(client, partition, isolated=False)
            isolated[partition] = await self._read(client, partition, isolated=True)
        starts: dict[TopicPartition, int] = {}
        for side in self._sides:
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
            compacted=frozenset(p for side in self._sides if side.is_compacted for p in side.spec.partitions),
            lossy=frozenset(p for side in self._sides if side.is_lossy for p in side.spec.partitions),
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
            and await self._settled(in_use=(CONSUMER_OFFSETS,))
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

    async def _settled(self, in_use: Container[str] = ()) -> bool:
        deadline = self._loop.now + HEALING_SECONDS_MAX
        while (why := self._cluster.unsettled(in_use)) is not None:
            if self._loop.now > deadline:
                self._history.violate(f"the cluster did not recover in {HEALING_SECONDS_MAX:.0f} s: {why}")
                return False
            await asyncio.sleep(SETTLE_LOOK_S)
        return True
