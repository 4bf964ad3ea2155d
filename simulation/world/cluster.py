"""A simulated cluster: real brokers, each on a machine, a disk and a clock of its own, and the metadata store they share."""

import asyncio
import random
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from headrace.broker.app import Broker
from headrace.broker.parts import Host, Parts
from headrace.host.entropy import Entropy
from headrace.metadata.store import MetadataStore
from headrace.model.broker_settings import BrokerConfig
from headrace.model.identity import NO_BROKER, TopicPartition
from simulation.clients.heartbeating import SESSION_MS
from simulation.clients.sharing import LOCK_MS
from simulation.rules.history import History
from simulation.rules.observer import Observer
from simulation.rules.tally import Fault
from simulation.world import closed
from simulation.world.disk import SimulatedDisk
from simulation.world.host import SimulatedClock, SimulatedEntropy
from simulation.world.loop import SimulatedLoop
from simulation.world.machine import BLOCKING_S, Machine
from simulation.world.medium import Medium
from simulation.world.network import DELAY_S, SimulatedNetwork
from simulation.world.store import NAME as STORE_NAME
from simulation.world.store import WATCH_LAG_S, StoreServer

PORT = 9092
DATA = Path("data")
RESTART_PAUSE_S = 1.0
# Clocks of real machines differ by parts in a million; these differ by parts in fifty, to be sure.
CLOCK_RATES = (0.98, 1.02)
WALL_SKEW_MS = 5_000
RACKS = 2

SETTINGS = {
    "log.dirs": str(DATA),
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "broker.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "3000",
    "log.flush.offset.checkpoint.interval.ms": "5000",
    "log.retention.check.interval.ms": "1500",
    "log.cleaner.backoff.ms": "1000",
    "offsets.topic.segment.bytes": "3000",
    "transaction.state.log.segment.bytes": "3000",
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.share.min.session.timeout.ms": str(SESSION_MS),
    "group.share.session.timeout.ms": str(SESSION_MS),
    "group.share.min.heartbeat.interval.ms": "300",
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.record.lock.duration.ms": str(LOCK_MS),
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.max.delivery.count.limit": "1000",
    "group.share.delivery.count.limit": "1000",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.segment.bytes": "3000",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "leader.imbalance.check.interval.seconds": "7",
}

# The same on every machine: a seed is one story.
PAGE_CACHE_BYTES = 64 * 1024 * 1024


class SimulatedBroker(Broker):
    """The broker itself, with somebody looking over its shoulder from the start."""

    observer: Observer

    async def _join(self, parts: Parts) -> None:
        self.observer.attach(self)
        await super()._join(parts)


@dataclass(slots=True)
class Node:
    """A computer with a broker on it, through all its lives."""

    broker_id: int
    medium: Medium
    clock_rate: float
    wall_skew_ms: int
    machine: Machine | None = None
    disk: SimulatedDisk | None = None
    broker: SimulatedBroker | None = None
    serves: bool = False
    # A disk fault took partitions offline: only a restart brings them back.
    needs_restart: bool = False

    @property
    def name(self) -> str:
        return f"broker-{self.broker_id}"

    @property
    def is_running(self) -> bool:
        return self.machine is not None and not self.machine.is_crashed

    @property
    def is_paused(self) -> bool:
        return self.machine is not None and self.machine.is_paused


