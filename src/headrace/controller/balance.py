"""Plans for moving replicas: after brokers were added, before one is taken away, or when one is replaced.

A plan maps partitions to new replica lists and moves as little as it can: only what must leave a broker, or what brings the
fullest and the emptiest closer together.  Racks stay spread.  The same image gives the same plan.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from uuid import UUID

from headrace.controller.entries import PartitionState
from headrace.controller.image import ClusterImage
from headrace.controller.placement import walk
from headrace.controller.reassignment import is_moving
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import TopicPartition


@dataclass(frozen=True, slots=True)
class Plan:
    """New replicas for those partitions that change."""

    targets: Mapping[TopicPartition, tuple[int, ...]]
    replicas_moved: int  # copies that must be made


@dataclass(slots=True)
class _Draft:
    """Replica lists while a plan is made."""

    racks: dict[int, str | None]
    replicas: dict[TopicPartition, tuple[int, ...]]
    before: dict[TopicPartition, tuple[int, ...]]
    topic_ids: dict[str, UUID]
    load: Counter[int] = field(default_factory=Counter)
    held: dict[int, dict[TopicPartition, None]] = field(default_factory=dict)

    @classmethod
    def of(cls, image: ClusterImage, usable: Iterable[int]) -> "_Draft":
        racks = {broker: image.brokers[broker].rack for broker in usable}
        replicas = {
            TopicPartition(topic.name, index): state.replicas
            for topic, index, state in image.partitions()
            if not is_moving(state)
        }
        draft = cls(racks, replicas, dict(replicas), {name: topic.topic_id for name, topic in image.topics.items()})
        for key, brokers in replicas.items():
            for broker in brokers:
                draft.load[broker] += 1
                draft.held.setdefault(broker, {})[key] = None
        return draft

    def move(self, key: TopicPartition, source: int, target: int) -> None:
        self.replicas[key] = tuple(target if broker == source else broker for broker in self.replicas[key])
        self.load[source] -= 1
        self.load[target] += 1
        del self.held[source][key]
        self.held.setdefault(target, {})[key] = None

    def add(self, key: TopicPartition, broker: int) -> None:
        self.replicas[key] = (*self.replicas[key], broker)
        self.load[broker] += 1
        self.held.setdefault(broker, {})[key] = None

    def drop(self, key: TopicPartition, broker: int) -> None:
        self.replicas[key] = tuple(other for other in self.replicas[key] if other != broker)
        self.load[broker] -= 1
        del self.held[broker][key]

    def rack(self, broker: int) -> str | int:
        rack = self.racks.get(broker)
        return broker if rack is None else rack

    def spread(self, brokers: Iterable[int]) -> int:
        """How many racks hold a replica."""
        return len({self.rack(broker) for broker in brokers})

    def spread_after(self, key: TopicPartition, source: int, target: int) -> int:
        return self.spread(target if broker == source else broker for broker in self.replicas[key])

    def plan(self) -> Plan:
        targets = {key: brokers for key, brokers in self.replicas.items() if brokers != self.before[key]}
        copies = sum(len(set(brokers) - set(self.before[key])) for key, brokers in targets.items())
        return Plan(targets, copies)


def require_known(image: ClusterImage, broker: int) -> None:
    """Raise RequestError when nobody has heard of a broker: it is not running, and nothing is placed on it."""
    if broker not in image.brokers and not any(broker in state.replicas for _, _, state in image.partitions()):
        raise RequestError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"There is no broker {broker}.")


def drain(image: ClusterImage, leaving: frozenset[int]) -> Plan:
    """Take every replica off the leaving brokers.  Raises RequestError when the others are too few."""
    usable = sorted(broker for broker in image.brokers if broker not in leaving)
    draft = _Draft.of(image, usable)
    for broker in sorted(leaving):
        for key in list(draft.held.get(broker, ())):
            draft.move(key, broker, _best_target(draft, key, broker, usable))
    return draft.plan()


def replace_broker(image: ClusterImage, old: int, new: int) -> Plan:
    """Give everything that one broker holds to another."""
    if new not in image.brokers:
        raise RequestError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {new} is not running.")
    draft = _Draft.of(image, sorted(image.brokers))
    for key in list(draft.held.get(old, ())):
        if new in draft.replicas[key]:
            usable = sorted(broker for broker in image.brokers if broker != old)
            draft.move(key, old, _best_target(draft, key, old, usable))
        else:
            draft.move(key, old, new)
    return draft.plan()


def with_factor(image: ClusterImage, name: str, factor: int) -> Plan:
    """Give every partition of a topic so many replicas: new ones where there is most room, old ones dropped from the end."""
    usable = sorted(broker for broker, registration in image.brokers.items() if not registration.shutting_down)
    if not 1 <= factor <= len(usable):
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"{factor} replicas need {factor} brokers, and {len(usable)} are running."
        )
    draft = _Draft.of(image, usable)
    for index, state in enumerate(image.topics[name].partitions):
        key = TopicPartition(name, index)
        while len(draft.replicas.get(key, state.replicas)) < factor:
            draft.add(key, _best_addition(draft, key, usable))
        while len(draft.replicas.get(key, state.replicas)) > factor:
            draft.drop(key, _least_needed(draft.replicas[key], state))
    return draft.plan()


def _best_addition(draft: _Draft, key: TopicPartition, usable: list[int]) -> int:
    candidates = [broker for broker in usable if broker not in draft.replicas[key]]
    ring = {broker: place for place, broker in enumerate(walk(tuple(usable), f"{key[0]} {key[1]}"))}
    return min(candidates, key=lambda b: (-draft.spread((*draft.replicas[key], b)), draft.load[b], ring[b]))


def _least_needed(replicas: tuple[int, ...], state: PartitionState) -> int:
    """The last one that is not in sync, or the last; never the leader."""
    others = [broker for broker in replicas if broker != state.leader]
    lagging = [broker for broker in others if broker not in state.isr]
    return (lagging or others)[-1]


def _best_target(draft: _Draft, key: TopicPartition, source: int, usable: list[int]) -> int:
    candidates = [broker for broker in usable if broker not in draft.replicas[key]]
    if not candidates:
        topic, index = key
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{topic}-{index} needs {len(draft.replicas[key])} brokers, and too few would be left.",
        )
    ring = {broker: place for place, broker in enumerate(walk(tuple(usable), f"{key[0]} {key[1]}"))}
    return min(candidates, key=lambda b: (-draft.spread_after(key, source, b), draft.load[b], ring[b]))


def rebalance(image: ClusterImage) -> Plan:
    """Even out how many replicas the brokers hold, to within one where racks allow, then how many partitions prefer each."""
    usable = sorted(broker for broker, r in image.brokers.items() if not r.shutting_down)
    draft = _Draft.of(image, usable)
    if len(usable) > 1:
        while _move_one(draft, usable):
            pass
        _even_out_leaders(draft, usable)
    return draft.plan()


def _move_one(draft: _Draft, usable: list[int]) -> bool:
    """Move one replica from a full broker to an emptier one; False when none would help."""
    by_load = sorted(usable, key=lambda broker: (draft.load[broker], broker))
    for source in reversed(by_load):
        for target in by_load:
            if draft.load[source] - draft.load[target] < 2:
                break
            if (key := _movable(draft, source, target)) is not None:
                draft.move(key, source, target)
                return True
    return False


def _movable(draft: _Draft, source: int, target: int) -> TopicPartition | None:
    for key in draft.held.get(source, ()):
        replicas = draft.replicas[key]
        if target not in replicas and draft.spread_after(key, source, target) >= draft.spread(replicas):
            return key
    return None


def _even_out_leaders(draft: _Draft, usable: list[int]) -> None:
    """Reorder replicas, which moves no data, so that each broker is preferred about equally often."""
    preferred: Counter[int] = Counter(dict.fromkeys(usable, 0))
    for brokers in draft.replicas.values():
        preferred[brokers[0]] += 1
    changed = True
    while changed:
        changed = False
        for key, (first, *others) in draft.replicas.items():
            if not others:
                continue
            least = min(others, key=lambda broker: (preferred[broker], broker))
            if preferred[first] - preferred[least] >= 2:
                draft.replicas[key] = (least, first, *(broker for broker in others if broker != least))
                preferred[first] -= 1
                preferred[least] += 1
                changed = True
