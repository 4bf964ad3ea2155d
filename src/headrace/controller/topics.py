"""Topics made, grown, changed and removed: each a list of writes, the topic's own key last (or, for removal, first).

Always: whoever reads `topics/<name>` finds every partition it speaks of.  Whoever dies half way leaves only partitions without a
topic, which anybody may clean up.  Names and settings are checked by the caller.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import partial
from uuid import UUID

from headrace.controller.entries import (
    Compare,
    ConditionalWrite,
    Delete,
    DeletePrefix,
    Exists,
    Operation,
    PartitionState,
    Put,
    TopicEntry,
    absent,
    broker_config_key,
    creation_key,
    encode_configs,
    partition_key,
    partitions_prefix,
    topic_key,
)
from headrace.controller.image import ClusterImage, Topic
from headrace.controller.placement import place
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_BROKER
from headrace.model.tier.lost_topic import LostTopic

OPERATIONS_MAX = 100
PARTITIONS_MAX = 100_000  # of one topic


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic to be made.  With assignments (partition -> replicas) the counts follow from them."""

    name: str
    topic_id: UUID
    partition_count: int = 1
    replication_factor: int = 1
    assignments: Mapping[int, tuple[int, ...]] | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


Placing = Callable[[], list[tuple[int, ...]]]
"""Answers the replicas of each new partition."""

Computation = Callable[[], list[ConditionalWrite]]
"""What is left to compute once the image has been read: it goes by copies, so it may run beside the event loop."""


def creation(image: ClusterImage, spec: TopicSpec, operations_max: int = OPERATIONS_MAX) -> Computation:
    """Make a topic.  Both this and what it returns raise RequestError."""
    if spec.name in image.topics:
        raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{spec.name}' already exists.")
    placing = _placing_of_new_topic(image, spec)
    states = _NewPartitions(image, spec.topic_id, spec.configs)

    def writes() -> list[ConditionalWrite]:
        puts = states.puts(placing(), first_index=0)
        key = topic_key(spec.name)
        commit = Put(key, TopicEntry(topic_id=spec.topic_id, partition_count=len(puts), configs=spec.configs).to_value())
        if len(puts) < operations_max:
            return [ConditionalWrite((absent(key),), (*puts, commit))]
        return _create_in_steps(spec.topic_id, key, puts, commit, operations_max)

    return writes


def _create_in_steps(topic_id: UUID, key: str, puts: list[Put], commit: Put, operations_max: int) -> list[ConditionalWrite]:
    mark = creation_key(topic_id)
    begin = ConditionalWrite((absent(key),), (Put(mark, b"{}"),))
    # A creator so slow that others took it for dead must not commit a topic whose partitions they cleaned up.
    steps = [ConditionalWrite((Exists(mark),), tuple(chunk)) for chunk in _chunks(puts, operations_max)]
    return [begin, *steps, ConditionalWrite((absent(key), Exists(mark)), (Delete(mark), commit))]


def _placing_of_new_topic(image: ClusterImage, spec: TopicSpec) -> Placing:
    if spec.assignments is not None:
        return _given(_check_assignments(image, spec.assignments, first_index=0))
    if not 1 <= spec.partition_count <= PARTITIONS_MAX:
        raise RequestError(ErrorCode.INVALID_PARTITIONS, f"Number of partitions must be from 1 to {PARTITIONS_MAX}.")
    return _placing(image, spec.name, range(spec.partition_count), spec.replication_factor)


def delete_topic(image: ClusterImage, topic: Topic) -> ConditionalWrite:
    """The topic and its partitions in one write; the name is free from then on."""
    key = topic_key(topic.name)
    return ConditionalWrite(
        (Compare(key, image.mod_revision(key)),), (Delete(key), DeletePrefix(partitions_prefix(topic.topic_id)))
    )


def clean_up(image: ClusterImage, topic_id: UUID) -> ConditionalWrite:
    """Remove what is left of a topic that was never finished."""
    assert topic_id not in image.topics_by_id, f"{topic_id} is a topic"
    mark = creation_key(topic_id)
    operations: list[Operation] = [DeletePrefix(partitions_prefix(topic_id))]
    if topic_id in image.creations:
        operations.append(Delete(mark))
    return ConditionalWrite((Compare(mark, image.mod_revision(mark)),), tuple(operations))


def growth(
    image: ClusterImage,
    name: str,
    new_count: int,
    assignments: list[tuple[int, ...]] | None = None,
    operations_max: int = OPERATIONS_MAX,
) -> Computation:
    """Make a topic larger.  Both this and what it returns raise RequestError."""
    topic = image.topics.get(name)
    if topic is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist.")
    old_count = topic.partition_count
    _check_new_count(topic, new_count, assignments)
    if assignments is not None:
        placing = _given(_check_assignments(image, dict(enumerate(assignments, old_count)), first_index=old_count))
    else:
        placing = _placing(image, name, range(old_count, new_count), topic.replication_factor)
    states = _NewPartitions(image, topic.topic_id, topic.configs)
    entry = TopicEntry(topic_id=topic.topic_id, partition_count=new_count, configs=topic.configs)
    key = topic_key(name)
    # Each step holds only while nobody else has changed the topic: two who grow it at once must not overwrite each other.
    unchanged = (Compare(key, image.mod_revision(key)),)

    def writes() -> list[ConditionalWrite]:
        puts = states.puts(placing(), first_index=old_count)
        steps = [ConditionalWrite(unchanged, tuple(chunk)) for chunk in _chunks(puts, operations_max - 1)]
        last = steps.pop()
        return [*steps, ConditionalWrite(unchanged, (*last.operations, Put(key, entry.to_value())))]

    return writes


