"""Who is in a classic group: joining, staying alive, leaving, and static members that come back under a new id.

A dynamic member first gets an id and then joins with it (KIP-394), so that a client that retries its first request does not leave
ghosts behind.  A static member keeps its place by its instance id; whoever joins with that id last holds it, and the one before
is fenced.
"""

from dataclasses import replace

from headrace.coordination.decision import Token
from headrace.coordination.group.classic import rebalance
from headrace.coordination.group.classic.state import ClassicGroup, ClassicMember, ClassicState
from headrace.coordination.group.context import Context, Outcome
from headrace.coordination.group.requests import Heartbeat, Join, JoinReply, Leave, Leaver, LeftMember, SyncReply
from headrace.coordination.group.timers import Timer, TimerKey
from headrace.coordination.moment import Moment
from headrace.model.errors import ErrorCode, RequestError

MEMBER_NAME_CHARACTERS_MAX = 1000

# --- joining ----------------------------------------------------------------------------------------------------------------


def join(group: ClassicGroup, request: Join, token: Token, context: Context, outcome: Outcome, now: Moment) -> None:
    """Let a member in, or park it until its group has rebalanced."""
    if not _has_room(group, request.member_id, context):
        rebalance.drop(group, request.member_id, context, outcome)
        outcome.reply(token, JoinReply(error=ErrorCode.GROUP_MAX_SIZE_REACHED))
        rebalance.complete_if_all_joined(group, context, outcome, now)
    elif not group.supports(request.protocol_type, [name for name, _ in request.protocols]):
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif request.member_id == "":
        _join_without_id(group, request, token, context, outcome, now)
    elif request.member_id in group.pending_joins and request.instance_id is None:
        _admit(group, request, request.member_id, token, context, outcome, now)
    else:
        _join_again(group, request, token, context, outcome, now)


def _has_room(group: ClassicGroup, member_id: str, context: Context) -> bool:
    member = group.members.get(member_id)
    match group.state:
        case ClassicState.EMPTY | ClassicState.DEAD:
            return True
        case ClassicState.PREPARING:
            # Those who wait are counted, not those who are members: a group loaded above its limit thus sheds the last to come.
            is_waiting = member is not None and member.join_token is not None
            return is_waiting or group.awaiting_join < context.settings.max_size
        case ClassicState.COMPLETING | ClassicState.STABLE:
            return member is not None or len(group.members) < context.settings.max_size


def _join_without_id(group: ClassicGroup, request: Join, token: Token, context: Context, outcome: Outcome, now: Moment) -> None:
    if request.instance_id is not None:
        member_id = _new_member_id(request.instance_id, request)
        if request.instance_id in group.static_members:
            _replace_static(group, request, member_id, token, context, outcome, now)
        else:
            _admit(group, request, member_id, token, context, outcome, now)
        return
    member_id = _new_member_id(request.caller.client_id, request)
    if not request.asks_for_id_first:
        _admit(group, request, member_id, token, context, outcome, now)
        return
    group.pending_joins.add(member_id)
    context.hear_from(group.group_id, member_id, request.session_timeout_ms, now)
    outcome.reply(token, JoinReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))


def _new_member_id(name: str, request: Join) -> str:
    # A name may be as long as a string on the wire can be, and an id made of it has to fit there, too.
    return f"{name[:MEMBER_NAME_CHARACTERS_MAX]}-{request.caller.fresh_id}"


def _admit(
    group: ClassicGroup, request: Join, member_id: str, token: Token, context: Context, outcome: Outcome, now: Moment
) -> None:
    """Take in a member that was not there."""
    if group.state is ClassicState.PREPARING and group.is_initial_rebalance:
        group.new_member_added = True
    member = _member_of(request, member_id)
    member.join_token = token
    member.is_new = True
    group.add(member, request.protocol_type)
    context.hear_from(group.group_id, member_id, context.settings.new_member_join_timeout_ms, now)
    rebalance.rebalance_or_complete(group, context, outcome, now)


def _member_of(request: Join, member_id: str) -> ClassicMember:
    return ClassicMember(
        member_id=member_id,
        instance_id=request.instance_id,
        client_id=request.caller.client_id,
        client_host=request.caller.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=dict(request.protocols),
    )


def _join_again(group: ClassicGroup, request: Join, token: Token, context: Context, outcome: Outcome, now: Moment) -> None:
    """A member that knows its id joins: it was asked to, its subscription has changed, or a reply was lost."""
    member = group.checked_member(request.member_id, request.instance_id)
    is_unchanged = tuple(member.protocols.items()) == request.protocols
    match group.state:
        case ClassicState.COMPLETING if is_unchanged:
            outcome.reply(token, rebalance.joined(group, member))
        case ClassicState.STABLE if is_unchanged and group.leader != member.member_id:
            outcome.reply(token, rebalance.joined(group, member))
        case ClassicState.PREPARING | ClassicState.COMPLETING | ClassicState.STABLE:
            # A leader that joins again asks for a rebalance: what it assigns by, such as partition counts, has changed.
            _update(member, request, token, outcome)
            rebalance.rebalance_or_complete(group, context, outcome, now)
        case ClassicState.EMPTY | ClassicState.DEAD:
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)


