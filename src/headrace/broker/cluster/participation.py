"""This broker's part in its cluster: it follows, it leads what it may, stands for controller, and hands over before it goes.

A single node does all of this too, with nobody to follow or to hand over to.
"""

import logging

from headrace.broker.cluster.controller import Controller
from headrace.broker.cluster.leadership import Leaderships
from headrace.broker.cluster.resignations import Resignations
from headrace.broker.following.fetcher import ReplicaFetchers
from headrace.broker.following.sessions import ReplicaSessions
from headrace.broker.health.catching_up import CatchingUp
from headrace.broker.health.disk_health import DiskHealth
from headrace.broker.partitions.mending import Mending
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.replica_changes import ReplicaChanges
from headrace.broker.supervision.supervision import Scope
from headrace.controller.image import ClusterImage
from headrace.metadata.cluster import ClusterMetadata
from headrace.metadata.membership import BrokerMembership
from headrace.metadata.store import StoreUnavailable
from headrace.model.errors import RequestError
from headrace.model.live_config import LiveConfig

logger = logging.getLogger(__name__)

ADMISSION_SECONDS_MAX = 60.0
HAND_OVER_SECONDS_MAX = 10.0


class Participation:
    """Started after the broker has registered, stopped while it still is."""

    def __init__(
        self,
        scope: Scope,
        cluster: ClusterMetadata,
        membership: BrokerMembership,
        replica_changes: ReplicaChanges,
        *,
        config: LiveConfig,
        controller: Controller,
        leaderships: Leaderships,
        resignations: Resignations,
        fetchers: ReplicaFetchers,
        sessions: ReplicaSessions,
        mending: Mending,
        health: DiskHealth,
    ) -> None:
        self._scope = scope
        self._cluster = cluster
        self._membership = membership
        self._replica_changes = replica_changes
        self._config = config
        self.controller = controller
        self.leaderships = leaderships
        self._resignations = resignations
        self.fetchers = fetchers
        self._sessions = sessions
        self._mending = mending
        self.health = health
        self._broker_id = membership.registration.broker_id
        self.catching_up = CatchingUp(self._broker_id)

    def start(self) -> None:
        """Before the replicas are opened: their roles are decided here."""
        changes = self._replica_changes
        changes.lead = self.leaderships.lead
        changes.may_lead = self.may_lead
        changes.on_role.append(self.fetchers.on_role)
        changes.on_role.append(self._on_role)
        changes.on_role.append(self._mending.on_role)
        changes.on_removed.append(self.fetchers.on_removed)
        changes.on_removed.append(self._mending.on_removed)
        self._cluster.on_change(self.catching_up.on_changes, renewed=lambda: self.catching_up.on_renewed(self._cluster.image))
        self.leaderships.start(self._scope)
        self.controller.start(self._scope)
        self.health.start(self._scope)

    async def admitted(self) -> None:
        """Return when the controller has settled this broker's past and it has taken up what it leads."""
        await self._cluster.wait_until(lambda image: image.is_admitted(self._broker_id), ADMISSION_SECONDS_MAX)
        await self._replica_changes.settled()
        self.catching_up.begin(self._cluster.image)

    def may_lead(self) -> bool:
        return self._membership.is_valid and self._cluster.image.is_admitted(self._broker_id)

    def _on_role(self, partition: Partition) -> None:
        partition.when_failed(self._on_failure)
        if partition.is_leader:
            self._sessions.remind(partition)
        if partition.failure is not None:
            self._on_failure(partition)

    def _on_failure(self, partition: Partition) -> None:
        """The disk failed this replica: let others lead it, and let people know."""
        self.fetchers.on_removed(partition)
        if not partition.is_set_aside:
            self._resignations.leave(partition)

    async def hand_over(self) -> None:
        """Let others lead what they can, while this broker still serves."""
        broker_id = self._broker_id
        if not self._config.now["controlled.shutdown.enable"] or self._cluster.image.brokers.keys() <= {broker_id}:
            return
        if not self.may_lead():
            return  # the others have taken over already, or soon will
        try:
            await self._membership.update(shutting_down=True)
            await self._cluster.wait_until(lambda image: not _could_move(image, broker_id), HAND_OVER_SECONDS_MAX)
            await self._replica_changes.settled()
        except (StoreUnavailable, RequestError) as error:
            logger.warning("stopping without handing everything over: %s", error)

    async def close(self) -> None:
        await self._scope.close()


def _could_move(image: ClusterImage, broker_id: int) -> bool:
    """Whether the broker leads anything that another in-sync replica could lead."""
    for _, _, state in image.partitions():
        if state.leader == broker_id and any(other != broker_id and _may_take_over(image, other) for other in state.isr):
            return True
    return False


def _may_take_over(image: ClusterImage, broker_id: int) -> bool:
    return image.is_admitted(broker_id) and not image.brokers[broker_id].shutting_down
