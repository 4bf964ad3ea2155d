"""How a classic group gets from one generation to the next: all members join, one of them assigns, all members sync.

PREPARING gathers joins until everybody is there or time is up; COMPLETING waits for the leader's assignment; writing it makes the
group STABLE.  Whoever is parked when the group turns back is told REBALANCE_IN_PROGRESS and comes again.
"""

from dataclasses import replace
from typing import NamedTuple

from headrace.coordination.decision import Token
from headrace.coordination.group.classic.state import ClassicGroup, ClassicMember, ClassicState
from headrace.coordination.group.context import RETRY_MS, Context, Outcome
from headrace.coordination.group.entries import ClassicGroupEntry
from headrace.coordination.group.requests import JoinedMember, JoinReply, Sync, SyncReply
from headrace.coordination.group.timers import Timer, TimerKey
from headrace.coordination.moment import Moment
from headrace.model.errors import ErrorCode, RequestError


class InitialDelay(NamedTuple):
    """How long a new group still waits for members: this round, and what is left for further ones."""

    delay_ms: int
    remaining_ms: int


# --- gathering --------------------------------------------------------------------------------------------------------------


def rebalance_or_complete(group: ClassicGroup, context: Context, outcome: Outcome, now: Moment) -> None:
    """Membership has changed: start a rebalance, or finish the one under way if this was what it waited for."""
    if group.state is ClassicState.PREPARING:
        complete_if_all_joined(group, context, outcome, now)
    else:
        prepare(group, context, outcome, now)


def complete_if_all_joined(group: ClassicGroup, context: Context, outcome: Outcome, now: Moment) -> None:
    # A new group does not hurry: its initial delay lets members arrive together.
    if group.state is ClassicState.PREPARING and not group.is_initial_rebalance and group.has_all_joined:
        complete_join(group, context, outcome, now)


def prepare(group: ClassicGroup, context: Context, outcome: Outcome, now: Moment) -> None:
    """Ask all members to join again."""
    if group.state is ClassicState.COMPLETING:
        _send_back_from_sync(group, context, outcome, now)
    group.pending_syncs.clear()
    context.timers.cancel(TimerKey(Timer.SYNC, group.group_id))
    group.is_initial_rebalance = group.state is ClassicState.EMPTY
    group.move_to(ClassicState.PREPARING, now.wall_ms)
    if group.rebalancing_since_ms is None:
        group.rebalancing_since_ms = now.wall_ms
    if group.is_initial_rebalance:
        _begin_initial_delay(group, context, now)
    elif group.has_all_joined:
        complete_join(group, context, outcome, now)
    else:
        _wait_for_joins(group, context, now)


def _begin_initial_delay(group: ClassicGroup, context: Context, now: Moment) -> None:
    delay_ms = context.settings.initial_rebalance_delay_ms
    remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
    group.new_member_added = False
    context.timers.set(TimerKey(Timer.JOIN, group.group_id), now.after_ms(delay_ms), InitialDelay(delay_ms, remaining_ms))


def _wait_for_joins(group: ClassicGroup, context: Context, now: Moment) -> None:
    context.timers.set(TimerKey(Timer.JOIN, group.group_id), now.after_ms(group.rebalance_timeout_ms))


def on_join_deadline(group: ClassicGroup, detail: object, context: Context, outcome: Outcome, now: Moment) -> None:
    """Time is up for joining, or for one round of the initial delay, which goes on while members keep arriving."""
    if group.state is not ClassicState.PREPARING:
        return
    if isinstance(detail, InitialDelay) and group.new_member_added and detail.remaining_ms > 0:
        group.new_member_added = False
        delay_ms = min(context.settings.initial_rebalance_delay_ms, detail.remaining_ms)
        further = InitialDelay(delay_ms, max(detail.remaining_ms - detail.delay_ms, 0))
        context.timers.set(TimerKey(Timer.JOIN, group.group_id), now.after_ms(delay_ms), further)
        return
    complete_join(group, context, outcome, now)


# --- a new generation -------------------------------------------------------------------------------------------------------


def complete_join(group: ClassicGroup, context: Context, outcome: Outcome, now: Moment) -> None:
    """Go on with those who joined."""
    context.timers.cancel(TimerKey(Timer.JOIN, group.group_id))
    for member in [member for member in group.members.values() if member.join_token is None and member.instance_id is None]:
        # A static member may be restarting: it keeps its place until its session ends.
        drop(group, member.member_id, context, outcome)
    if not group.members:
        _write_empty(group, context, outcome, now)
    elif _elect_leader(group):
        _begin_generation(group, context, outcome, now)
    else:
        _wait_for_joins(group, context, now)


def _write_empty(group: ClassicGroup, context: Context, outcome: Outcome, now: Moment) -> None:
    entry = group.as_entry({}, now.wall_ms)
    assert entry.value is not None
    outcome.write(
        ClassicGroupEntry(
            group.group_id, replace(entry.value, generation=group.generation + 1, protocol=None, leader=None, members=())
        )
    )
    # Replaying the entry cancels this; it comes only when the entry could not be written.
    context.timers.set(TimerKey(Timer.JOIN, group.group_id), now.after_ms(RETRY_MS))


def _elect_leader(group: ClassicGroup) -> bool:
    """Keep the leader if it joined; else the first who did takes over.  False when nobody did."""
    leader = group.members.get(group.leader or "")
    if leader is None or leader.join_token is None:
        leader = next((member for member in group.members.values() if member.join_token is not None), None)
    if leader is None:
        return False
    group.leader = leader.member_id
    return True


