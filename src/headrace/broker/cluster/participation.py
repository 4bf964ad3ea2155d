"""This broker's part in its cluster: it follows, it leads what it may, stands for controller, and hands over before it goes.

A single node does all of this too, with nobody to follow or to hand over to.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from headrace.broker.cluster.controller import Controller
from headrace.broker.cluster.leadership import Leaderships
from headrace.broker.health.catching_up import CatchingUp
from headrace.broker.health.disk_health import DiskHealth
from headrace.broker.health.disk_space import says_full
from headrace.broker.partitions.mending import Mending
from headrace.broker.partitions.partition import Partition
from headrace.broker.replicas.fetcher import ReplicaFetchers
from headrace.broker.replicas.sessions import ReplicaSessions
from headrace.broker.replicas.throttle import LEADER, ReplicationThrottle
from headrace.controller.election import Elected, ElectionRules, eligible_in, without_broker
from headrace.controller.entries import PartitionState
from headrace.controller.image import ClusterImage
from headrace.metadata.store import StoreUnavailable
from headrace.model.errors import ErrorCode, RequestError

if TYPE_CHECKING:
    from headrace.broker.app import Broker

logger = logging.getLogger(__name__)

ADMISSION_SECONDS_MAX = 60.0
HAND_OVER_SECONDS_MAX = 10.0
RESIGN_RETRY_S = 0.5


class Clustering:
    """Started after the broker has registered, stopped while it still is."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.scope = broker.supervisor.scope("cluster")
        self.controller = Controller(broker)
        self.leaderships = Leaderships(broker)
        self.fetchers = ReplicaFetchers(broker)
        self.served = ReplicationThrottle(broker, LEADER)
        self.sessions = ReplicaSessions(broker)
        self.health = DiskHealth(broker)
        self.catching_up = CatchingUp(broker.broker_id)
        self._offline: dict[Partition, None] = {}
        self._is_resigning = False
        self.mending = Mending(broker, self.health.tell)

    def start(self) -> None:
        """Before the replicas are opened: their roles are decided here."""
        replicas = self._broker.replicas
        replicas.lead = self.leaderships.lead
        replicas.may_lead = self.may_lead
        replicas.on_role.append(self.fetchers.on_role)
        replicas.on_role.append(self._on_role)
        replicas.on_role.append(self.mending.on_role)
        replicas.on_removed.append(self.fetchers.on_removed)
        replicas.on_removed.append(self.mending.on_removed)
        self._broker.cluster.on_change(
            self.catching_up.on_changes, renewed=lambda: self.catching_up.on_renewed(self._broker.image)
        )
        self.leaderships.start()
        self.controller.start()
        self.health.start()

    async def admitted(self) -> None:
        """Return when the controller has settled this broker's past and it has taken up what it leads."""
        await self._broker.cluster.wait_until(lambda image: image.is_admitted(self._broker.broker_id), ADMISSION_SECONDS_MAX)
        await self._broker.replicas.settled()
        self.catching_up.begin(self._broker.image)

    def may_lead(self) -> bool:
        return self._broker.membership.is_valid and self._broker.image.is_admitted(self._broker.broker_id)

    def _on_role(self, partition: Partition) -> None:
        partition.when_failed(self._on_failure)
        if partition.is_leader:
            self.sessions.remind(partition)
        if partition.failure is not None:
            self._on_failure(partition)

    def _on_failure(self, partition: Partition) -> None:
        """The disk failed this replica: let others lead it, and let people know."""
        self.fetchers.on_removed(partition)
        if not partition.is_set_aside:
            self._leave(partition)

    def step_back(self, partition: Partition) -> None:
        """A follower cannot keep up, as its disk is full: nobody need find that out by waiting for it."""
        if not partition.is_leader and self._broker.broker_id in partition.state.isr:
            self._leave(partition)

    def hand_over_for_room(self) -> None:
        """The disk is full: let those lead who are in sync and have room, so that writes go on there."""
        for partition in self._broker.replicas:
            if partition.is_leader and partition.failure is None and not partition.has_room:
                state = self._broker.image.partition(partition.identity.topic, partition.identity.partition)
                if state is not None and _others_with_room(self._broker.image, state, self._broker.broker_id):
                    self._leave(partition)

    def _leave(self, partition: Partition) -> None:
        self._offline[partition] = None
        if not self._is_resigning:
            self._is_resigning = True
            self._broker.spawn(self._resign_all())

    async def _resign_all(self) -> None:
        try:
            while self._offline:
                try:
                    if self.health.lost is not None:
                        # The controller is told, and sees to all of them at once.
                        self._offline.clear()
                    else:
                        await self._resign(next(iter(self._offline)))
                    if not self._offline:
                        await self.health.tell()
                except (StoreUnavailable, RequestError) as error:
                    logger.warning("a partition is offline, and the others could not be told yet: %s", error)
                    await asyncio.sleep(RESIGN_RETRY_S)
        finally:
            self._is_resigning = False

    async def _resign(self, partition: Partition) -> None:
        broker_id = self._broker.broker_id

        def without_us(image: ClusterImage, state: PartitionState, rules: ElectionRules) -> Elected:
            if len(state.replicas) == 1 or (state.leader != broker_id and broker_id not in state.isr):
                return Elected(state)
            if partition.failure is None and state.leader == broker_id:
                others = _others_with_room(image, state, broker_id)
                return without_broker(state, broker_id, others.__contains__, rules) if others else Elected(state)
            return without_broker(state, broker_id, eligible_in(image), rules)

        try:
            await self._broker.partition_changes.change(partition.identity.topic, partition.identity.partition, without_us)
        except RequestError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted meanwhile
                raise
        self._offline.pop(partition, None)

    def on_lease_lost(self) -> None:
        """Others will soon act as if this broker were dead: stop leading before they do."""
        self._broker.replicas.reconsider_roles()

    async def hand_over(self) -> None:
        """Let others lead what they can, while this broker still serves."""
        broker_id = self._broker.broker_id
        if not self._broker.config["controlled.shutdown.enable"] or self._broker.image.brokers.keys() <= {broker_id}:
            return
        if not self.may_lead():
            return  # the others have taken over already, or soon will
        try:
            await self._broker.membership.update(shutting_down=True)
            await self._broker.cluster.wait_until(lambda image: not _could_move(image, broker_id), HAND_OVER_SECONDS_MAX)
            await self._broker.replicas.settled()
        except (StoreUnavailable, RequestError) as error:
            logger.warning("stopping without handing everything over: %s", error)

    async def close(self) -> None:
        await self.scope.close()


def _others_with_room(image: ClusterImage, state: PartitionState, broker_id: int) -> frozenset[int]:
    """The others in sync that could lead, and whose disks are not full."""
    eligible = eligible_in(image)
    return frozenset(b for b in state.isr if b != broker_id and eligible(b) and not says_full(image.brokers[b].degraded))


def _could_move(image: ClusterImage, broker_id: int) -> bool:
    """Whether the broker leads anything that another in-sync replica could lead."""
    for _, _, state in image.partitions():
        if state.leader == broker_id and any(other != broker_id and _may_take_over(image, other) for other in state.isr):
            return True
    return False


def _may_take_over(image: ClusterImage, broker_id: int) -> bool:
    return image.is_admitted(broker_id) and not image.brokers[broker_id].shutting_down
