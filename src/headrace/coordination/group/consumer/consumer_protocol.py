"""The consumer protocol (KIP-848): one heartbeat does it all, from joining over changing a subscription to leaving.

A member is fenced when it comes with an epoch that is not its own: it must give up everything and join again.  A static member
that went away with -2 keeps its partitions for whoever joins next with its instance id.
"""

from collections.abc import Iterable
from dataclasses import replace

from headrace.coordination.decision import Token
from headrace.coordination.group.consumer.members import ConsumerGroup, ConsumerMember, with_epoch, without_epochs
from headrace.coordination.group.consumer.transition import Change, advance, watch_revocation
from headrace.coordination.group.context import RETRY_MS, Context, Outcome
from headrace.coordination.group.conversion import migration
from headrace.coordination.group.entries import (
    AssignmentEntry,
    GroupEpochEntry,
    GroupEpochValue,
    MemberEntry,
    MemberValue,
    Partitions,
    RegexEntry,
    TargetEntry,
)
from headrace.coordination.group.requests import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
)
from headrace.coordination.group.timers import Timer, TimerKey
from headrace.coordination.moment import Moment
from headrace.model.errors import ErrorCode, RequestError


def check_request(request: ConsumerHeartbeat, assignors: tuple[str, ...]) -> None:
    """Raise for what no group has to be asked about."""
    invalid = ErrorCode.INVALID_REQUEST
    for name, value in (("GroupId", request.group_id), ("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if value == "":
            raise RequestError(invalid, f"{name} can't be empty.")
    if request.member_id == "" and request.member_epoch != JOIN_EPOCH:
        raise RequestError(invalid, "MemberId can't be empty.")
    if request.member_epoch < LEAVE_STATIC_EPOCH:
        raise RequestError(invalid, "MemberEpoch is invalid.")
    if request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise RequestError(invalid, "InstanceId can't be null.")
    if request.member_epoch == JOIN_EPOCH:
        _check_joining(request)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        message = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        raise RequestError(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def _check_joining(request: ConsumerHeartbeat) -> None:
    invalid = ErrorCode.INVALID_REQUEST
    if request.rebalance_timeout_ms == -1:
        raise RequestError(invalid, "RebalanceTimeoutMs must be provided in first request.")
    if request.owned is None or request.owned:
        raise RequestError(invalid, "TopicPartitions must be empty when (re-)joining.")
    if request.topic_names is None and request.topic_regex is None:
        message = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        raise RequestError(invalid, message)


# --- beating ----------------------------------------------------------------------------------------------------------------


def heartbeat(
    group: ConsumerGroup, request: ConsumerHeartbeat, token: Token, context: Context, outcome: Outcome, now: Moment
) -> None:
    """Hear of a member and tell it what to do next."""
    member_id = request.member_id or request.caller.fresh_id
    check_room(group, member_id, context)
    member, replaces = _find_member(group, request, member_id, outcome)
    change = Change(
        group=group,
        member=member,
        about=_updated(member, request),
        owned=request.owned,
        replaces=replaces,
        may_see=request.may_see,
    )
    after = advance(change, context, outcome, now)
    context.hear_from(group.group_id, member_id, context.settings_of(group.group_id).consumer_session_timeout_ms, now)
    is_told = request.member_epoch == JOIN_EPOCH or _is_full(request) or after.assigned != member.assigned
    outcome.reply(
        token,
        ConsumerHeartbeatReply(
            member_id=member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=context.settings_of(group.group_id).consumer_heartbeat_interval_ms,
            assignment=without_epochs(after.assigned) if is_told else None,
        ),
    )


def check_room(group: ConsumerGroup, member_id: str, context: Context) -> None:
    limit = context.settings.consumer_max_size
    if len(group.members) >= limit and member_id not in group.members:
        message = f"The consumer group has reached its maximum capacity of {limit} members."
        raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def _is_full(request: ConsumerHeartbeat) -> bool:
    """A member that sends everything has lost track, after an error for instance: it is told everything."""
    names_topics = request.topic_names is not None or request.topic_regex is not None
    return request.rebalance_timeout_ms != -1 and names_topics and request.owned is not None


def _updated(member: ConsumerMember, request: ConsumerHeartbeat) -> MemberValue:
    about = member.about
    return MemberValue(
        instance_id=request.instance_id if request.instance_id is not None else about.instance_id,
        rack_id=request.rack_id if request.rack_id is not None else about.rack_id,
        client_id=request.caller.client_id,
        client_host=request.caller.client_host,
        topic_names=request.topic_names if request.topic_names is not None else about.topic_names,
        topic_regex=request.topic_regex if request.topic_regex is not None else about.topic_regex,
        rebalance_timeout_ms=request.rebalance_timeout_ms if request.rebalance_timeout_ms != -1 else about.rebalance_timeout_ms,
        server_assignor=request.server_assignor if request.server_assignor is not None else about.server_assignor,
    )


# --- finding the member -----------------------------------------------------------------------------------------------------


def _find_member(
    group: ConsumerGroup, request: ConsumerHeartbeat, member_id: str, outcome: Outcome
) -> tuple[ConsumerMember, str | None]:
    """The member as the group knows it, or a new one, and the id it replaces as a static member."""
    is_joining = request.member_epoch == JOIN_EPOCH
    if request.instance_id is None:
        known = group.members.get(member_id)
        member = ConsumerMember(member_id=member_id) if known is None and is_joining else group.member(member_id)
        _check_epoch(member, request.member_epoch, request.owned)
        return member, None
    holder = group.static_member(request.instance_id)
    if not is_joining:
        member = checked_holder(holder, request.instance_id, member_id)
        _check_epoch(member, request.member_epoch, request.owned)
        return member, None
    if holder is None:
        return group.members.get(member_id, ConsumerMember(member_id=member_id)), None
    if holder.member_id == member_id:
        return holder, None
    if holder.classic is None and holder.epoch != LEAVE_STATIC_EPOCH:
        who = f"Static member {member_id} with instance id {request.instance_id}"
        message = f"{who} cannot join the group because the instance id is owned by {holder.member_id} member."
        raise RequestError(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    return replace_static(group, holder, member_id, outcome), holder.member_id


def checked_holder(holder: ConsumerMember | None, instance_id: str, member_id: str) -> ConsumerMember:
    if holder is None:
        raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        message = f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}."
        raise RequestError(ErrorCode.FENCED_INSTANCE_ID, message)
    return holder


def replace_static(group: ConsumerGroup, holder: ConsumerMember, member_id: str, outcome: Outcome) -> ConsumerMember:
    """Give a static member's place, with all that is in it, to its new id."""
    member = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)
    outcome.write_all(group.removal_of(holder.member_id))
    outcome.write(
        MemberEntry(group.group_id, member_id, member.about),
        TargetEntry(group.group_id, member_id, group.targets.get(holder.member_id, {})),
        AssignmentEntry(group.group_id, member_id, member.assignment_value()),
    )
    return member


def _check_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    if epoch in (JOIN_EPOCH, member.epoch):
        return
    if epoch == member.previous_epoch and epoch < member.epoch and _is_within(owned, member):
        # The reply with the newer epoch was lost.
        return
    comparison = "greater" if epoch > member.epoch else "smaller"
    message = (
        f"The consumer group member has a {comparison} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin."
    )
    raise RequestError(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _is_within(owned: Partitions | None, member: ConsumerMember) -> bool:
    if owned is None:
        return False
    return all(partitions <= member.assigned.get(topic_id, {}).keys() for topic_id, partitions in owned.items())


# --- leaving ----------------------------------------------------------------------------------------------------------------


def leave(
    group: ConsumerGroup, request: ConsumerHeartbeat, token: Token, context: Context, outcome: Outcome, now: Moment
) -> None:
    """A member goes for good (-1), or a static one for a while (-2)."""
    if request.instance_id is None:
        member = group.member(request.member_id)
    else:
        member = checked_holder(group.static_member(request.instance_id), request.instance_id, request.member_id)
    if request.instance_id is not None and request.member_epoch == LEAVE_STATIC_EPOCH:
        # Its partitions stay its own; the epochs are zeroed as its next self begins from there.
        assigned = with_epoch(without_epochs(member.assigned), 0)
        away = replace(member, epoch=LEAVE_STATIC_EPOCH, assigned=assigned, revoking={})
        outcome.write(AssignmentEntry(group.group_id, member.member_id, away.assignment_value()))
    else:
        remove(group, [member.member_id], context, outcome, now)
    outcome.reply(token, ConsumerHeartbeatReply(member_id=request.member_id, member_epoch=request.member_epoch))


def remove(group: ConsumerGroup, member_ids: Iterable[str], context: Context, outcome: Outcome, now: Moment) -> None:
    """Take members out: the others get their partitions with their next heartbeats."""
    leaving = list(member_ids)
    if not leaving:
        return
    if migration.may_downgrade(group, leaving, context):
        migration.downgrade(group, leaving, context, outcome, now)
        return
    for member_id in leaving:
        outcome.write_all(group.removal_of(member_id))
    picture = group.without_members(leaving)
    outcome.write_all(RegexEntry(group.group_id, regex, None) for regex in sorted(group.regexes.keys() - picture.regexes.keys()))
    metadata_hash = context.topics.subscription_hash(picture.subscribed_topics())
    outcome.write(GroupEpochEntry(group.group_id, GroupEpochValue(group.epoch + 1, metadata_hash)))


def on_deadline(group: ConsumerGroup, key: TimerKey, detail: object, context: Context, outcome: Outcome, now: Moment) -> None:
    """A member was silent too long, or did not do in time what the group waits for."""
    member = group.members.get(key.member_id)
    if member is None:
        return
    if key.kind is Timer.REBALANCE and member.epoch != detail:
        return
    remove(group, [key.member_id], context, outcome, now)
    # Replaying its removal cancels this; it comes only when that could not be written.
    context.timers.set(key, now.after_ms(RETRY_MS), detail)


def on_loaded(group: ConsumerGroup, context: Context, now: Moment) -> None:
    """Give every member found in the log a full session to be heard of."""
    for member in group.members.values():
        context.hear_from(group.group_id, member.member_id, context.settings_of(group.group_id).consumer_session_timeout_ms, now)
        if member.classic is None:
            watch_revocation(group.group_id, member, context, now)
