"""Topics made and changed on behalf of clients and of the broker itself: names, counts and settings are checked here."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import field
from types import MappingProxyType
from uuid import UUID

from headrace.broker.administration.partition_limits import PartitionLimits
from headrace.broker.administration.room_for_topics import require_room
from headrace.broker.health.disk_space import DiskSpace
from headrace.broker.partitions.replica_changes import Settled
from headrace.controller.entries import partition_key, topic_key
from headrace.controller.image import Topic
from headrace.controller.topics import TopicSpec
from headrace.declaring import dataclass
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.live_config import LiveConfig
from headrace.model.names import (
    AUDIT,
    DELAYED,
    HELD_IN,
    INTERNAL_TOPICS,
    SCHEDULES,
    collides_with,
    why_not_a_topic_name,
)
from headrace.model.settings import SettingError
from headrace.model.tier.tiered_topics import keep_tiered, require_store
from headrace.model.topic_settings import TOPIC_SETTINGS, LogConfig

REPLICATION_FACTOR_IN_A_CLUSTER = 3
RETENTION = "retention.ms"
AUDIT_BATCH_BYTES_MAX = 16 * 1024 * 1024
# What an operator may need to change about the audit trail, who moves it or loses brokers; it takes nothing out of it.
AUDIT_SETTINGS_FREE = frozenset(
    {"follower.replication.throttled.replicas", "leader.replication.throttled.replicas", "min.insync.replicas"}
)
# Compaction works on segments that are full, and gives back what was delivered.
DELAYED_SEGMENT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """What was asked for; -1 means: as the broker is set."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, tuple[int, ...]] | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


