"""The cluster as this broker sees it: built from a listing of the store, kept current by the events of a watch.

Always: a topic in the image has all its partitions.  Partitions arrive before their topic (the topic's key is the commit point),
so those without a topic wait aside, unseen.  Lookups are constant time, and an event costs the same however large the cluster is.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from uuid import UUID

from headrace.controller.access.entries import (
    ACLS,
    SCRAM_CREDENTIALS,
    SCRAM_SEED,
    decode_credential,
    decode_rule,
    decode_seed,
    parse_scram_key,
)
from headrace.controller.changes import (
    AclChanged,
    BrokerAdmitted,
    BrokerChanged,
    BrokerConfigsChanged,
    Change,
    ControllerChanged,
    GroupConfigsChanged,
    PartitionChanged,
    QuotaChanged,
    ScramCredentialChanged,
    TopicConfigsChanged,
    TopicCreated,
    TopicDeleted,
    TopicGrew,
)
from headrace.controller.entries import (
    ADMITTED,
    BROKER_CONFIGS,
    BROKERS,
    CLIENT_METRICS,
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    CREATIONS,
    DEFAULT_BROKER,
    GROUP_CONFIGS,
    MEMBERS,
    PARTITIONS,
    QUOTAS,
    TOPICS,
    UNCLEAN_ELECTIONS,
    BrokerRegistration,
    Compare,
    CompareCreated,
    Condition,
    Event,
    Exists,
    KeyValue,
    PartitionState,
    TopicEntry,
    UncleanElections,
    decode_configs,
    decode_number,
    group_of_config_key,
    subscription_of_key,
)
from headrace.declaring import dataclass
from headrace.model.access.acls import AclRule
from headrace.model.access.scram import ScramCredential, ScramMechanism
from headrace.model.identity import NO_BROKER


@dataclass(slots=True)
class Topic:
    """A topic and its partitions, by index.  Read it, do not change it: the image does."""

    name: str
    topic_id: UUID
    configs: dict[str, str]
    partitions: list[PartitionState]

    @property
    def partition_count(self) -> int:
        return len(self.partitions)

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas)


@dataclass(slots=True)
class ClusterImage:
    """What the store holds, by the names people use."""

    revision: int = 0
    cluster_id: str = ""
    controller_id: int = NO_BROKER
    controller_epoch: int = 0
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)  # live ones
    members: dict[int, BrokerRegistration] = field(default_factory=dict)  # all that ever joined, as they last registered
    admitted: dict[int, int] = field(default_factory=dict)  # broker -> the epoch in which it may lead
    topics: dict[str, Topic] = field(default_factory=dict)
    topics_by_id: dict[UUID, Topic] = field(default_factory=dict)
    broker_configs: dict[int, dict[str, str]] = field(default_factory=dict)
    default_broker_configs: dict[str, str] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)  # only of groups that have some
    client_metrics: dict[str, dict[str, str]] = field(default_factory=dict)  # subscriptions; another object after each change
    quotas: dict[str, dict[str, str]] = field(default_factory=dict)  # the entity's key -> limits
    acls: dict[str, AclRule] = field(default_factory=dict)  # the rule's key -> the rule
    scram_credentials: dict[tuple[str, ScramMechanism], ScramCredential] = field(default_factory=dict)
    scram_seed: bytes = b""
    unclean_elections: UncleanElections = field(default_factory=UncleanElections)
    creations: set[UUID] = field(default_factory=set)  # large topics being written now
    _stored: dict[str, tuple[int, int]] = field(default_factory=dict)  # key -> (create revision, mod revision)
    _uncommitted: dict[UUID, dict[int, PartitionState]] = field(default_factory=dict)

    @classmethod
    def from_items(cls, items: Iterable[KeyValue], revision: int) -> "ClusterImage":
        image = cls()
        for item in items:
            image.apply(Event(item.key, item, item.mod_revision))
        image.revision = revision
        return image

    def topic(self, name: str) -> Topic | None:
        return self.topics.get(name)

    def partition(self, name: str, index: int) -> PartitionState | None:
        topic = self.topics.get(name)
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    def partitions(self) -> Iterator[tuple[Topic, int, PartitionState]]:
        """Every partition of every topic."""
        for topic in self.topics.values():
            for index, state in enumerate(topic.partitions):
                yield topic, index, state

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self.brokers

    def is_admitted(self, broker_id: int) -> bool:
        """Whether the controller knows of this life of the broker.  Only then may it lead, and only then be elected."""
        broker = self.brokers.get(broker_id)
        return broker is not None and self.admitted.get(broker_id) == broker.epoch

    def configs_of_broker(self, broker_id: int) -> dict[str, str]:
        """Run-time settings of a broker: those of all, overridden by its own."""
        return self.default_broker_configs | self.broker_configs.get(broker_id, {})

    def mod_revision(self, key: str) -> int:
        """When the key was last written; 0 when there is none."""
        return self._stored.get(key, (0, 0))[1]

    def create_revision(self, key: str) -> int:
        return self._stored.get(key, (0, 0))[0]

    def holds(self, condition: Condition) -> bool:
        match condition:
            case Compare(key, revision):
                return self.mod_revision(key) == revision
            case CompareCreated(key, revision):
                return self.create_revision(key) == revision
            case Exists(key):
                return key in self._stored

    def garbage(self) -> list[UUID]:
        """Topic ids that have partitions but no topic, and none in the making: left by whoever died in the middle."""
        return [
            topic_id for topic_id in self._uncommitted if topic_id not in self.creations and topic_id not in self.topics_by_id
        ]

    def apply(self, event: Event) -> list[Change]:
        """Take in one event; answer what it changed for those who look at the cluster."""
        stored = self._stored.get(event.key)
        if stored is not None and event.revision < stored[1]:
            return []
        if event.item is None:
            self._stored.pop(event.key, None)
        else:
            self._stored[event.key] = (event.item.create_revision, event.item.mod_revision)
        self.revision = max(self.revision, event.revision)
        return self._dispatch(event)

    def events_towards(self, items: Iterable[KeyValue], revision: int) -> list[Event]:
        """What must have happened between this image and a newer listing.  Removals first: a topic made anew has a new id."""
        listed = {item.key: item for item in items}
        removed = [Event(key, None, revision) for key in self._stored if key not in listed]
        removed.sort(key=lambda event: not event.key.startswith(TOPICS))
        written = [
            Event(item.key, item, item.mod_revision)
            for item in listed.values()
            if item.mod_revision != self.mod_revision(item.key)
        ]
        # A topic after its partitions, as when it was made: they may have changed since, and stand at later revisions than it.
        written.sort(key=lambda event: (event.key.startswith(TOPICS), event.revision))
        return removed + written

    def _dispatch(self, event: Event) -> list[Change]:
        key, value = event.key, event.item.value if event.item else None
        if key.startswith(PARTITIONS):
            topic_id, _, index = key[len(PARTITIONS) :].partition("/")
            return self._on_partition(UUID(topic_id), int(index), value)
        if key.startswith(TOPICS):
            return self._on_topic(key[len(TOPICS) :], value)
        if key.startswith(BROKERS):
            return self._on_broker(int(key[len(BROKERS) :]), event)
        if key.startswith(MEMBERS):
            self._on_member(int(key[len(MEMBERS) :]), event)
        elif key.startswith(ADMITTED):
            return self._on_admitted(int(key[len(ADMITTED) :]), value)
        elif key.startswith(CREATIONS):
            topic_id = key[len(CREATIONS) :]
            (self.creations.discard if value is None else self.creations.add)(UUID(topic_id))
        elif key.startswith(BROKER_CONFIGS):
            return self._on_broker_configs(key[len(BROKER_CONFIGS) :], value)
        elif key.startswith(GROUP_CONFIGS):
            return self._on_group_configs(group_of_config_key(key), value)
        elif key.startswith(CLIENT_METRICS):
            others = {name: texts for name, texts in self.client_metrics.items() if name != subscription_of_key(key)}
            self.client_metrics = others | ({} if value is None else {subscription_of_key(key): decode_configs(value)})
        elif key.startswith(QUOTAS):
            return self._on_quota(key[len(QUOTAS) :], value)
        elif key.startswith((ACLS, SCRAM_CREDENTIALS)):
            return self._on_acl(key, value) if key.startswith(ACLS) else self._on_scram_credential(key, value)
        elif key == SCRAM_SEED and value is not None:
            self.scram_seed = decode_seed(value)
        elif key == CONTROLLER:
            self.controller_id = NO_BROKER if value is None else decode_number(value)
            return [ControllerChanged(self.controller_id, self.controller_epoch)]
        elif key == CONTROLLER_EPOCH and value is not None:
            self.controller_epoch = decode_number(value)
        elif key == UNCLEAN_ELECTIONS and value is not None:
            self.unclean_elections = UncleanElections.from_value(value)
        elif key == CLUSTER_ID and value is not None:
            self.cluster_id = value.decode()
        return []

    def _on_partition(self, topic_id: UUID, index: int, value: bytes | None) -> list[Change]:
        topic = self.topics_by_id.get(topic_id)
        if topic is None or index >= len(topic.partitions):
            self._set_uncommitted(topic_id, index, value)
            return []
        if value is None:
            # Only the end of the whole topic removes a committed partition, and that removes the topic first.
            return []
        before, after = topic.partitions[index], PartitionState.from_value(value)
        topic.partitions[index] = after
        return [PartitionChanged(topic.name, topic_id, index, before, after)]

    def _set_uncommitted(self, topic_id: UUID, index: int, value: bytes | None) -> None:
        if value is not None:
            self._uncommitted.setdefault(topic_id, {})[index] = PartitionState.from_value(value)
            return
        waiting = self._uncommitted.get(topic_id, {})
        waiting.pop(index, None)
        if not waiting:
            self._uncommitted.pop(topic_id, None)

    def _on_topic(self, name: str, value: bytes | None) -> list[Change]:
        before = self.topics.get(name)
        if value is None:
            return self._remove_topic(before) if before else []
        entry = TopicEntry.from_value(value)
        changes: list[Change] = []
        if before is not None and before.topic_id != entry.topic_id:
            changes += self._remove_topic(before)
            before = None
        return changes + (self._add_topic(name, entry) if before is None else self._update_topic(before, entry))

    def _add_topic(self, name: str, entry: TopicEntry) -> list[Change]:
        topic = Topic(name, entry.topic_id, dict(entry.configs), [])
        self._take_partitions(topic, entry.partition_count)
        self.topics[name] = self.topics_by_id[entry.topic_id] = topic
        return [TopicCreated(name, entry.topic_id, topic.partition_count)]

    def _update_topic(self, topic: Topic, entry: TopicEntry) -> list[Change]:
        changes: list[Change] = []
        if entry.configs != topic.configs:
            before, topic.configs = topic.configs, dict(entry.configs)
            changes.append(TopicConfigsChanged(topic.name, topic.topic_id, before, topic.configs))
        if entry.partition_count > topic.partition_count:
            old_count = topic.partition_count
            self._take_partitions(topic, entry.partition_count)
            changes.append(TopicGrew(topic.name, topic.topic_id, old_count, topic.partition_count))
        return changes

    def _take_partitions(self, topic: Topic, count: int) -> None:
        waiting = self._uncommitted.pop(topic.topic_id, {})
        for index in range(topic.partition_count, count):
            topic.partitions.append(waiting.pop(index))
        if waiting:
            self._uncommitted[topic.topic_id] = waiting

    def _remove_topic(self, topic: Topic) -> list[Change]:
        del self.topics[topic.name]
        del self.topics_by_id[topic.topic_id]
        # Their keys may outlive the topic by a moment, or for ever if nobody cleans up: see garbage().
        self._uncommitted[topic.topic_id] = dict(enumerate(topic.partitions))
        return [TopicDeleted(topic.name, topic.topic_id, topic.partition_count)]

    def _on_broker(self, broker_id: int, event: Event) -> list[Change]:
        before = self.brokers.pop(broker_id, None)
        if event.item is not None:
            self.brokers[broker_id] = BrokerRegistration.from_value(broker_id, event.item.create_revision, event.item.value)
        return [BrokerChanged(broker_id, before, self.brokers.get(broker_id))]

    def _on_member(self, broker_id: int, event: Event) -> None:
        self.members.pop(broker_id, None)
        if event.item is not None:
            self.members[broker_id] = BrokerRegistration.from_value(broker_id, event.item.mod_revision, event.item.value)

    def _on_admitted(self, broker_id: int, value: bytes | None) -> list[Change]:
        self.admitted.pop(broker_id, None)
        if value is None:
            return []
        self.admitted[broker_id] = epoch = decode_number(value)
        return [BrokerAdmitted(broker_id, epoch)]

    def _on_broker_configs(self, name: str, value: bytes | None) -> list[Change]:
        configs = decode_configs(value) if value is not None else {}
        if name == DEFAULT_BROKER:
            self.default_broker_configs = configs
            return [BrokerConfigsChanged(None)]
        self.broker_configs[int(name)] = configs
        return [BrokerConfigsChanged(int(name))]

    def _on_group_configs(self, group_id: str, value: bytes | None) -> list[Change]:
        self.group_configs.pop(group_id, None)
        if value is not None:
            self.group_configs[group_id] = decode_configs(value)
        return [GroupConfigsChanged(group_id)]

    def _on_quota(self, entity: str, value: bytes | None) -> list[Change]:
        self.quotas.pop(entity, None)
        if value is not None:
            self.quotas[entity] = decode_configs(value)
        return [QuotaChanged(entity)]

    # The image as it is when asked: a renewed one is another object.

    def _on_acl(self, key: str, value: bytes | None) -> list[Change]:
        before = self.acls.pop(key, None)
        if value is not None:
            self.acls[key] = decode_rule(value)
        return [AclChanged(before, self.acls.get(key))]

    def _on_scram_credential(self, key: str, value: bytes | None) -> list[Change]:
        user, mechanism = parse_scram_key(key)
        self.scram_credentials.pop((user, mechanism), None)
        if value is not None:
            self.scram_credentials[user, mechanism] = decode_credential(value)
        return [ScramCredentialChanged(user, mechanism)]


CurrentImage = Callable[[], ClusterImage]
