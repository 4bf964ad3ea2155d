"""Server-side assignors: who of a consumer group is meant to read which partitions.

`uniform` gives everybody as nearly the same number as subscriptions allow and moves as few partitions as it can; `range` gives
everybody a contiguous run of each topic.  What always holds: each partition of each subscribed topic goes to exactly one of the
topic's subscribers.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from uuid import UUID

from headrace.coordination.group.entries import Partitions
from headrace.declaring import dataclass

Assignment = dict[str, dict[UUID, frozenset[int]]]
TopicPartitionId = tuple[UUID, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """What an assignor knows of a member: the topics it reads and the partitions it was meant to have until now."""

    topics: frozenset[UUID]
    current: Partitions = field(default_factory=dict)
    instance_id: str | None = None


Members = Mapping[str, MemberSpec]
PartitionCounts = Mapping[UUID, int]
Assignor = Callable[[Members, PartitionCounts], Assignment]


# --- range ------------------------------------------------------------------------------------------------------------------


def assign_range(members: Members, partition_counts: PartitionCounts) -> Assignment:
    """Each topic is cut into one run per subscriber; the first subscribers get the longer ones.

    Subscribers are taken in the same order for every topic, so that equal partitions of topics that belong together meet.
    """
    ordered = sorted(members, key=lambda member_id: _range_order(member_id, members[member_id]))
    assignment: Assignment = {member_id: {} for member_id in members}
    for topic_id in _topics(members):
        subscribers = [member_id for member_id in ordered if topic_id in members[member_id].topics]
        quota, extra = divmod(partition_counts[topic_id], len(subscribers))
        start = 0
        for position, member_id in enumerate(subscribers):
            end = start + quota + (position < extra)
            if start < end:
                assignment[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return assignment


def _range_order(member_id: str, member: MemberSpec) -> tuple[bool, str]:
    # Static members come first and by their lasting name, so that a restart does not shift the ranges.
    return (member.instance_id is None, member_id if member.instance_id is None else member.instance_id)


def _topics(members: Members) -> list[UUID]:
    return sorted(set().union(*(member.topics for member in members.values())))


# --- uniform ----------------------------------------------------------------------------------------------------------------


def assign_uniform(members: Members, partition_counts: PartitionCounts) -> Assignment:
    """Keep what can be kept, hand out what is free to whoever has least, then even out."""
    if not members:
        return {}
    held = _still_valid(members, partition_counts)
    taken = set().union(*held.values())
    free = [
        (topic_id, partition)
        for topic_id in _topics(members)
        for partition in range(partition_counts[topic_id])
        if (topic_id, partition) not in taken
    ]
    if len({member.topics for member in members.values()}) == 1:
        _share_equally(held, free)
    else:
        _share_among_subscribers(members, held, free)
    return {member_id: _by_topic(partitions) for member_id, partitions in held.items()}


def _still_valid(members: Members, partition_counts: PartitionCounts) -> dict[str, set[TopicPartitionId]]:
    """What each member keeps of its old share: topics it still reads, partitions that exist, none twice."""
    taken: set[TopicPartitionId] = set()
    held: dict[str, set[TopicPartitionId]] = {}
    for member_id in sorted(members):
        member = members[member_id]
        kept = {
            (topic_id, partition)
            for topic_id, partitions in member.current.items()
            if topic_id in member.topics
            for partition in partitions
            if partition < partition_counts[topic_id]
        }
        held[member_id] = kept - taken
        taken |= kept
    return held


def _share_equally(held: dict[str, set[TopicPartitionId]], free: list[TopicPartitionId]) -> None:
    """All members read the same topics: everybody gets the quota, and the remainder goes first to those who have more already."""
    total = len(free) + sum(map(len, held.values()))
    quota, remainder = divmod(total, len(held))
    quotas: dict[str, int] = {}
    for member_id in sorted(held, key=lambda member_id: (-len(held[member_id]), member_id)):
        quotas[member_id] = quota + (remainder > 0)
        remainder -= remainder > 0
    for member_id, partitions in held.items():
        for surplus in sorted(partitions)[quotas[member_id] :]:
            partitions.remove(surplus)
            free.append(surplus)
    supply = iter(free)
    for member_id, partitions in held.items():
        for _ in range(quotas[member_id] - len(partitions)):
            partitions.add(next(supply))


ROUNDS_MAX = 16


def _share_among_subscribers(members: Members, held: dict[str, set[TopicPartitionId]], free: list[TopicPartitionId]) -> None:
    """Members read different topics: the topics with fewest subscribers go first, as they leave the least choice."""
    subscribers: dict[UUID, list[str]] = {topic_id: [] for topic_id in _topics(members)}
    for member_id in sorted(members):
        for topic_id in members[member_id].topics:
            subscribers[topic_id].append(member_id)
    for partition in sorted(free, key=lambda partition: (len(subscribers[partition[0]]), partition)):
        least = min(subscribers[partition[0]], key=lambda member_id: (len(held[member_id]), member_id))
        held[least].add(partition)
    # Each round about halves what imbalance is left; subscriptions that overlap in chains could go on for long.
    for _ in range(ROUNDS_MAX):
        moved = [_even_out(topic_id, subscribers[topic_id], held) for topic_id in subscribers]
        if not any(moved):
            return


def _even_out(topic_id: UUID, subscribers: list[str], held: dict[str, set[TopicPartitionId]]) -> bool:
    """Move partitions of one topic from who has most in all to who has least, while that makes them more equal."""
    moved = False
    while True:
        least = min(subscribers, key=lambda member_id: (len(held[member_id]), member_id))
        givers = [member_id for member_id in subscribers if any(each[0] == topic_id for each in held[member_id])]
        if not givers:
            return moved
        most = max(givers, key=lambda member_id: (len(held[member_id]), member_id))
        if len(held[most]) <= len(held[least]) + 1:
            return moved
        partition = max(each for each in held[most] if each[0] == topic_id)
        held[most].remove(partition)
        held[least].add(partition)
        moved = True


def _by_topic(partitions: set[TopicPartitionId]) -> dict[UUID, frozenset[int]]:
    grouped: dict[UUID, set[int]] = {}
    for topic_id, partition in sorted(partitions):
        grouped.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(indexes) for topic_id, indexes in grouped.items()}


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