class Topics:
    """The broker's hand in making topics."""

    def __init__(self, cluster: ClusterMetadata, settled: Settled, config: LiveConfig, space: DiskSpace, broker_id: int) -> None:
        self._cluster = cluster
        self._settled = settled
        self._config = config
        self._space = space
        self._broker_id = broker_id
        self._being_made: dict[str, asyncio.Future[None]] = {}
        self._limits = PartitionLimits(lambda: cluster.image, config)

    async def create(self, wanted: NewTopic, *, validate_only: bool = False, limited: bool = True) -> tuple[TopicSpec, LogConfig]:
        """Make a topic and wait until it can be used here."""
        if limited and wanted.name in (AUDIT, DELAYED, SCHEDULES):
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{wanted.name} is made by the brokers.")
        if wanted.name in self._cluster.image.topics:
            await self._cluster.see(topic_key(wanted.name))
        config = self._check(wanted)
        spec = self._spec(wanted)
        replicas = None if spec.assignments is None else spec.assignments.values()
        count = spec.partition_count if replicas is None else len(replicas)
        if wanted.name not in self._cluster.image.topics:
            self._require_room(replicas)
        with nullcontext() if not limited else self._limits.room_for(count, spec.replication_factor, replicas):
            await self._cluster.create_topic(spec, validate_only=validate_only)
            if not validate_only:
                await self._settled()
        return spec, config

    async def ensure(self, name: str, on_made: Callable[[], None] = lambda: None) -> Topic:
        """The topic, made first if it has to be; whoever makes it hears so.  Many may ask at once; one makes it."""
        while (topic := self._cluster.image.topics.get(name)) is None:
            if (made := self._being_made.get(name)) is not None:
                await asyncio.wait([made])
                continue
            self._being_made[name] = made = asyncio.get_running_loop().create_future()
            try:
                # Where topics are at their limit, groups and transactions still work.
                await self.create(self._as_broker_is_set(name), limited=name not in INTERNAL_TOPICS)
                on_made()
            except RequestError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            finally:
                del self._being_made[name]
                made.set_result(None)
        return topic

    async def grow(self, name: str, count: int, assignments: list[tuple[int, ...]] | None, *, validate_only: bool) -> None:
        """Give a topic more partitions."""
        await self._see(name)
        self._refuse_internal(name, "adding partitions would move every {of}'s coordinator", "its events are in one order")
        topic = self._cluster.image.topics.get(name)
        more = count - topic.partition_count if topic is not None else 0
        factor = topic.replication_factor if topic is not None else 1
        if more > 0:
            self._require_room(assignments)
        with self._limits.room_for(max(0, more), factor, assignments):
            await self._cluster.create_partitions(name, count, assignments, validate_only=validate_only)
            if not validate_only:
                await self._settled()

    async def alter(self, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]], *, validate_only: bool) -> None:
        """Change a topic's settings; nothing is changed when one of them is wrong."""
        await self._see(name)
        topic = self._cluster.image.topics.get(name)
        if topic is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist.")

        def checked(before: Mapping[str, str]) -> Mapping[str, str]:
            after = change(before)
            # What stands was accepted when it was set, perhaps by an older version.
            kept = {name: text for name, text in after.items() if before.get(name) == text}
            if topic.name == AUDIT:
                self._keep_audit_written({key for key in before.keys() | after.keys() if key not in kept}, after)
            if topic.name in (DELAYED, SCHEDULES):
                self._keep_looked_into(topic.name, before, after)
            self._checked_config({name: text for name, text in after.items() if name not in kept}, kept)
            keep_tiered(before, after)
            return after

        checked(topic.configs)
        if not validate_only:
            await self._cluster.alter_topic_configs(name, checked)
            await self._settled()

    async def delete(
        self, name: str | None, topic_id: UUID | None, before: Callable[[Topic], None] = lambda topic: None
    ) -> Topic:
        """Remove a topic by its name or its id; the name is free when this returns.  `before` sees it first, and may raise."""
        if name is None:
            assert topic_id is not None, "a topic has a name or an id"
            if topic_id not in self._cluster.image.topics_by_id:
                await self._cluster.see(partition_key(topic_id, 0))
            topic = self._cluster.image.topics_by_id.get(topic_id)
        else:
            await self._see(name)
            topic = self._cluster.image.topics.get(name)
        if topic is None and name is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, "There is no topic with this id.")
        if topic is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist.")
        self._refuse_internal(topic.name, "deleting it would forget every {of}", "what was done stays written")
        before(topic)
        await self._cluster.delete_topic(topic.name, topic.topic_id)
        await self._settled()
        return topic

    def _require_room(self, assignments: Iterable[Collection[int]] | None) -> None:
        require_room(self._cluster.image, self._space, self._broker_id, assignments)

    def _refuse_internal(self, name: str, why: str, why_of_audit: str) -> None:
        if name == AUDIT:
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is internal; {why_of_audit}.")
        if name in INTERNAL_TOPICS:
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is internal; {why.format(of=HELD_IN[name])}.")

    def _keep_audit_written(self, changed: set[str], after: Mapping[str, str]) -> None:
        """Nobody shortens the audit trail, or makes a topic of it that cannot be written, by its settings.  What was changed
        before may be set back."""
        made = self._audit().configs
        for name in sorted(name for name in changed - AUDIT_SETTINGS_FREE if name not in made or after.get(name) != made[name]):
            if name != RETENTION:
                raise RequestError(ErrorCode.INVALID_CONFIG, f"{AUDIT} is internal; its {name} is the brokers'.")
            shortest: int = self._config.now["headrace.audit.topic.retention.ms"]
            if _is_shorter(after.get(name), shortest):
                why = f"its {name} is not less than the brokers' headrace.audit.topic.retention.ms, {shortest}"
                raise RequestError(ErrorCode.INVALID_CONFIG, f"{AUDIT} is internal; {why}.")

    def _keep_looked_into(self, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """What is sent there is decided upon, never written as it came, and what waits is not removed for its age."""
        made = self._as_broker_is_set(name).configs
        for setting in ("cleanup.policy", "headrace.delay.enable"):
            if after.get(setting) not in (before.get(setting), made[setting]):
                raise RequestError(ErrorCode.INVALID_CONFIG, f"{name} is internal; its {setting} is the brokers'.")

    async def _see(self, name: str) -> None:
        """A topic that seems not to be there may just have been made by another broker."""
        if name not in self._cluster.image.topics:
            await self._cluster.see(topic_key(name))

    def _as_broker_is_set(self, name: str) -> NewTopic:
        config = self._config.now
        match name:
            case "__consumer_offsets":
                return self._internal(name, "offsets.topic")
            case "__transaction_state":
                minimum = min(
                    config["transaction.state.log.min.isr"], self._replicas_at_most("transaction.state.log.replication.factor")
                )
                return self._internal(name, "transaction.state.log", {"min.insync.replicas": str(minimum)})
            case "__audit":
                return self._audit()
            case "__share_group_state":
                prefix = "share.coordinator.state.topic"
                minimum = min(config[f"{prefix}.min.isr"], self._replicas_at_most(f"{prefix}.replication.factor"))
                # Not compacted: what may go is known only to the coordinator, and it sees to it.
                kept = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
                return self._internal(name, prefix, {**kept, "min.insync.replicas": str(minimum)})
            case "__headrace_delayed":
                return self._delayed(name, config["headrace.delay.topic.num.partitions"])
            case "__headrace_schedules":
                return self._delayed(name, 1)
            case _:
                return NewTopic(name=name)

    def _audit(self) -> NewTopic:
        """One partition, so that there is one order of what was done; flushed, and on more than one disk, before it counts."""
        factor = self._replicas_at_most("headrace.audit.topic.replication.factor")
        return NewTopic(
            name=AUDIT,
            partition_count=1,
            replication_factor=factor,
            configs={
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "headrace.flush": "ack",
                # Its own, so that no setting for all topics keeps what was done from being written.
                "max.message.bytes": str(AUDIT_BATCH_BYTES_MAX),
                "min.insync.replicas": str(max(1, factor - 1)),
                "retention.bytes": "-1",
                "retention.ms": str(self._config.now["headrace.audit.topic.retention.ms"]),
                "unclean.leader.election.enable": "false",
            },
        )

    def _delayed(self, name: str, partitions: int) -> NewTopic:
        """As durable as what is delivered from it can be: flushed, and on more than one disk, before it counts."""
        factor = self._replicas_at_most("headrace.delay.topic.replication.factor")
        return NewTopic(
            name=name,
            partition_count=partitions,
            replication_factor=factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                # What is written here is looked at, and does not enter the log by itself.
                "headrace.delay.enable": "true",
                "headrace.flush": "ack",
                "min.insync.replicas": str(max(1, factor - 1)),
                "segment.bytes": str(DELAYED_SEGMENT_BYTES),
                "unclean.leader.election.enable": "false",
            },
        )

    def _internal(self, name: str, prefix: str, more: Mapping[str, str] | None = None) -> NewTopic:
        assert name in INTERNAL_TOPICS
        config = self._config.now
        size: int = config[f"{prefix}.segment.bytes"]
        return NewTopic(
            name=name,
            partition_count=config[f"{prefix}.num.partitions"],
            replication_factor=self._replicas_at_most(f"{prefix}.replication.factor"),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                _segment_setting(size): str(size),
                **(more or {}),
            },
        )

    def _replicas_at_most(self, setting: str) -> int:
        wanted: int = self._config.now[setting]
        return max(1, min(wanted, len(self._cluster.image.brokers)))

    def _check(self, wanted: NewTopic) -> LogConfig:
        if (wrong := why_not_a_topic_name(wanted.name)) is not None:
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
        if wanted.name in self._cluster.image.topics:
            raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists.")
        self._check_collision(wanted.name)
        self._check_counts(wanted)
        return self._checked_config(wanted.configs)

    def _check_collision(self, name: str) -> None:
        if "." not in name and "_" not in name:
            return
        for other in self._cluster.image.topics:
            if collides_with(name, other):
                raise RequestError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"Topic '{name}' collides with existing topic '{other}': '.' and '_' count as one.",
                )

    def _check_counts(self, wanted: NewTopic) -> None:
        if wanted.assignments is not None:
            if wanted.partition_count != -1 or wanted.replication_factor != -1:
                raise RequestError(ErrorCode.INVALID_REQUEST, "Give either counts or assignments of replicas, not both.")
            return
        if wanted.partition_count != -1 and wanted.partition_count < 1:
            raise RequestError(ErrorCode.INVALID_PARTITIONS, "The number of partitions must be 1 or more, or -1 for the default.")
        if wanted.replication_factor != -1 and not 1 <= wanted.replication_factor <= 32767:
            raise RequestError(
                ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor must be 1 or more, or -1 for the default."
            )

    def _checked_config(self, texts: Mapping[str, str], kept: Mapping[str, str] = MappingProxyType({})) -> LogConfig:
        try:
            config = self._config.now.topic_defaults().overridden(kept).checked(texts)
            require_store(self._config.now, config)
            return config
        except SettingError as error:
            raise RequestError(ErrorCode.INVALID_CONFIG, f"{error}.") from None

    def _spec(self, wanted: NewTopic) -> TopicSpec:
        config = self._config.now
        return TopicSpec(
            name=wanted.name,
            topic_id=self._cluster.new_topic_id(),
            partition_count=config["num.partitions"] if wanted.partition_count == -1 else wanted.partition_count,
            replication_factor=self._default_factor(config) if wanted.replication_factor == -1 else wanted.replication_factor,
            assignments=wanted.assignments,
            configs=dict(wanted.configs),
        )

    def _default_factor(self, config: BrokerConfig) -> int:
        factor: int | None = config["default.replication.factor"]
        return factor or min(REPLICATION_FACTOR_IN_A_CLUSTER, max(1, len(self._cluster.image.brokers)))


def _segment_setting(size: int) -> str:
    """The brokers' own topics may have smaller segments than others."""
    return "segment.bytes" if size >= (TOPIC_SETTINGS["segment.bytes"].minimum or 0) else "internal.segment.bytes"


def _is_shorter(text: str | None, shortest_ms: int) -> bool:
    """Whether records would be kept for less time; -1 is for ever.  What is no number is refused with the other settings."""
    if text is None:
        return True
    try:
        retention_ms = int(text)
    except ValueError:
        return False
    return retention_ms != -1 and (shortest_ms == -1 or retention_ms < shortest_ms)