def _partitions(count: int) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"


def _check_new_count(topic: Topic, new_count: int, assignments: list[tuple[int, ...]] | None) -> None:
    old_count = topic.partition_count
    if new_count <= old_count:
        adjective = "equal to" if new_count == old_count else "less than"
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {_partitions(old_count)}; {new_count} would be {adjective} that.",
        )
    if new_count > PARTITIONS_MAX:
        raise RequestError(ErrorCode.INVALID_PARTITIONS, f"A topic can have at most {PARTITIONS_MAX} partitions.")
    if assignments is not None and len(assignments) != new_count - old_count:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{_partitions(new_count - old_count)} would be added, but {len(assignments)} assigned.",
        )


def alter_topic_configs(image: ClusterImage, name: str, configs: Mapping[str, str]) -> ConditionalWrite:
    """Replace all settings of a topic."""
    topic = image.topics.get(name)
    if topic is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist.")
    key = topic_key(name)
    entry = TopicEntry(topic_id=topic.topic_id, partition_count=topic.partition_count, configs=configs)
    return ConditionalWrite((Compare(key, image.mod_revision(key)),), (Put(key, entry.to_value()),))


def alter_broker_configs(image: ClusterImage, broker_id: int | None, configs: Mapping[str, str]) -> ConditionalWrite:
    """Replace all run-time settings of one broker, or (None) of all brokers."""
    key = broker_config_key(broker_id)
    operation: Operation = Put(key, encode_configs(configs)) if configs else Delete(key)
    return ConditionalWrite((Compare(key, image.mod_revision(key)),), (operation,))


def loads(image: ClusterImage) -> tuple[Counter[int], Counter[int]]:
    """How many replicas each broker holds, and how many partitions prefer it as leader."""
    replica_load: Counter[int] = Counter()
    leader_load: Counter[int] = Counter()
    for _, _, state in image.partitions():
        replica_load.update(state.replicas)
        leader_load[state.replicas[0]] += 1
    return replica_load, leader_load


def _placing(image: ClusterImage, name: str, indexes: range, replication_factor: int) -> Placing:
    replica_load, leader_load = loads(image)
    racks = {broker.broker_id: broker.rack for broker in image.brokers.values() if not broker.shutting_down}
    return partial(place, name, indexes, replication_factor, racks or _all_racks(image), replica_load, leader_load)


def _given(replicas: list[tuple[int, ...]]) -> Placing:
    return lambda: replicas


def _all_racks(image: ClusterImage) -> dict[int, str | None]:
    return {broker.broker_id: broker.rack for broker in image.brokers.values()}


class _NewPartitions:
    """What the first state of a partition goes by."""

    def __init__(self, image: ClusterImage, topic_id: UUID, configs: Mapping[str, str]) -> None:
        self._topic_id = topic_id
        # The records of a topic that was lost have epochs already; those that follow must not be older.
        self._first_epoch = LostTopic.parse(configs.get(LostTopic.SETTING, "")).next_epoch
        self._alive = frozenset(image.brokers)
        self._willing = frozenset(broker for broker in self._alive if not image.brokers[broker].shutting_down)

    def puts(self, replicas: Iterable[tuple[int, ...]], first_index: int) -> list[Put]:
        return [
            Put(partition_key(self._topic_id, index), self._state(brokers).to_value())
            for index, brokers in enumerate(replicas, first_index)
        ]

    def _state(self, replicas: tuple[int, ...]) -> PartitionState:
        alive = tuple(broker for broker in replicas if broker in self._alive)
        willing = [broker for broker in alive if broker in self._willing] or list(alive)
        # A new partition is empty, so every replica that lives is in sync from the start.
        leader = willing[0] if willing else NO_BROKER
        return PartitionState(replicas=replicas, leader=leader, isr=alive, leader_epoch=self._first_epoch)


def _check_assignments(
    image: ClusterImage, assignments: Mapping[int, tuple[int, ...]], first_index: int
) -> list[tuple[int, ...]]:
    if sorted(assignments) != list(range(first_index, first_index + len(assignments))) or not assignments:
        raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Partitions must be consecutive, starting from {first_index}.")
    factor = len(assignments[first_index])
    for index, replicas in assignments.items():
        check_replicas(image, index, replicas)
        if len(replicas) != factor:
            raise RequestError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "All partitions must have the same number of replicas in the assignment."
            )
        if not any(image.is_alive(broker) for broker in replicas):
            raise RequestError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"All brokers specified in the assignment of partition {index} are down."
            )
    return [tuple(assignments[index]) for index in sorted(assignments)]


def check_replicas(image: ClusterImage, index: int, replicas: tuple[int, ...]) -> None:
    """A list of replicas that one could have: not empty, nobody twice, everybody known."""
    if not replicas:
        raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The assignment of partition {index} is empty.")
    if len(set(replicas)) != len(replicas):
        raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The assignment of partition {index} names a broker twice.")
    for broker in replicas:
        if broker not in image.brokers and broker not in image.members:
            raise RequestError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The assignment of partition {index} names broker {broker}, which is not registered.",
            )


def _chunks(operations: list[Put], size: int) -> list[list[Put]]:
    return [operations[start : start + size] for start in range(0, len(operations), size)]