def _update(member: ClassicMember, request: Join, token: Token, outcome: Outcome) -> None:
    superseded = JoinReply(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
    rebalance.answer_join(member, superseded, outcome)
    member.protocols = dict(request.protocols)
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    member.join_token = token


# --- static members ---------------------------------------------------------------------------------------------------------


def _replace_static(
    group: ClassicGroup, request: Join, member_id: str, token: Token, context: Context, outcome: Outcome, now: Moment
) -> None:
    """A static member has restarted: it takes its old place, and in a stable group without a rebalance."""
    old = group.members[group.static_members[request.instance_id or ""]]
    fenced = ErrorCode.FENCED_INSTANCE_ID
    rebalance.answer_join(old, JoinReply(error=fenced, member_id=old.member_id), outcome)
    rebalance.answer_sync(old, SyncReply(error=fenced), outcome)
    context.timers.cancel(TimerKey(Timer.SESSION, group.group_id, old.member_id))
    context.hear_from(group.group_id, member_id, request.session_timeout_ms, now)
    new = _member_of(request, member_id)
    new.assignment = old.assignment
    successor = _with_replaced(group, old, new)
    if group.state is ClassicState.STABLE and successor.chosen_by_vote() == group.protocol:
        assignments = {member.member_id: member.assignment for member in successor.members.values()}
        outcome.write(successor.as_entry(assignments, group.state_timestamp_ms or now.wall_ms))
        group.arriving[member_id] = new
        outcome.reply(token, _rejoined(group, successor, new, request))
        return
    new.join_token = token
    group.members, group.leader = successor.members, successor.leader
    group.static_members[request.instance_id or ""] = member_id
    group.pending_syncs.discard(old.member_id)
    # In COMPLETING the leader may already have assigned to the old id: only a new round gives the new one its share.
    rebalance.rebalance_or_complete(group, context, outcome, now)


def _with_replaced(group: ClassicGroup, old: ClassicMember, new: ClassicMember) -> ClassicGroup:
    """The group as it would be with one member in another's place."""
    members = {member.member_id: member for member in (new if each is old else each for each in group.members.values())}
    return replace(group, members=members, leader=new.member_id if group.leader == old.member_id else group.leader)


def _rejoined(group: ClassicGroup, successor: ClassicGroup, new: ClassicMember, request: Join) -> JoinReply:
    reply = rebalance.joined(successor, new, skip_assignment=True)
    if request.can_skip_assignment:
        return reply
    # An older client that finds itself the leader would assign anew: it is told the id that it had before.
    return replace(reply, leader=group.leader, skip_assignment=False, members=())


# --- staying and leaving ----------------------------------------------------------------------------------------------------


def heartbeat(group: ClassicGroup, request: Heartbeat, context: Context, now: Moment) -> ErrorCode:
    """Keep a member's session alive, and tell it when the group is moving without it."""
    member = group.checked_member(request.member_id, request.instance_id)
    if request.generation != group.generation:
        raise RequestError(ErrorCode.ILLEGAL_GENERATION)
    context.hear_from(group.group_id, member.member_id, member.session_timeout_ms, now)
    match group.state:
        case ClassicState.PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        case ClassicState.COMPLETING | ClassicState.STABLE:
            # A member may beat between its JoinGroup reply and its SyncGroup: that is healthy.
            return ErrorCode.NONE
        case ClassicState.EMPTY | ClassicState.DEAD:
            raise AssertionError(f"a {group.state.value} group has no members")


def leave(group: ClassicGroup, request: Leave, context: Context, outcome: Outcome, now: Moment) -> tuple[LeftMember, ...]:
    """Take members out at their own or an operator's wish."""
    members_before = len(group.members)
    left = tuple(_leave_one(group, leaver, context, outcome) for leaver in request.members)
    _after_departure(group, len(group.members) < members_before, context, outcome, now)
    return left


def _leave_one(group: ClassicGroup, leaver: Leaver, context: Context, outcome: Outcome) -> LeftMember:
    member_id = leaver.member_id
    if member_id == "" and leaver.instance_id is not None:
        # An operator removes a static member by the name that he knows.
        member_id = group.static_members.get(leaver.instance_id, "")
    if member_id not in group.pending_joins:
        try:
            group.checked_member(member_id, leaver.instance_id)
        except RequestError as error:
            return LeftMember(leaver.member_id, leaver.instance_id, error.code)
    rebalance.drop(group, member_id, context, outcome)
    return LeftMember(leaver.member_id, leaver.instance_id)


def on_session_deadline(group: ClassicGroup, member_id: str, context: Context, outcome: Outcome, now: Moment) -> None:
    """Nothing has been heard of a member, or of one that was only given an id."""
    member = group.members.get(member_id)
    if member is not None and member.is_waiting:
        return
    rebalance.drop(group, member_id, context, outcome)
    _after_departure(group, member is not None, context, outcome, now)


def _after_departure(group: ClassicGroup, was_member: bool, context: Context, outcome: Outcome, now: Moment) -> None:
    match group.state:
        case ClassicState.STABLE | ClassicState.COMPLETING:
            # One that only had an id was assigned nothing, so nothing needs assigning again.
            if was_member:
                rebalance.prepare(group, context, outcome, now)
        case ClassicState.PREPARING:
            if group.has_all_joined and (not group.is_initial_rebalance or not group.members):
                rebalance.complete_join(group, context, outcome, now)
        case ClassicState.EMPTY | ClassicState.DEAD:
            return
