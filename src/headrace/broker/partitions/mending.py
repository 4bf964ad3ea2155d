"""Damaged replicas are mended from sound ones.

A replica of which something cannot be read any more (a flipped bit, a page that is gone) is set aside: it leaves the in-sync set,
and somebody else leads.  Once the cluster no longer counts on it, it gives up everything from the damaged segment on and fetches
that anew.  Where nobody else is in sync it goes on as it is: all but the damaged part is served.

A follower that the leader has seen catch up could be let back into the in-sync set on the strength of that, and then cut its log.
So only those are mended whom no present leader has seen: who has just been opened, and who has just led.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from headrace.broker.administration.partition_changes import PartitionChanges
from headrace.broker.partitions.cutting import LogCutter
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.replica_changes import ReplicaChanges
from headrace.broker.supervision.supervision import Spawn
from headrace.controller.election import Elected, ElectionRules, eligible_in, vouches, without_damaged
from headrace.controller.entries import PartitionState
from headrace.controller.image import ClusterImage
from headrace.metadata.cluster import ClusterMetadata
from headrace.metadata.store import StoreUnavailable
from headrace.model.errors import NoRoom, RequestError, StorageError
from headrace.model.identity import NO_BROKER

logger = logging.getLogger(__name__)

RETRY_S = 0.5
WAIT_S = 30.0


class Mending:
    """Looks after the replicas of one broker."""

    def __init__(
        self,
        replica_changes: ReplicaChanges,
        cluster: ClusterMetadata,
        changes: PartitionChanges,
        cutter: LogCutter,
        tell_degraded: Callable[[], Awaitable[None]],
        spawn: Spawn,
        broker_id: int,
    ) -> None:
        """`tell_degraded` lets the other brokers know how the disk does."""
        self._replica_changes = replica_changes
        self._cluster = cluster
        self._changes = changes
        self._cutter = cutter
        self._tell_degraded = tell_degraded
        self._spawn = spawn
        self._broker_id = broker_id
        # Replicas that were looked at since they were opened.
        self._known: set[Partition] = set()

    def on_role(self, partition: Partition) -> None:
        if partition not in self._known:
            self._known.add(partition)
            partition.on_damage.append(self._on_damage)
            self._consider(partition)
        elif partition.is_leader:
            self._consider(partition)

    def on_removed(self, partition: Partition) -> None:
        self._known.discard(partition)

    def _on_damage(self, partition: Partition) -> None:
        if partition.is_leader:
            self._consider(partition)

    def _consider(self, partition: Partition) -> None:
        """Set a replica aside if it is damaged and others can do its work."""
        if partition.failure is not None or (damaged_from := partition.log.damaged_from) is None:
            return
        state = self._state(self._cluster.image, partition)
        if state is None or not self._is_dispensable(self._cluster.image, state):
            return
        partition.set_aside(StorageError(partition.identity, f"reading the segment at offset {damaged_from}"))
        self._spawn(self._mend(partition))

    def _is_dispensable(self, image: ClusterImage, state: PartitionState) -> bool:
        eligible = eligible_in(image)
        return any(broker != self._broker_id and eligible(broker) for broker in state.isr)

    async def _mend(self, partition: Partition) -> None:
        while partition.is_set_aside and partition in self._known:
            try:
                await self._resign(partition)
                await self._tell_degraded()
                await self._cluster.wait_until(lambda image: self._may_cut(image, partition), WAIT_S)
            except (StoreUnavailable, RequestError) as error:
                logger.warning("%s waits to be mended: %s", partition.identity, error)
                await asyncio.sleep(RETRY_S)
                continue
            if partition in self._known and self._may_cut(self._cluster.image, partition):
                await self._cut(partition)
        with contextlib.suppress(StoreUnavailable, RequestError):
            await self._tell_degraded()

    async def _resign(self, partition: Partition) -> None:
        broker_id = self._broker_id

        def without_us(image: ClusterImage, state: PartitionState, rules: ElectionRules) -> Elected:
            return Elected(without_damaged(state, broker_id, eligible_in(image), rules))

        await self._changes.change(partition.identity.topic, partition.identity.partition, without_us)
        state = self._state(self._cluster.image, partition)
        if state is not None and vouches(state, broker_id) and not self._is_dispensable(self._cluster.image, state):
            # Whoever could have taken over is gone: better a replica with a hole than none.
            partition.take_back()
            self._replica_changes.reconsider(partition)

    def _may_cut(self, image: ClusterImage, partition: Partition) -> bool:
        """Whether the cluster does not count on this replica, and somebody leads who can give back what it cuts."""
        if not partition.is_set_aside or partition not in self._known:
            return True
        state = self._state(image, partition)
        return state is not None and state.leader != NO_BROKER and not vouches(state, self._broker_id)

    async def _cut(self, partition: Partition) -> None:
        if not partition.is_set_aside or (damaged_from := partition.log.damaged_from) is None:
            return
        log = partition.log
        logger.warning("%s: fetches [%d, %d) anew, which is damaged here", partition.identity, damaged_from, log.end_offset)

        def is_wanted() -> bool:
            return partition.is_set_aside and self._may_cut(self._cluster.image, partition)

        try:
            if damaged_from <= log.start_offset:
                is_done = await self._cutter.start_over_at(partition, log.start_offset, is_wanted)
            else:
                is_done = await self._cutter.truncate_to(partition, damaged_from, is_wanted)
        except NoRoom as error:
            logger.warning("%s waits to be mended: %s", partition.identity, error)
            await asyncio.sleep(RETRY_S)
            return
        except StorageError as error:
            partition.take_back()
            partition.on_storage_failure(error)
            return
        if not is_done:
            return
        partition.take_back()
        self._replica_changes.reconsider(partition)

    def _state(self, image: ClusterImage, partition: Partition) -> PartitionState | None:
        topic = image.topics_by_id.get(partition.topic_id)
        return None if topic is None else topic.partitions[partition.identity.partition]
