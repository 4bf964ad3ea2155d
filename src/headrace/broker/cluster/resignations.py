"""Partitions that this broker cannot lead or follow as it should, since its disk failed or is full: others go on with them."""

import asyncio
import logging

from headrace.broker.administration.partition_changes import PartitionChanges
from headrace.broker.health.disk_health import DiskHealth
from headrace.broker.health.disk_space import says_full
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.supervision.supervision import Spawn
from headrace.controller.election import Elected, ElectionRules, eligible_in, without_broker
from headrace.controller.entries import PartitionState
from headrace.controller.image import ClusterImage
from headrace.metadata.cluster import ClusterMetadata
from headrace.metadata.store import StoreUnavailable
from headrace.model.errors import ErrorCode, RequestError

logger = logging.getLogger(__name__)

RESIGN_RETRY_S = 0.5


class Resignations:
    """Those under way; one task writes them, one after the other, until the store has all of them."""

    def __init__(
        self,
        replicas: Replicas,
        cluster: ClusterMetadata,
        changes: PartitionChanges,
        health: DiskHealth,
        spawn: Spawn,
        broker_id: int,
    ) -> None:
        self._replicas = replicas
        self._cluster = cluster
        self._changes = changes
        self._health = health
        self._spawn = spawn
        self._broker_id = broker_id
        self._offline: dict[Partition, None] = {}
        self._is_resigning = False

    def step_back(self, partition: Partition) -> None:
        """A follower cannot keep up, as its disk is full: nobody need find that out by waiting for it."""
        if not partition.is_leader and self._broker_id in partition.state.isr:
            self.leave(partition)

    def hand_over_for_room(self) -> None:
        """The disk is full: let those lead who are in sync and have room, so that writes go on there."""
        for partition in self._replicas:
            if partition.is_leader and partition.failure is None and not partition.has_room:
                state = self._cluster.image.partition(partition.identity.topic, partition.identity.partition)
                if state is not None and _others_with_room(self._cluster.image, state, self._broker_id):
                    self.leave(partition)

    def leave(self, partition: Partition) -> None:
        """Have this broker leave a partition's leadership and in-sync set, soon."""
        self._offline[partition] = None
        if not self._is_resigning:
            self._is_resigning = True
            self._spawn(self._resign_all())

    async def _resign_all(self) -> None:
        try:
            while self._offline:
                try:
                    if self._health.lost is not None:
                        # The controller is told, and sees to all of them at once.
                        self._offline.clear()
                    else:
                        await self._resign(next(iter(self._offline)))
                    if not self._offline:
                        await self._health.tell()
                except (StoreUnavailable, RequestError) as error:
                    logger.warning("a partition is offline, and the others could not be told yet: %s", error)
                    await asyncio.sleep(RESIGN_RETRY_S)
        finally:
            self._is_resigning = False

    async def _resign(self, partition: Partition) -> None:
        broker_id = self._broker_id

        def without_us(image: ClusterImage, state: PartitionState, rules: ElectionRules) -> Elected:
            if len(state.replicas) == 1 or (state.leader != broker_id and broker_id not in state.isr):
                return Elected(state)
            if partition.failure is None and state.leader == broker_id:
                others = _others_with_room(image, state, broker_id)
                return without_broker(state, broker_id, others.__contains__, rules) if others else Elected(state)
            return without_broker(state, broker_id, eligible_in(image), rules)

        try:
            await self._changes.change(partition.identity.topic, partition.identity.partition, without_us)
        except RequestError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted meanwhile
                raise
        self._offline.pop(partition, None)


def _others_with_room(image: ClusterImage, state: PartitionState, broker_id: int) -> frozenset[int]:
    """The others in sync that could lead, and whose disks are not full."""
    eligible = eligible_in(image)
    return frozenset(b for b in state.isr if b != broker_id and eligible(b) and not says_full(image.brokers[b].degraded))
