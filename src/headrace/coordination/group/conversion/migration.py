"""Moving a group with members between the classic and the consumer protocol, where the policy allows it.

Upgrade: the first member that speaks the consumer protocol turns the group into a consumer group in which the others go on
speaking the classic one.  Downgrade: when the last member that speaks the consumer protocol goes, the group turns back.
"""

from collections.abc import Sequence

from headrace.coordination.group.classic import rebalance
from headrace.coordination.group.classic.state import ClassicGroup, ClassicMember, ClassicState
from headrace.coordination.group.consumer.members import (
    ConsumerGroup,
    ConsumerMember,
    identified_partitions,
    named_partitions,
    with_epoch,
)
from headrace.coordination.group.context import Context, Outcome
from headrace.coordination.group.conversion import subscription_bytes
from headrace.coordination.group.entries import ClassicGroupEntry, ClassicProtocols, MemberState, MemberValue
from headrace.coordination.group.requests import JoinReply, SyncReply
from headrace.coordination.group.timers import Timer, TimerKey
from headrace.coordination.moment import Moment
from headrace.model.errors import ErrorCode, RequestError

# --- upgrade ----------------------------------------------------------------------------------------------------------------


def upgrade(group: ClassicGroup, context: Context, outcome: Outcome, now: Moment) -> ConsumerGroup:
    """The consumer group that a classic group becomes; raises when it may not."""
    _check_upgrade(group, context)
    try:
        upgraded = _upgraded(group, context)
    except subscription_bytes.MalformedProtocol:
        raise _no_upgrade(group, "the embedded consumer protocol is malformed") from None
    for member in group.members.values():
        rejoin = ErrorCode.REBALANCE_IN_PROGRESS
        rebalance.answer_join(member, JoinReply(error=rejoin, member_id=member.member_id), outcome)
        rebalance.answer_sync(member, SyncReply(error=rejoin), outcome)
        context.hear_from(group.group_id, member.member_id, member.session_timeout_ms, now)
    outcome.write(ClassicGroupEntry(group.group_id, None))
    outcome.write_all(upgraded.creation())
    return upgraded


def _no_upgrade(group: ClassicGroup, reason: str) -> RequestError:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."
    return RequestError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _check_upgrade(group: ClassicGroup, context: Context) -> None:
    if not context.settings.migration_policy.allows_upgrade:
        raise _no_upgrade(group, "online upgrade is disabled")
    if not group.uses_consumer_protocol:
        raise _no_upgrade(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > context.settings.consumer_max_size:
        raise _no_upgrade(group, "the group size exceeds the consumer group maximum size")


def _upgraded(group: ClassicGroup, context: Context) -> ConsumerGroup:
    protocol = group.protocol or group.chosen_by_vote()
    members = [_upgraded_member(group, member, protocol, context) for member in group.members.values()]
    upgraded = ConsumerGroup(
        group.group_id,
        epoch=group.generation,
        target_epoch=group.generation,
        members={member.member_id: member for member in members},
        static_members=dict(group.static_members),
        targets={
            member.member_id: {topic_id: frozenset(held) for topic_id, held in member.assigned.items()} for member in members
        },
    )
    for member in members:
        for topic_id, partitions in member.assigned.items():
            upgraded.owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member.member_id))
    upgraded.metadata_hash = context.topics.subscription_hash(upgraded.subscribed_topics())
    return upgraded


def _upgraded_member(group: ClassicGroup, member: ClassicMember, protocol: str, context: Context) -> ConsumerMember:
    # One that has just joined anew may no longer know the protocol of before; all of its own carry its subscription.
    known = protocol if protocol in member.protocols else next(iter(member.protocols))
    subscription = subscription_bytes.read_subscription(member.protocols[known])
    # A member that has joined but never synced has nothing.
    assignment = (
        subscription_bytes.read_assignment(member.assignment)
        if member.assignment
        else subscription_bytes.Assignment(partitions={})
    )
    if assignment.user_data:
        raise _no_upgrade(group, "an unsupported custom assignor is in use, whose data would be lost")
    return ConsumerMember(
        member_id=member.member_id,
        about=MemberValue(
            instance_id=member.instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            topic_names=frozenset(subscription.topics),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicProtocols(member.session_timeout_ms, tuple(member.protocols.items())),
        ),
        epoch=group.generation,
        previous_epoch=group.generation,
        state=MemberState.STABLE,
        assigned=with_epoch(identified_partitions(assignment.partitions, context.topics), group.generation),
    )


# --- downgrade --------------------------------------------------------------------------------------------------------------


def may_downgrade(group: ConsumerGroup, leaving: Sequence[str], context: Context) -> bool:
    """Whether the group turns classic when these members go."""
    remaining = len(group.members.keys() - set(leaving))
    return (
        0 < remaining <= context.settings.max_size
        and context.settings.migration_policy.allows_downgrade
        and group.only_classic_without(leaving)
    )


def downgrade(group: ConsumerGroup, leaving: Sequence[str], context: Context, outcome: Outcome, now: Moment) -> None:
    """Turn the group classic without these members; the others join again to share what they had."""
    outcome.write_all(group.tombstones())
    _write_downgraded(group.without_members(leaving), context, outcome, now)
    _rebalance_once_replayed(group.group_id, context, now, is_needed=True)


def downgrade_with_replaced(
    picture: ConsumerGroup, context: Context, outcome: Outcome, now: Moment, *, is_rebalance_needed: bool
) -> None:
    """Turn the group classic because a static member came back speaking the classic protocol.

    `picture` is the group with that member in its old self's place, whose entries have been written already.
    """
    outcome.write_all(picture.tombstones())
    _write_downgraded(picture, context, outcome, now)
    _rebalance_once_replayed(picture.group_id, context, now, is_needed=is_rebalance_needed)


def _write_downgraded(picture: ConsumerGroup, context: Context, outcome: Outcome, now: Moment) -> None:
    downgraded = ClassicGroup(group_id=picture.group_id, generation=picture.epoch, protocol_type=subscription_bytes.CONSUMER)
    for member in picture.members.values():
        downgraded.add(_downgraded_member(member), subscription_bytes.CONSUMER)
    downgraded.protocol = downgraded.chosen_by_vote()
    assignments: dict[str, bytes] = {}
    for member_id, classic in downgraded.members.items():
        version = subscription_bytes.read_subscription(classic.protocols[downgraded.protocol]).version
        # What it has, not what it was meant to have: until it joins again nobody else may be given any of it.
        held = named_partitions(picture.members[member_id].held(), context.topics)
        assignments[member_id] = subscription_bytes.write_assignment(held, version)
    outcome.write(downgraded.as_entry(assignments, now.wall_ms))


def _downgraded_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.about.client_id,
        client_host=member.about.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.about.rebalance_timeout_ms,
        protocols=dict(member.classic.protocols),
    )


def _rebalance_once_replayed(group_id: str, context: Context, now: Moment, *, is_needed: bool) -> None:
    # The classic group comes to be when its entry is replayed; this fires right after.
    context.timers.set(TimerKey(Timer.DOWNGRADED, group_id), now.monotonic, is_needed)


def on_downgraded(group: ClassicGroup, is_rebalance_needed: object, context: Context, outcome: Outcome, now: Moment) -> None:
    """The group is classic now: watch its members, and have them join again if their assignments are stale."""
    for member in group.members.values():
        context.hear_from(group.group_id, member.member_id, member.session_timeout_ms, now)
    # Somebody who joined in between may have set it going already.
    if is_rebalance_needed and group.state is ClassicState.STABLE:
        rebalance.prepare(group, context, outcome, now)
