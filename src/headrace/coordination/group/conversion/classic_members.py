"""Members that speak the classic protocol inside a consumer group: their JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

For such a member the generation is its member epoch, and JoinGroup takes the steps that a heartbeat takes for the others.  It
learns by REBALANCE_IN_PROGRESS that there is a step to take.  It need not wait in JoinGroup: the coordinator itself assigns.
"""

from dataclasses import replace

from headrace.coordination.decision import Token
from headrace.coordination.group.consumer import consumer_protocol
from headrace.coordination.group.consumer.members import (
    ConsumerGroup,
    ConsumerMember,
    identified_partitions,
    named_partitions,
    without_epochs,
)
from headrace.coordination.group.consumer.transition import Change, advance, register, step_towards_target
from headrace.coordination.group.context import Context, Outcome
from headrace.coordination.group.conversion import migration, subscription_bytes
from headrace.coordination.group.entries import ClassicProtocols, MemberState, MemberValue
from headrace.coordination.group.requests import Heartbeat, Join, JoinReply, Leave, Leaver, LeftMember, Sync, SyncReply
from headrace.coordination.group.settings import MigrationPolicy
from headrace.coordination.group.timers import Timer, TimerKey
from headrace.coordination.moment import Moment
from headrace.model.errors import ErrorCode, RequestError

# --- joining ----------------------------------------------------------------------------------------------------------------


def join(group: ConsumerGroup, request: Join, token: Token, context: Context, outcome: Outcome, now: Moment) -> None:
    """Take a classic member in, or one step on."""
    member_id = request.member_id or request.caller.fresh_id
    _check_join(group, request, member_id, context)
    if request.member_id == "" and request.instance_id is None and request.asks_for_id_first:
        outcome.reply(token, JoinReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
        return
    subscription = _subscription(request)
    member, replaces = _find_member(group, request, member_id, outcome)
    owned = identified_partitions(subscription.owned, context.topics)
    about = _about(member, request, subscription)
    change = Change(group=group, member=member, about=about, owned=owned, replaces=replaces)
    if replaces is not None and _turns_classic(group, replaces, context):
        after = _downgrade(change, context, outcome, now)
    else:
        after = advance(change, context, outcome, now)
        context.timers.cancel(TimerKey(Timer.CLASSIC_JOIN, group.group_id, member_id))
        context.hear_from(group.group_id, member_id, request.session_timeout_ms, now)
        sync_deadline = now.after_ms(request.rebalance_timeout_ms)
        context.timers.set(TimerKey(Timer.CLASSIC_SYNC, group.group_id, member_id), sync_deadline)
    reply = JoinReply(
        member_id=member_id,
        generation=after.epoch,
        protocol_type=subscription_bytes.CONSUMER,
        protocol=request.protocols[0][0],
        leader="",
    )
    outcome.reply(token, reply)


def _check_join(group: ConsumerGroup, request: Join, member_id: str, context: Context) -> None:
    if context.settings.migration_policy is MigrationPolicy.DISABLED:
        reason = "with the classic protocol because the group migration is disabled"
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Cannot join the consumer group {group.group_id} {reason}.")
    consumer_protocol.check_room(group, member_id, context)
    if not group.supports_classic(request.protocol_type, [name for name, _ in request.protocols]):
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")


def _subscription(request: Join) -> subscription_bytes.Subscription:
    try:
        return subscription_bytes.read_subscription(request.protocols[0][1])
    except subscription_bytes.MalformedProtocol:
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The embedded consumer protocol is malformed.") from None


def _find_member(group: ConsumerGroup, request: Join, member_id: str, outcome: Outcome) -> tuple[ConsumerMember, str | None]:
    if request.instance_id is None:
        return group.members.get(member_id, ConsumerMember(member_id=member_id)), None
    holder = group.static_member(request.instance_id)
    if request.member_id != "":
        return consumer_protocol.checked_holder(holder, request.instance_id, member_id), None
    if holder is None:
        return ConsumerMember(member_id=member_id), None
    return consumer_protocol.replace_static(group, holder, member_id, outcome), holder.member_id


def _about(member: ConsumerMember, request: Join, subscription: subscription_bytes.Subscription) -> MemberValue:
    return replace(
        member.about,
        instance_id=request.instance_id if request.instance_id is not None else member.about.instance_id,
        rack_id=subscription.rack_id if subscription.rack_id is not None else member.about.rack_id,
        client_id=request.caller.client_id,
        client_host=request.caller.client_host,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=ClassicProtocols(request.session_timeout_ms, request.protocols),
    )


def _turns_classic(group: ConsumerGroup, replaced_id: str, context: Context) -> bool:
    """Whether the static member that comes back was the last to speak the consumer protocol."""
    return (
        group.members[replaced_id].classic is None
        and group.only_classic_without([replaced_id])
        and context.settings.migration_policy.allows_downgrade
        and len(group.members) <= context.settings.max_size
    )


def _downgrade(change: Change, context: Context, outcome: Outcome, now: Moment) -> ConsumerMember:
    picture = register(change, context, outcome, now)
    after = picture.members[change.member.member_id]
    if picture.target_epoch == picture.epoch:
        after = step_towards_target(change, picture, context, outcome, now)
        picture = picture.with_member(after)
    # Only a group in which everybody has what he is meant to have can go on without a rebalance.
    is_settled = all(member.is_reconciled_to(picture.epoch) for member in picture.members.values())
    migration.downgrade_with_replaced(picture, context, outcome, now, is_rebalance_needed=not is_settled)
    return after


# --- syncing, beating, leaving ----------------------------------------------------------------------------------------------


def sync(group: ConsumerGroup, request: Sync, context: Context, now: Moment) -> SyncReply:
    """Tell a classic member what it has."""
    member, classic = _classic_member(group, request.member_id, request.instance_id, request.generation)
    protocol, metadata = classic.protocols[0]
    if request.protocol_type not in (None, subscription_bytes.CONSUMER) or request.protocol not in (None, protocol):
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(group, member, context, now)
        raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS)
    context.timers.cancel(TimerKey(Timer.CLASSIC_SYNC, group.group_id, member.member_id))
    context.hear_from(group.group_id, member.member_id, classic.session_timeout_ms, now)
    partitions = named_partitions(without_epochs(member.assigned), context.topics)
    version = subscription_bytes.read_subscription(metadata).version
    assignment = subscription_bytes.write_assignment(partitions, version)
    return SyncReply(protocol_type=subscription_bytes.CONSUMER, protocol=protocol, assignment=assignment)