@dataclass(slots=True)
class SimulatedCluster:
    """Make one inside a running SimulatedLoop."""

    loop: SimulatedLoop
    history: History
    broker_count: int = 3
    has_racks: bool = False
    is_closed: bool = False  # everybody signs in, and rules say who may do what
    settings: Mapping[str, str] = field(default_factory=dict)
    network: SimulatedNetwork = field(init=False)
    store: StoreServer = field(init=False)
    observer: Observer = field(init=False)
    nodes: dict[int, Node] = field(init=False)

    def __post_init__(self) -> None:
        self.network = SimulatedNetwork(self.loop)
        self.store = StoreServer(self.network)
        self.observer = Observer(self.history)
        if self.is_closed:
            self.store.transact([], closed.entries())
        self.nodes = {number: self._new_node(number) for number in range(1, self.broker_count + 1)}

    def _new_node(self, broker_id: int) -> Node:
        chance = self.loop.random
        return Node(
            broker_id,
            Medium(random.Random(chance.getrandbits(64))),
            clock_rate=chance.uniform(*CLOCK_RATES),
            wall_skew_ms=chance.randrange(-WALL_SKEW_MS, WALL_SKEW_MS),
        )

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        return {node.broker_id: (node.name, PORT) for node in self.nodes.values()}

    @property
    def machine_names(self) -> list[str]:
        """Everybody between whom a link can be cut."""
        return [*(node.name for node in self.nodes.values()), STORE_NAME]

    def rack_of(self, broker_id: int) -> str:
        return f"rack-{broker_id % RACKS}"

    # -- lives of brokers

    def start(self, node: Node) -> None:
        assert not node.is_running, f"{node.name} runs already"
        machine = Machine(node.name, clock_rate=node.clock_rate, wall_skew_ms=node.wall_skew_ms)
        clock = SimulatedClock(self.loop, machine)
        node.machine = machine
        node.serves = False
        node.needs_restart = False
        node.disk = SimulatedDisk(node.medium, clock.wall_ms, lambda: self._on_power_failure(node))
        node.broker = SimulatedBroker(self._config(node), self._host(node, machine, node.disk))
        node.broker.observer = self.observer
        node.broker.supervisor.on_death_noted = lambda name, error: self._on_death(node, name, error)
        self.history.tell("starts", node.name)
        self.loop.tally[Fault.CLOCK_SKEW] += abs(node.wall_skew_ms) >= 1000
        self.loop.start_on(machine, self._serve(node, machine, node.broker), name=f"serve {node.name}")

    def _on_death(self, node: Node, name: str, error: BaseException) -> None:
        """No fault of the simulation may kill a task: the broker is wrong about something."""
        self.loop.failures.append(f"{name} died on {node.name}: {error!r}")

    def _config(self, node: Node) -> BrokerConfig:
        protocol = closed.PROTOCOL if self.is_closed else "PLAINTEXT"
        own = {"node.id": str(node.broker_id), "listeners": f"{protocol}://{node.name}:{PORT}"}
        if self.is_closed:
            own |= closed.settings()
        if self.has_racks:
            own |= {"broker.rack": self.rack_of(node.broker_id), "replica.selector.class": "rack"}
        return BrokerConfig({**SETTINGS, **self.settings, **own})

    def _host(self, node: Node, machine: Machine, disk: SimulatedDisk) -> Host:
        async def open_store(config: BrokerConfig, entropy: Entropy) -> MetadataStore:
            return self.store.connect(machine)

        entropy = SimulatedEntropy(random.Random(self.loop.random.getrandbits(64)))
        clock = SimulatedClock(self.loop, machine)
        return Host(
            clock=clock,
            disk=disk,
            entropy=entropy,
            worker_processes=False,
            open_store=open_store,
            page_cache_bytes=PAGE_CACHE_BYTES,
        )

    async def _serve(self, node: Node, machine: Machine, broker: Broker) -> None:
        """A broker that cannot start ends, and whoever looks after it starts it again."""
        try:
            await broker.start()
            node.serves = True
            self.history.tell("serves")
        except Exception as error:
            self.history.tell(f"could not start: {error!r}")
            self.loop.call_on(None, 0.0, self._exited, node, machine)

    def _exited(self, node: Node, machine: Machine) -> None:
        if not machine.is_crashed:
            self.kill(node)
            self.loop.call_on(None, RESTART_PAUSE_S, self._start_again, node, machine)

    def _start_again(self, node: Node, machine: Machine) -> None:
        if node.machine is machine:
            self.start(node)

    def kill(self, node: Node) -> None:
        """As SIGKILL does: the process is gone, its files stay as they are."""
        self.history.tell("is killed", node.name)
        self._end(node, silently=False)

    def cut_power(self, node: Node) -> None:
        """The machine is gone, and with it what was not synced."""
        self.history.tell("loses its power", node.name)
        self._lose_power(node)

    def _on_power_failure(self, node: Node) -> None:
        self.history.tell("loses its power in the middle of a write")
        self._lose_power(node)

    def switch_off(self, node: Node) -> None:
        """The machine of a broker that has stopped goes off: what the stop did not sync is gone, too."""
        assert not node.is_running
        self._forget(node)

    def _lose_power(self, node: Node) -> None:
        self._end(node, silently=True)
        self._forget(node)

    def _forget(self, node: Node) -> None:
        lost = node.medium.lose_power()
        self.history.tell(f"has lost its power: {lost}", node.name)
        self.loop.tally[Fault.FORGETFUL_CRASH] += lost.forgotten > 0
        self.loop.tally[Fault.TORN_WRITE] += lost.torn

    def _end(self, node: Node, *, silently: bool) -> None:
        assert node.machine is not None
        assert node.disk is not None
        if node.broker is not None:
            self.observer.detach(node.broker)
        self.loop.crash(node.machine)
        self.network.crash(node.machine, silently=silently)
        node.disk.is_off = True

    async def stop(self, node: Node) -> None:
        """A controlled shutdown."""
        machine, broker = node.machine, node.broker
        if machine is None or broker is None or machine.is_crashed or not node.serves:
            return
        self.history.tell("is told to stop", node.name)
        try:
            async with asyncio.timeout(60):
                await self.loop.start_on(machine, broker.stop())
            self.history.tell("has stopped", node.name)
        except Exception as error:
            self.history.tell(f"did not stop well: {error!r}", node.name)
        if node.machine is machine and not machine.is_crashed:
            self._end(node, silently=False)

    # -- healing

    def heal(self) -> None:
        """Every link works, the store answers, every machine runs, and every disk is well."""
        self.history.tell("everything is healed")
        self.network.heal_all()
        self.network.delay_s = DELAY_S
        self.store.is_down = False
        self.store.watch_lag_s = WATCH_LAG_S
        self.store.on_healed()
        for node in self.nodes.values():
            self._heal_node(node)

    def _heal_node(self, node: Node) -> None:
        node.medium.is_full = False
        if node.is_running and node.needs_restart:
            self.kill(node)
        if not node.is_running:
            self.start(node)
            return
        assert node.machine is not None
        assert node.disk is not None
        if node.is_paused:
            self.loop.resume(node.machine)
        node.machine.blocking_seconds = BLOCKING_S
        node.disk.failing_syncs = 0
        node.disk.changes_until_power_failure = None

    def waiting_for_consent(self) -> Iterator[tuple[UUID, TopicPartition]]:
        """Partitions that nobody may lead until an operator agrees to lose something, as a broker sees them that sees all others.

        All their replicas were killed with records that they had acknowledged and not flushed, as their topics allow them to."""
        for node in self.nodes.values():
            if not node.is_running or node.broker is None or not hasattr(node.broker, "parts"):
                continue
            image = node.broker.cluster.image
            if set(image.brokers) != set(self.nodes):
                continue
            for topic, index, state in image.partitions():
                nobody = state.leader == NO_BROKER and not state.isr and not state.elr
                if nobody and node.broker.parts.topic_configs.of(topic.name).flush != "ack":
                    yield topic.topic_id, TopicPartition(topic.name, index)
            return

    def unsettled(self, in_use: Container[str] = ()) -> str | None:
        """Why the cluster is not yet as it should be; None when all replicas are in sync and, but for topics in use, even."""
        for node in self.nodes.values():
            if not node.is_running or node.broker is None or not hasattr(node.broker, "parts"):
                return f"{node.name} does not run"
            image = node.broker.cluster.image
            if set(image.brokers) != set(self.nodes):
                return f"{node.name} sees only brokers {sorted(image.brokers)}"
            for topic, index, state in image.partitions():
                if state.leader not in self.nodes or sorted(state.isr) != sorted(state.replicas):
                    return f"{topic.name}-{index} is {state} as {node.name} sees it"
        return self.observer.why_not_even([node.broker for node in self.nodes.values() if node.broker is not None], in_use)
