"""The share coordinator of this broker: one shard for each partition of `__share_group_state` that it leads.

Deletes what its log does not need any more, and forgets deleted topics.
"""

import asyncio
import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from uuid import UUID

from headrace.broker.coordinators.led_shard import LedShard, ShardContext
from headrace.broker.coordinators.placement import coordinating_partition
from headrace.broker.coordinators.roles import RoleFollower
from headrace.broker.coordinators.shards import Shards
from headrace.broker.coordinators.share_state.entries import ShareEntryCodec
from headrace.broker.housekeeping.file_removal import FileRemoval
from headrace.broker.partitions.replica_changes import ReplicaChanges
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.supervision.supervision import Scope
from headrace.controller.changes import Change, TopicDeleted
from headrace.coordination.share.entries import ShareKey
from headrace.coordination.share.state_shard import ShareStateShard
from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import RequestError, StorageError
from headrace.model.names import SHARE_GROUP_STATE

logger = logging.getLogger(__name__)

# Entries that are not needed any more and are left until there are so many.
NEEDLESS_MAX = 10_000


ShareStateShards = Shards[ShareStateShard]


def name_of(key: ShareKey) -> str:
    """By which Kafka finds the coordinator of a share-partition."""
    topic_id = urlsafe_b64encode(key.topic_id.bytes).decode().rstrip("=")
    return f"{key.group_id}:{topic_id}:{key.partition}"


class ShareStateCoordinator:
    """Make one before the replicas start, so that it hears of each role they take; `close` it before they stop."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        cluster: ClusterMetadata,
        replicas: Replicas,
        replica_changes: ReplicaChanges,
        removal: FileRemoval,
        clock: Clock,
        disk: Disk,
        loop: asyncio.AbstractEventLoop,
        scope: Scope,
    ) -> None:
        self._cluster = cluster
        self._replicas = replicas
        self._removal = removal
        self._updates_per_snapshot = config["share.coordinator.snapshot.update.records.per.snapshot"]
        context = ShardContext(
            topic=SHARE_GROUP_STATE,
            codec=ShareEntryCodec(),
            make_shard=self._make_shard,
            clock=clock,
            scope=scope,
            write_timeout_s=config["share.coordinator.write.timeout.ms"] / 1000,
            on_committed=self._on_committed,
        )
        self.shards: ShareStateShards = Shards(context, self._partition_of)
        RoleFollower(SHARE_GROUP_STATE, self.shards, replica_changes, disk, loop)
        cluster.on_change(self._on_changes, renewed=self._on_renewed)

    def close(self) -> None:
        self.shards.close()

    def _make_shard(self) -> ShareStateShard:
        return ShareStateShard(self._updates_per_snapshot)

    def _partition_of(self, name: str) -> int:
        return coordinating_partition(self._cluster.image, SHARE_GROUP_STATE, name)

    def _on_changes(self, changes: Sequence[Change]) -> None:
        gone = [change.topic_id for change in changes if isinstance(change, TopicDeleted)]
        if gone:
            self._forget(lambda topic_id: topic_id in gone)

    def _on_renewed(self) -> None:
        """Changes may have been missed: compare with all topics there are."""
        known = self._cluster.image.topics_by_id
        self._forget(lambda topic_id: topic_id not in known)

    def _forget(self, is_gone: Callable[[UUID], bool]) -> None:
        for led in self.shards.loaded():
            led.take_news(led.shard.forget_topics(is_gone))

    def _on_committed(self, led: LedShard[ShareStateShard]) -> None:
        """A restart that finds more than is needed is none the worse for it, so nobody waits for the new log start."""
        target = min(led.shard.needed_from(), led.log.high_watermark)
        if target - led.log.start_offset < NEEDLESS_MAX:
            return
        try:
            partition = self._replicas.find(SHARE_GROUP_STATE, led.index)
            self._removal.unlink_soon(partition.log.delete_before(target))
            partition.replica_readers.wake()
        except RequestError as error:
            logger.info("%s: its log is cut later: %s", led.name, error)
        except StorageError as error:
            partition.on_storage_failure(error)
