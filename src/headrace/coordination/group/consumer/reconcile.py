"""How a member of a consumer group gets from the partitions it has to those it is meant to have.

It gives up first: until it says that it no longer owns what was taken from it, it stays in its epoch.  Then it moves to the
target's epoch and gets what is free; what others still hold comes with later heartbeats.  So no partition ever has two owners.
"""

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from headrace.coordination.group.consumer.members import ConsumerGroup, ConsumerMember
from headrace.coordination.group.entries import EpochsByPartition, MemberState, Partitions
from headrace.coordination.group.topics import TopicCatalog
from headrace.model.errors import ErrorCode, RequestError


def reconcile(
    group: ConsumerGroup,
    member: ConsumerMember,
    target: Partitions,
    target_epoch: int,
    *,
    owned: Partitions | None,
    subscription_changed: bool,
    topics: TopicCatalog,
) -> ConsumerMember:
    """The member one step nearer to its target.  `owned` is what it says it has; None says nothing.

    `group` is the group with this member in it as it is now.
    """
    subscribed = topics.ids_of(group.topics_of(member))
    match member.state:
        case MemberState.STABLE if member.epoch == target_epoch:
            return _shrunk(member, subscribed, owned) if subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS if _owns_any(owned, member.revoking):
            return _shrunk(member, subscribed, owned) if subscription_changed else member
        case MemberState.UNKNOWN if owned is None or owned:
            message = "The member is in an unknown state and must abandon all its partitions and rejoin."
            raise RequestError(ErrorCode.FENCED_MEMBER_EPOCH, message)
        case _:
            return _next_step(group, member, _within(target, subscribed), target_epoch, owned)


def _within(target: Partitions, subscribed: frozenset[UUID]) -> dict[UUID, frozenset[int]]:
    """The part of a target that the member still wants: the target may be older than its subscription."""
    return {topic_id: partitions for topic_id, partitions in target.items() if topic_id in subscribed}


def _owns_any(owned: Partitions | None, partitions: EpochsByPartition) -> bool:
    if owned is None:
        return True
    return any(partition in partitions.get(topic_id, {}) for topic_id, indexes in owned.items() for partition in indexes)


def _shrunk(member: ConsumerMember, subscribed: frozenset[UUID], owned: Partitions | None) -> ConsumerMember:
    """Without the topics that the member has just given up; a new target will come, but those go at once."""
    kept = {topic_id: partitions for topic_id, partitions in member.assigned.items() if topic_id in subscribed}
    if len(kept) == len(member.assigned):
        return member
    dropped = {topic_id: partitions for topic_id, partitions in member.assigned.items() if topic_id not in kept}
    revoking = _merged(member.revoking, dropped)
    member = replace(member.at_epoch(member.epoch), assigned=kept)
    if _owns_any(owned, revoking):
        return replace(member, state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
    return member


def _merged(first: EpochsByPartition, second: EpochsByPartition) -> dict[UUID, dict[int, int]]:
    return {topic_id: {**first.get(topic_id, {}), **second.get(topic_id, {})} for topic_id in first.keys() | second.keys()}


def _next_step(
    group: ConsumerGroup, member: ConsumerMember, target: Partitions, target_epoch: int, owned: Partitions | None
) -> ConsumerMember:
    kept = _keeping(member.assigned, target)
    revoking = _without(member.assigned, kept)
    if revoking and _owns_any(owned, revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return replace(member.at_epoch(member.epoch), state=state, assigned=kept, revoking=revoking)
    assigned = {topic_id: dict(partitions) for topic_id, partitions in kept.items()}
    is_complete = True
    for topic_id, partitions in target.items():
        for partition in sorted(partitions - kept.get(topic_id, {}).keys()):
            if group.owner_of(topic_id, partition) in (None, member.member_id):
                assigned.setdefault(topic_id, {})[partition] = target_epoch
            else:
                is_complete = False
    state = MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS
    return replace(member.at_epoch(target_epoch), state=state, assigned=assigned, revoking={})


def _keeping(assigned: EpochsByPartition, target: Partitions) -> dict[UUID, Mapping[int, int]]:
    kept = {
        topic_id: {partition: epoch for partition, epoch in partitions.items() if partition in target.get(topic_id, ())}
        for topic_id, partitions in assigned.items()
    }
    return {topic_id: partitions for topic_id, partitions in kept.items() if partitions}


def _without(assigned: EpochsByPartition, kept: EpochsByPartition) -> dict[UUID, Mapping[int, int]]:
    rest = {
        topic_id: {partition: epoch for partition, epoch in partitions.items() if partition not in kept.get(topic_id, {})}
        for topic_id, partitions in assigned.items()
    }
    return {topic_id: partitions for topic_id, partitions in rest.items() if partitions}
