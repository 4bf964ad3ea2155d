"""The group coordinator of this broker: one shard for each partition of `__consumer_offsets` that it leads.

Keeps its shards' view of the cluster's topics and of groups' own settings current.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from headrace.broker.coordinators.groups.entries import GroupEntryCodec
from headrace.broker.coordinators.groups.settings import group_settings, with_own
from headrace.broker.coordinators.led_shard import ShardContext
from headrace.broker.coordinators.placement import coordinating_partition
from headrace.broker.coordinators.roles import RoleFollower
from headrace.broker.coordinators.shards import Shards
from headrace.broker.partitions.replica_changes import ReplicaChanges
from headrace.broker.supervision.supervision import Scope
from headrace.controller.changes import Change, GroupConfigsChanged, TopicCreated, TopicDeleted, TopicGrew
from headrace.controller.image import Topic
from headrace.coordination.group.settings import GroupSettings
from headrace.coordination.group.shard import GroupShard
from headrace.coordination.group.topics import CatalogTopic, TopicCatalog
from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.broker_settings import BrokerConfig
from headrace.model.names import CONSUMER_OFFSETS

GroupShards = Shards[GroupShard]


class GroupCoordinator:
    """Make one before the replicas start, so that it hears of each role they take; `close` it before they stop."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        cluster: ClusterMetadata,
        replica_changes: ReplicaChanges,
        clock: Clock,
        disk: Disk,
        loop: asyncio.AbstractEventLoop,
        scope: Scope,
        on_rebalanced: Callable[[int], None] = lambda taken_ms: None,
    ) -> None:
        self._on_rebalanced = on_rebalanced
        self._cluster = cluster
        self._settings = group_settings(config)
        self._own_settings: dict[str, GroupSettings] = {}
        self._catalog = TopicCatalog()
        context = ShardContext(
            topic=CONSUMER_OFFSETS,
            codec=GroupEntryCodec(),
            make_shard=self._make_shard,
            clock=clock,
            scope=scope,
            write_timeout_s=config["offsets.commit.timeout.ms"] / 1000,
        )
        self.shards: GroupShards = Shards(context, self._partition_of)
        RoleFollower(CONSUMER_OFFSETS, self.shards, replica_changes, disk, loop)
        self._on_renewed()
        cluster.on_change(self._on_changes, renewed=self._on_renewed)

    def close(self) -> None:
        self.shards.close()

    def _make_shard(self) -> GroupShard:
        return GroupShard(self._settings, self._catalog, self._own_settings, self._on_rebalanced)

    def _partition_of(self, group_id: str) -> int:
        return coordinating_partition(self._cluster.image, CONSUMER_OFFSETS, group_id)

    # --- following the cluster --------------------------------------------------------------------------------------------

    def _on_changes(self, changes: Sequence[Change]) -> None:
        changed: dict[str, CatalogTopic | None] = {}
        gone: dict[str, UUID] = {}
        for change in changes:
            match change:
                case TopicCreated(name) | TopicGrew(name):
                    topic = self._cluster.image.topics.get(name)
                    changed[name] = None if topic is None else _topic(topic)
                case TopicDeleted(name, topic_id):
                    changed[name] = None
                    gone[name] = topic_id
                case GroupConfigsChanged(group_id):
                    self._take_settings(group_id)
        if changed:
            self._take_topics(changed, gone)

    def _take_topics(self, changed: Mapping[str, CatalogTopic | None], gone: Mapping[str, UUID]) -> None:
        self._catalog = self._catalog.updated(changed, version=self._cluster.image.revision)
        for led in self.shards.loaded():
            led.take_news(led.shard.on_topics(self._catalog, changed.keys(), gone))

    def _on_renewed(self) -> None:
        """Changes may have been missed: take every group's settings, and have each shard look at all topics."""
        for group_id in {*self._own_settings, *self._cluster.image.group_configs}:
            self._take_settings(group_id)
        topics = {name: _topic(topic) for name, topic in self._cluster.image.topics.items()}
        before = {name: topic for name in self._catalog.names() if (topic := self._catalog.named(name)) is not None}
        changed = {name: topics.get(name) for name in [*before, *topics] if topics.get(name) != before.get(name)}
        if changed:
            gone = {
                name: before[name].topic_id
                for name, topic in changed.items()
                if name in before and (topic is None or topic.topic_id != before[name].topic_id)
            }
            self._take_topics(changed, gone)

    def _take_settings(self, group_id: str) -> None:
        """A group's members hear of its settings with their next heartbeat."""
        texts = self._cluster.image.group_configs.get(group_id)
        if texts is None:
            self._own_settings.pop(group_id, None)
        else:
            self._own_settings[group_id] = with_own(self._settings, texts)


def _topic(topic: Topic) -> CatalogTopic:
    return CatalogTopic(topic.name, topic.topic_id, topic.partition_count)
