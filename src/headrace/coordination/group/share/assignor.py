"""Who of a share group works on which partitions: any number may work on one.

What always holds of each topic: every partition has a subscriber, every subscriber has a partition, and the numbers of any two
subscribers, and of any two partitions, differ by one at most.
"""

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar
from uuid import UUID

from headrace.coordination.group.entries import Partitions

NAME = "simple"


def assign(
    subscriptions: Mapping[str, frozenset[UUID]], partitions: Partitions, current: Mapping[str, Partitions]
) -> dict[str, dict[UUID, frozenset[int]]]:
    """What each member is to work on, given the topics that it wants, the partitions there are, and what it works on now."""
    assignment: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in subscriptions}
    for topic_id in sorted(partitions):
        subscribers = sorted(member_id for member_id, topics in subscriptions.items() if topic_id in topics)
        if not subscribers or not partitions[topic_id]:
            continue
        held = {member_id: current.get(member_id, {}).get(topic_id, frozenset()) for member_id in subscribers}
        for member_id, mine in _share(sorted(partitions[topic_id]), held).items():
            assignment[member_id][topic_id] = frozenset(mine)
    return assignment


def _share(partitions: list[int], held: Mapping[str, frozenset[int]]) -> dict[str, set[int]]:
    mine: dict[str, set[int]] = {member_id: set() for member_id in held}
    if len(partitions) >= len(held):
        holders = {each: [member_id for member_id in held if each in held[member_id]] for each in partitions}
        for partition, member_id in _one_for_each(partitions, list(held), holders).items():
            mine[member_id].add(partition)
    else:
        wanted = {member_id: sorted(before) for member_id, before in held.items()}
        for member_id, partition in _one_for_each(list(held), partitions, wanted).items():
            mine[member_id].add(partition)
    return mine


One = TypeVar("One", str, int)
Other = TypeVar("Other", str, int)


def _one_for_each(many: list[One], few: list[Other], before: Mapping[One, list[Other]]) -> dict[One, Other]:
    """For each of many one of few, as evenly as can be, and what it had before where that leaves it so."""
    share, extra = divmod(len(many), len(few))
    had = Counter(other for one in many for other in before[one])
    room = dict.fromkeys(few, share)
    for other in sorted(few, key=lambda other: (-had[other], other))[:extra]:
        room[other] += 1
    found: dict[One, Other] = {}
    for one in many:
        kept = next((other for other in before[one] if room.get(other, 0) > 0), None)
        if kept is not None:
            found[one] = kept
            room[kept] -= 1
    for one in many:
        if one not in found:
            found[one] = max(room, key=lambda other: room[other])
            room[found[one]] -= 1
    return found