def _begin_generation(group: ClassicGroup, context: Context, outcome: Outcome, now: Moment) -> None:
    group.generation += 1
    group.protocol = group.chosen_by_vote()
    group.note_subscribed_topics()
    group.is_initial_rebalance = group.new_member_added = False
    group.move_to(ClassicState.COMPLETING, now.wall_ms)
    group.pending_syncs = set(group.members)
    for member in group.members.values():
        answer_join(member, joined(group, member), outcome)
        member.is_new = False
        context.hear_from(group.group_id, member.member_id, member.session_timeout_ms, now)
    deadline = now.after_ms(group.rebalance_timeout_ms)
    context.timers.set(TimerKey(Timer.SYNC, group.group_id), deadline, group.generation)


def joined(group: ClassicGroup, member: ClassicMember, *, skip_assignment: bool = False) -> JoinReply:
    """What a member learns when it has joined this generation."""
    is_leader = group.leader == member.member_id
    return JoinReply(
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader,
        skip_assignment=skip_assignment and is_leader,
        members=roster(group) if is_leader else (),
    )


def roster(group: ClassicGroup) -> tuple[JoinedMember, ...]:
    protocol = group.protocol or ""
    return tuple(
        JoinedMember(member.member_id, member.instance_id, member.protocols.get(protocol, b""))
        for member in group.members.values()
    )


# --- syncing ----------------------------------------------------------------------------------------------------------------


def sync(group: ClassicGroup, request: Sync, token: Token, context: Context, outcome: Outcome, now: Moment) -> None:
    """Hand out assignments: parked until the leader's arrives, which is written down before anybody gets his."""
    member = group.checked_member(request.member_id, request.instance_id)
    if request.generation != group.generation:
        raise RequestError(ErrorCode.ILLEGAL_GENERATION)
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol, group.protocol):
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    match group.state:
        case ClassicState.PREPARING:
            raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS)
        case ClassicState.COMPLETING:
            _park_sync(group, member, token, context, outcome)
            if group.leader == member.member_id:
                _write_assignments(group, request, context, outcome, now)
        case ClassicState.STABLE:
            _note_synced(group, member, context)
            outcome.reply(token, _synced(group, member.assignment))
        case ClassicState.EMPTY | ClassicState.DEAD:
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)


def _differs(asked: str | None, actual: str | None) -> bool:
    return asked is not None and actual is not None and asked != actual


def _park_sync(group: ClassicGroup, member: ClassicMember, token: Token, context: Context, outcome: Outcome) -> None:
    # The same member asks again, on a new connection presumably: the older request is answered into the void.
    answer_sync(member, SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS), outcome)
    member.sync_token = token
    _note_synced(group, member, context)


def _note_synced(group: ClassicGroup, member: ClassicMember, context: Context) -> None:
    group.pending_syncs.discard(member.member_id)
    if not group.pending_syncs:
        context.timers.cancel(TimerKey(Timer.SYNC, group.group_id))


def _write_assignments(group: ClassicGroup, request: Sync, context: Context, outcome: Outcome, now: Moment) -> None:
    # Members the leader left out get nothing, which is an assignment too.
    assignments = {member_id: request.assignments.get(member_id, b"") for member_id in group.members}
    outcome.write(group.as_entry(assignments, now.wall_ms))
    for member in group.members.values():
        if answer_sync(member, _synced(group, assignments[member.member_id]), outcome):
            context.hear_from(group.group_id, member.member_id, member.session_timeout_ms, now)


def _synced(group: ClassicGroup, assignment: bytes) -> SyncReply:
    return SyncReply(protocol_type=group.protocol_type, protocol=group.protocol, assignment=assignment)


def _send_back_from_sync(group: ClassicGroup, context: Context, outcome: Outcome, now: Moment) -> None:
    for member in group.members.values():
        member.assignment = b""
        if answer_sync(member, SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS), outcome):
            context.hear_from(group.group_id, member.member_id, member.session_timeout_ms, now)


def on_sync_deadline(group: ClassicGroup, generation: object, context: Context, outcome: Outcome, now: Moment) -> None:
    """Members that joined but never synced, a silent leader among them, are out; the others rebalance without them."""
    is_syncing = group.state in (ClassicState.COMPLETING, ClassicState.STABLE)
    if generation != group.generation or not is_syncing or not group.pending_syncs:
        return
    for member_id in list(group.pending_syncs):
        drop(group, member_id, context, outcome)
    prepare(group, context, outcome, now)


# --- letting go -------------------------------------------------------------------------------------------------------------


def drop(group: ClassicGroup, member_id: str, context: Context, outcome: Outcome) -> None:
    """Take a member out and answer what it waits for: if it is still alive, it joins anew."""
    context.timers.cancel(TimerKey(Timer.SESSION, group.group_id, member_id))
    member = group.remove(member_id)
    if member is not None:
        answer_join(member, JoinReply(error=ErrorCode.UNKNOWN_MEMBER_ID), outcome)
        answer_sync(member, SyncReply(error=ErrorCode.UNKNOWN_MEMBER_ID), outcome)


def answer_join(member: ClassicMember, reply: JoinReply, outcome: Outcome) -> bool:
    """Answer the member's parked JoinGroup, if there is one."""
    token, member.join_token = member.join_token, None
    if token is not None:
        outcome.reply(token, reply)
    return token is not None


def answer_sync(member: ClassicMember, reply: SyncReply, outcome: Outcome) -> bool:
    """Answer the member's parked SyncGroup, if there is one."""
    token, member.sync_token = member.sync_token, None
    if token is not None:
        outcome.reply(token, reply)
    return token is not None
