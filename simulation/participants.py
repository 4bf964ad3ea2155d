"""Who takes part in a run: writers and readers of the main topic, those of the topics beside it, and who looks after them."""

import asyncio
import random

from simulation.clients.client import ClusterClient
from simulation.clients.consuming import Auditor, Consumer
from simulation.clients.grouping import GroupMember
from simulation.clients.heartbeating import HeartbeatingMember
from simulation.clients.producing import CarelessProducer, Producer
from simulation.clients.transacting import TransactionalProducer
from simulation.clients.working import Worker
from simulation.operators.moving import Mover
from simulation.operators.ruling import Ruler
from simulation.operators.topics import TopicSpec
from simulation.plan import REPLICATION_FACTOR, TOPIC, Plan
from simulation.side_topics import Make, SideTopic
from simulation.world.closed import sign_in_of
from simulation.world.cluster import SimulatedCluster
from simulation.world.machine import Machine

SHARED_GROUP = "group-shared"
HEARTBEATING_GROUP = "group-heartbeating"
AUDIT_PAUSE_S = (0.1, 0.6)

Launched = tuple[Worker, "asyncio.Task[None]"]


class Participants:
    """The clients of one run, each on a machine of its own."""

    def __init__(self, cluster: SimulatedCluster, plan: Plan, spec: TopicSpec, side_topics: list[SideTopic]) -> None:
        self._cluster = cluster
        self._plan = plan
        self._spec = spec
        self._side_topics = side_topics
        # Groups whose offsets are watched.
        self.groups: list[str] = []
        # Who changes rights, in a cluster that is closed.
        self.ruler: Ruler | None = None

    def client(self, name: str, topics: tuple[str, ...]) -> tuple[Machine, ClusterClient]:
        """A client on a machine, which does nothing yet."""
        cluster = self._cluster
        chance = random.Random(cluster.loop.random.getrandbits(64))
        sign_in = sign_in_of(name) if cluster.is_closed else None
        return Machine(name), ClusterClient(name, cluster.addresses, topics, cluster.history, chance, sign_in)

    def writers(self) -> list[Launched]:
        plan = self._plan
        writers = [
            *(self._launch(f"producer-{n}", self._producer) for n in range(1, plan.producers + 1)),
            *(self._launch(f"careless-{n}", self._careless) for n in range(1, plan.careless + 1)),
            *(self._launch(f"transactor-{n}", self._transactor) for n in range(1, plan.transactors + 1)),
        ]
        for side in self._side_topics:
            writers += [self._launch(name, make, side.spec) for name, make in side.writers.items()]
        if plan.brokers > REPLICATION_FACTOR:
            writers.append(self._launch("mover", self._mover))
        if plan.is_closed:
            writers.append(self._launch("ruler", self._ruler))
        return writers

    def readers(self) -> list[Launched]:
        plan = self._plan
        readers = [self._launch(f"consumer-{n}", self._consumer) for n in range(1, plan.consumers + 1)]
        readers += [self._launch(f"member-{n}", self._member) for n in range(1, plan.members + 1)]
        readers += [self._launch(f"heartbeat-{n}", self._heartbeating) for n in range(1, plan.heartbeating + 1)]
        for side in self._side_topics:
            readers += [self._launch(name, make, side.spec) for name, make in side.readers.items()]
            self.groups += side.groups
        if self.groups:
            readers.append(self._launch("auditor", self._auditor))
        return readers

    def _launch(self, name: str, make: Make, spec: TopicSpec | None = None) -> Launched:
        spec = spec or self._spec
        machine, client = self.client(name, (spec.name,))
        worker = make(client)
        return worker, self._cluster.loop.start_on(machine, worker.run(spec.partitions), name)

    def _producer(self, client: ClusterClient) -> Worker:
        return Producer(client, pause_s=self._plan.pause_s, in_flight_max=self._plan.in_flight_max)

    def _careless(self, client: ClusterClient) -> Worker:
        return CarelessProducer(client, pause_s=self._plan.pause_s)

    def _mover(self, client: ClusterClient) -> Worker:
        return Mover(client, factor=REPLICATION_FACTOR)

    def _ruler(self, client: ClusterClient) -> Worker:
        self.ruler = Ruler(client)
        return self.ruler

    def _transactor(self, client: ClusterClient) -> Worker:
        transactional_id = "id-shared" if self._plan.shared_transactional_id else f"id-{client.name}"
        transactor = TransactionalProducer(
            client, transactional_id, version=self._plan.transaction_version, pause_s=self._plan.pause_s
        )
        self.groups.append(transactor.group)
        return transactor

    def _consumer(self, client: ClusterClient) -> Worker:
        rack = self._cluster.rack_of(1) if self._plan.racks else ""
        consumer = Consumer(client, isolated=self._plan.isolated, rack=rack)
        self.groups.append(consumer.group)
        return consumer

    def _member(self, client: ClusterClient) -> Worker:
        if SHARED_GROUP not in self.groups:
            self.groups.append(SHARED_GROUP)
        return GroupMember(client, SHARED_GROUP, isolated=self._plan.isolated)

    def _heartbeating(self, client: ClusterClient) -> Worker:
        if HEARTBEATING_GROUP not in self.groups:
            self.groups.append(HEARTBEATING_GROUP)
        return HeartbeatingMember(client, HEARTBEATING_GROUP, TOPIC, isolated=self._plan.isolated)

    def _auditor(self, client: ClusterClient) -> Worker:
        return Auditor(client, self.groups, pause_s=AUDIT_PAUSE_S)
