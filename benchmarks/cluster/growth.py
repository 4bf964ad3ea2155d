"""Throughput grows with brokers, simulated: each on a core of its own, up to more of them than this machine has.

The brokers are the real ones, in the simulation's one thread and on its clock.  What a broker does costs it, on that clock, the
time that it takes here; what arrives for it meanwhile waits.  Clients, the store, disks and the network cost nothing but their
delays.  So this shows what brokers cost each other, and where work piles up; not what a real network or a real disk would add.
"""

import asyncio
import random
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from headrace.model.identity import TopicPartition
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from simulation.clients.client import ClusterClient, Unavailable
from simulation.operators.topics import TopicSpec, create_topic
from simulation.rules.history import History
from simulation.world.cluster import SimulatedCluster
from simulation.world.loop import SimulatedLoop
from simulation.world.machine import Machine, current_machine
from simulation.world.network import SimulatedNetwork, SimulatedTransport

COLUMNS = ("brokers", "factor", "MB/s", "to the fewest", "cores busy", "of each")
POINTS = ((1, 1), (2, 1), (4, 1), (8, 1), (3, 3), (6, 3), (12, 3), (24, 3))
TOPIC = "t"
PARTITIONS = 48
ROUNDS = 32  # under way at a time, each of a request to every partition
MESSAGES, MESSAGE_BYTES = 100, 100
PRODUCE_VERSION = 11
WARM_UP_S = 0.1
DELAY_S = (0.00005, 0.0002)  # from machine to machine, in one room
SERVED_S = 1e-7  # after which what a message set off, and what that cost, is known


class CostedLoop(SimulatedLoop):
    """Keeps account of the time that brokers' callbacks take."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.busy_until: defaultdict[str, float] = defaultdict(float)
        self.spent = 0.0

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        return super().call_soon(self._costed(callback, context), *args, context=context)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        return super().call_at(when, self._costed(callback, context), *args, context=context)

    def call_on(self, machine: Machine | None, delay: float, callback: Callable[..., object], *args: Any) -> Any:
        costed = callback if machine is None else self._costed(callback, machine.context())
        return super().call_on(machine, delay, costed, *args)

    def _costed(self, callback: Callable[..., object], context: Context | None) -> Callable[..., object]:
        machine = current_machine.get() if context is None else context.get(current_machine)
        if machine is None or not machine.name.startswith("broker-"):
            return callback

        def run(*args: Any) -> None:
            began = time.thread_time()
            callback(*args)
            spent = time.thread_time() - began
            self.spent += spent
            self.busy_until[machine.name] = max(self.now, self.busy_until[machine.name]) + spent

        return run


class BusyNetwork(SimulatedNetwork):
    """What arrives at a broker that is at work waits in a queue until it is done."""

    loop: CostedLoop

    def __init__(self, loop: CostedLoop) -> None:
        super().__init__(loop, delay_s=DELAY_S)
        self._inboxes: dict[str, deque[SimulatedTransport]] = {}

    def _deliver_later(self, target: SimulatedTransport, delay: float) -> None:
        self.loop.call_on(None, delay, self._receive, target)

    def _receive(self, target: SimulatedTransport) -> None:
        inbox = self._inboxes.setdefault(target.machine.name, deque())
        inbox.append(target)
        if len(inbox) == 1:
            self._serve(inbox)

    def _serve(self, inbox: "deque[SimulatedTransport]") -> None:
        """Hand over what came first, as soon as the broker has done all that came before."""
        machine = inbox[0].machine
        wait = self.loop.busy_until[machine.name] - self.loop.now
        if wait > 0:
            self.loop.call_on(None, wait, self._serve, inbox)
            return
        self.loop.call_on(machine, 0.0, inbox[0].arrive)
        self.loop.call_on(None, SERVED_S, self._served, inbox)

    def _served(self, inbox: "deque[SimulatedTransport]") -> None:
        inbox.popleft()
        if inbox:
            self._serve(inbox)


@dataclass
class Load:
    """What clients of a cluster had acknowledged, and what that cost its brokers."""

    factor: int
    seconds: float
    acknowledged: list[float] = field(default_factory=list)
    began: float = 0.0
    cores_busy: float = 0.0

    @property
    def megabytes(self) -> float:
        """A second, once all are at work."""
        counted = sum(1 for moment in self.acknowledged if moment >= self.began + WARM_UP_S)
        return counted * MESSAGES * MESSAGE_BYTES / (max(self.acknowledged) - self.began - WARM_UP_S) / 1e6


def rows(quick: bool) -> Iterator[tuple[object, ...]]:
    fewest: dict[int, float] = {}
    for brokers, factor in POINTS:
        load = measure(brokers, Load(factor, 0.1 if quick else 0.4))
        first = fewest.setdefault(factor, load.megabytes)
        yield (
            *(brokers, factor, f"{load.megabytes:.0f}", f"{load.megabytes / first:.2f}"),
            *(f"{load.cores_busy:.1f}", f"{load.cores_busy / brokers:.0%}"),
        )


def measure(brokers: int, load: Load) -> Load:
    """Put a load on a cluster of so many."""
    loop = CostedLoop(1)

    async def scene() -> None:
        cluster = SimulatedCluster(loop, History(loop), brokers)
        cluster.network = cluster.store.network = BusyNetwork(loop)
        for node in cluster.nodes.values():
            cluster.start(node)
        client = ClusterClient("client", cluster.addresses, (TOPIC,), cluster.history, random.Random(1))
        await loop.start_on(Machine("client"), carry(client, loop, load))

    loop.run(scene())
    return load


async def carry(client: ClusterClient, loop: CostedLoop, load: Load) -> None:
    configs = {"headrace.flush": "os", "min.insync.replicas": str(min(2, load.factor))}
    spec = TopicSpec(name=TOPIC, partition_count=PARTITIONS, factor=load.factor, configs=configs)
    await create_topic(client, spec)
    known = await all_leaders(client, spec.partitions)
    batch = build_batch([Record(0, 1_767_225_600_000, None, b"x" * MESSAGE_BYTES) for _ in range(MESSAGES)])
    requests = [(known[partition], request_of(partition, batch)) for partition in spec.partitions]
    load.began, spent = loop.now, loop.spent
    until = loop.now + WARM_UP_S + load.seconds
    await asyncio.gather(*(produce_in_rounds(client, loop, requests, until, load) for _ in range(ROUNDS)))
    load.cores_busy = (loop.spent - spent) / (loop.now - load.began)


async def all_leaders(client: ClusterClient, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    while True:
        try:
            return await client.leaders(partitions)
        except Unavailable:
            await client.back_off()


def request_of(partition: TopicPartition, batch: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=partition.partition, records=batch)
    topic = TopicProduceData(name=partition.topic, partition_data=(data,))
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(topic,))


async def produce_in_rounds(
    client: ClusterClient, loop: CostedLoop, requests: list[tuple[int, ProduceRequest]], until: float, load: Load
) -> None:
    """One request to each partition, then the next round: every partition gets as much, as from producers without keys."""

    async def produce(leader: int, request: ProduceRequest) -> None:
        response = await client.call(leader, request, PRODUCE_VERSION, timeout_s=60)
        if response.responses[0].partition_responses[0].error_code == 0:
            load.acknowledged.append(loop.now)

    while loop.now < until:
        await asyncio.gather(*(produce(leader, request) for leader, request in requests))