def heartbeat(group: ConsumerGroup, request: Heartbeat, context: Context, now: Moment) -> ErrorCode:
    """Keep a classic member alive, and tell it when there is a step to take: a new target, or partitions to give up or to get."""
    member, classic = _classic_member(group, request.member_id, request.instance_id, request.generation)
    context.hear_from(group.group_id, member.member_id, classic.session_timeout_ms, now)
    can_complete = member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
    if member.epoch < group.target_epoch or member.state is MemberState.UNREVOKED_PARTITIONS or can_complete:
        _expect_join(group, member, context, now)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicProtocols]:
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = consumer_protocol.checked_holder(group.static_member(instance_id), instance_id, member_id)
    if member.classic is None:
        raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    if generation != member.epoch:
        raise RequestError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def _expect_join(group: ConsumerGroup, member: ConsumerMember, context: Context, now: Moment) -> None:
    deadline = now.after_ms(member.about.rebalance_timeout_ms)
    context.timers.set_if_absent(TimerKey(Timer.CLASSIC_JOIN, group.group_id, member.member_id), deadline)


def leave(group: ConsumerGroup, request: Leave, context: Context, outcome: Outcome, now: Moment) -> tuple[LeftMember, ...]:
    """Take members out, whichever protocol they speak: an operator may use this request too."""
    leaving: dict[str, None] = {}
    left: list[LeftMember] = []
    for leaver in request.members:
        try:
            leaving[_leaving_id(group, leaver)] = None
            left.append(LeftMember(leaver.member_id, leaver.instance_id))
        except RequestError as error:
            left.append(LeftMember(leaver.member_id, leaver.instance_id, error.code))
    consumer_protocol.remove(group, leaving, context, outcome, now)
    return tuple(left)


def _leaving_id(group: ConsumerGroup, leaver: Leaver) -> str:
    if leaver.instance_id is None:
        return group.member(leaver.member_id).member_id
    holder = group.static_member(leaver.instance_id)
    known_as = leaver.member_id or (holder.member_id if holder is not None else "")
    return consumer_protocol.checked_holder(holder, leaver.instance_id, known_as).member_id
