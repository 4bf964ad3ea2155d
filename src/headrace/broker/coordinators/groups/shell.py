"""The group coordinator of this broker: one shard for each partition of `__consumer_offsets` that it leads.

Follows leadership and the cluster's topics, and brings each request to the shard of its group.  Every method raises RequestError
when the group is looked after elsewhere, is being loaded, or refuses.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from headrace.broker.coordinators.groups.entries import GroupEntryCodec
from headrace.broker.coordinators.groups.settings import group_settings, with_own
from headrace.broker.coordinators.partition_log import LedPartition
from headrace.broker.coordinators.placement import coordinating_partition
from headrace.broker.coordinators.runtime import CoordinatorRuntime
from headrace.broker.partitions.partition import Partition
from headrace.controller.changes import Change, GroupConfigsChanged, TopicCreated, TopicDeleted, TopicGrew
from headrace.coordination.decision import Decision, Reply, Token
from headrace.coordination.group.requests import (
    Commit,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    DeleteOffsets,
    DescribedClassicGroup,
    DescribedConsumerGroup,
    FetchedOffset,
    FetchOffsets,
    Heartbeat,
    Join,
    JoinReply,
    Leave,
    LeftMember,
    ListedGroup,
    PartitionErrors,
    Sync,
    SyncReply,
    TransactionalCommit,
)
from headrace.coordination.group.settings import GroupSettings
from headrace.coordination.group.shard import GroupShard
from headrace.coordination.group.topics import Topic, TopicCatalog
from headrace.coordination.moment import Moment
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.names import CONSUMER_OFFSETS

if TYPE_CHECKING:
    from headrace.broker.app import Broker

Answer = TypeVar("Answer")


class GroupCoordinator:
    """Make one before the replicas start, so that it hears of each role they take; `close` it before they stop."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._settings = group_settings(broker.config)
        self._own_settings: dict[str, GroupSettings] = {}
        self._catalog = TopicCatalog()
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            topic=CONSUMER_OFFSETS,
            codec=GroupEntryCodec(),
            make_shard=self._make_shard,
            clock=broker.clock,
            scope=broker.supervisor.scope("groups"),
            write_timeout_s=broker.config["offsets.commit.timeout.ms"] / 1000,
        )

    def start(self) -> None:
        image = self._broker.image
        topics = {name: _topic(topic) for name, topic in image.topics.items()}
        self._catalog = self._catalog.updated(topics, version=image.revision)
        for group_id in image.group_configs:
            self._take_settings(group_id)
        self._broker.cluster.on_change(self._on_changes, renewed=self._on_renewed)
        self._broker.replicas.on_role.append(self._on_role)
        self._broker.replicas.on_removed.append(self._on_removed)

    def close(self) -> None:
        self.runtime.close()

    def _make_shard(self, index: int) -> GroupShard:
        return GroupShard(self._settings, self._catalog, self._own_settings)

    # --- following the cluster --------------------------------------------------------------------------------------------

    def _on_role(self, partition: Partition) -> None:
        if partition.identity.topic != CONSUMER_OFFSETS:
            return
        index = partition.identity.partition
        if not partition.is_leader or partition.failure is not None:
            self.runtime.resign(index)
        elif not self.runtime.leads(index):
            partition.when_failed(self._on_removed)
            self.runtime.lead(index, LedPartition(partition, self._broker.loop, self._broker.host.disk))

    def _on_removed(self, partition: Partition) -> None:
        if partition.identity.topic == CONSUMER_OFFSETS:
            self.runtime.resign(partition.identity.partition)

    def _on_changes(self, changes: Sequence[Change]) -> None:
        changed: dict[str, Topic | None] = {}
        gone: dict[str, UUID] = {}
        for change in changes:
            match change:
                case TopicCreated(name) | TopicGrew(name):
                    topic = self._broker.image.topics.get(name)
                    changed[name] = None if topic is None else _topic(topic)
                case TopicDeleted(name, topic_id):
                    changed[name] = None
                    gone[name] = topic_id
                case GroupConfigsChanged(group_id):
                    self._take_settings(group_id)
        if changed:
            self._take_topics(changed, gone)

    def _take_topics(self, changed: Mapping[str, Topic | None], gone: Mapping[str, UUID]) -> None:
        self._catalog = self._catalog.updated(changed, version=self._broker.image.revision)
        for index, _ in self.runtime.shards():
            self.runtime.tell(index, lambda shard, now: shard.on_topics(self._catalog, changed.keys(), gone))

    def _on_renewed(self) -> None:
        """Changes may have been missed: take every group's settings, and have each shard look at all topics."""
        for group_id in {*self._own_settings, *self._broker.image.group_configs}:
            self._take_settings(group_id)
        topics = {name: _topic(topic) for name, topic in self._broker.image.topics.items()}
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
        texts = self._broker.image.group_configs.get(group_id)
        if texts is None:
            self._own_settings.pop(group_id, None)
        else:
            self._own_settings[group_id] = with_own(self._settings, texts)

    # --- finding the shard ------------------------------------------------------------------------------------------------

    def partition_of(self, group_id: str) -> int:
        return coordinating_partition(self._broker.image, CONSUMER_OFFSETS, group_id)

    async def _ask(self, group_id: str, decide: Callable[[GroupShard, Token, Moment], Decision]) -> Any:
        return await self.runtime.ask(self.partition_of(group_id), decide)

    async def _look(self, group_id: str, look: Callable[[GroupShard], Answer]) -> Answer:
        """Answer from what is committed: replies wait until all that the shard knows is."""
        answer: Answer = await self._ask(group_id, lambda shard, token, now: Decision((), (Reply(token, look(shard)),)))
        return answer

    # --- requests ---------------------------------------------------------------------------------------------------------

    async def join(self, request: Join) -> JoinReply:
        reply: JoinReply = await self._ask(request.group_id, lambda shard, token, now: shard.join(request, token, now))
        return reply

    async def sync(self, request: Sync) -> SyncReply:
        reply: SyncReply = await self._ask(request.group_id, lambda shard, token, now: shard.sync(request, token, now))
        return reply

    async def heartbeat(self, request: Heartbeat) -> ErrorCode:
        code: ErrorCode = await self._ask(request.group_id, lambda shard, token, now: shard.heartbeat(request, token, now))
        return code

    async def leave(self, request: Leave) -> tuple[LeftMember, ...]:
        left: tuple[LeftMember, ...] = await self._ask(
            request.group_id, lambda shard, token, now: shard.leave(request, token, now)
        )
        return left

    async def consumer_heartbeat(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatReply:
        reply: ConsumerHeartbeatReply = await self._ask(
            request.group_id, lambda shard, token, now: shard.consumer_heartbeat(request, token, now)
        )
        return reply

    async def commit(self, request: Commit) -> PartitionErrors:
        errors: PartitionErrors = await self._ask(request.group_id, lambda shard, token, now: shard.commit(request, token, now))
        return errors

    async def commit_transactional(self, request: TransactionalCommit) -> PartitionErrors:
        errors: PartitionErrors = await self._ask(
            request.group_id, lambda shard, token, now: shard.commit_transactional(request, token, now)
        )
        return errors

    async def fetch_offsets(self, request: FetchOffsets) -> tuple[FetchedOffset, ...]:
        return await self._look(request.group_id, lambda shard: shard.fetch_offsets(request))

    async def delete_offsets(self, request: DeleteOffsets) -> PartitionErrors:
        errors: PartitionErrors = await self._ask(
            request.group_id, lambda shard, token, now: shard.delete_offsets(request, token)
        )
        return errors

    async def describe_classic(self, group_id: str, *, tells_error: bool) -> DescribedClassicGroup:
        return await self._look(group_id, lambda shard: shard.describe_classic(group_id, tells_error=tells_error))

    async def describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        return await self._look(group_id, lambda shard: shard.describe_consumer(group_id))

    async def delete_groups(self, group_ids: Iterable[str]) -> dict[str, ErrorCode]:
        """What became of each group; groups looked after elsewhere say so."""
        by_partition: dict[int, list[str]] = defaultdict(list)
        errors: dict[str, ErrorCode] = {}
        for group_id in dict.fromkeys(group_ids):
            try:
                by_partition[self.partition_of(group_id)].append(group_id)
            except RequestError as error:
                errors[group_id] = error.code
        for index, members in by_partition.items():
            errors |= await self._delete_on(index, members)
        return errors

    async def _delete_on(self, index: int, group_ids: list[str]) -> dict[str, ErrorCode]:
        try:
            codes = await self.runtime.ask(index, lambda shard, token, now: shard.delete_groups(group_ids, token))
        except RequestError as error:
            return dict.fromkeys(group_ids, error.code)
        return dict(zip(group_ids, codes, strict=True))

    async def list_groups(self, states: Sequence[str], kinds: Sequence[str]) -> list[ListedGroup]:
        """The groups of all shards here; raises while one of them is being loaded."""
        listed: list[ListedGroup] = []
        for index in self.runtime.led_partitions():
            try:
                listed += await self.runtime.ask(
                    index, lambda shard, token, now: Decision((), (Reply(token, shard.list_groups(states, kinds)),))
                )
            except RequestError as error:
                if error.code is not ErrorCode.NOT_COORDINATOR:
                    raise
        return listed


def _topic(topic: Any) -> Topic:
    return Topic(topic.name, topic.topic_id, topic.partition_count)
