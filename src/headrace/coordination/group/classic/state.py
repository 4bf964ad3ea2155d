"""A group that speaks the classic protocol: its members, the state it is in, and what a rebalance has gathered so far.

What always holds:
- an EMPTY group has no members, and each other state's group has some, except for the moment in which its last member has gone
  and the entry that says so is being written;
- a member waits in at most one request: JoinGroup while PREPARING, SyncGroup while COMPLETING;
- generation, protocol, leader and assignments of a STABLE or EMPTY group are those of the group's last entry in the log.
"""

from collections.abc import Iterable
from dataclasses import field
from enum import Enum

from headrace.coordination.decision import Token
from headrace.coordination.group.conversion import subscription_bytes
from headrace.coordination.group.entries import ClassicGroupEntry, ClassicGroupValue, ClassicMemberValue
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode, RequestError


class ClassicState(Enum):
    """Where a classic group stands.  The names are those that clients see."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"  # waiting for all members to join
    COMPLETING = "CompletingRebalance"  # waiting for the leader's assignment
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: dict[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING, ClassicState.DEAD}),
    ClassicState.PREPARING: frozenset({ClassicState.COMPLETING, ClassicState.EMPTY, ClassicState.DEAD}),
    ClassicState.COMPLETING: frozenset({ClassicState.STABLE, ClassicState.PREPARING, ClassicState.DEAD}),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING, ClassicState.DEAD}),
    ClassicState.DEAD: frozenset(),
}


@dataclass(slots=True, kw_only=True)
class ClassicMember:
    """One member.  Protocols are in its order of preference."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: dict[str, bytes]
    assignment: bytes = b""
    join_token: Token | None = None
    sync_token: Token | None = None
    # Its first JoinGroup is not answered yet, so it does not know its id and cannot send heartbeats.
    is_new: bool = False

    @property
    def is_waiting(self) -> bool:
        """A member whose request is parked here is alive; a new one is bounded by a time limit of its own."""
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    def vote(self, candidates: set[str]) -> str:
        return next(name for name in self.protocols if name in candidates)


@dataclass(slots=True, kw_only=True)
class ClassicGroup:
    """A group of the classic protocol."""

    group_id: str
    state: ClassicState = ClassicState.EMPTY
    # An EMPTY group's first rebalance waits for more members to arrive.
    is_initial_rebalance: bool = False
    # Someone arrived since the initial delay last began.
    new_member_added: bool = False
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_timestamp_ms: int | None = None
    # When the rebalance under way began; None where there is none, or where another coordinator saw it begin.
    rebalancing_since_ms: int | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    # Ids given out under KIP-394 whose owners have not come back yet.
    pending_joins: set[str] = field(default_factory=set)
    pending_syncs: set[str] = field(default_factory=set)
    # None: this group's members do not say what they read.
    subscribed_topics: frozenset[str] | None = None
    # Members who enter with the next replayed entry, with what the log does not keep of them.
    arriving: dict[str, ClassicMember] = field(default_factory=dict)

    def move_to(self, state: ClassicState, wall_ms: int) -> None:
        assert state in TRANSITIONS[self.state], f"group {self.group_id} cannot go from {self.state.value} to {state.value}"
        self.state = state
        self.state_timestamp_ms = wall_ms

    # --- members ----------------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether nobody is in it, be that written down already or not."""
        return not self.members

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == subscription_bytes.CONSUMER

    @property
    def awaiting_join(self) -> int:
        return sum(member.join_token is not None for member in self.members.values())

    @property
    def has_all_joined(self) -> bool:
        return not self.pending_joins and all(member.join_token is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        assert member.instance_id is None or member.instance_id not in self.static_members
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Take a member out, whether it joined or only has an id; the next in line leads in a leader's place."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        return member

    def checked_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member a request speaks for; raises when there is none or another one holds its instance id."""
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
            if holder != member_id:
                raise RequestError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    # --- protocols --------------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member with these protocols may join those who are there."""
        if not self.members:
            return bool(protocol_type) and any(True for _ in protocols)
        shared = self._shared_protocols()
        return self.protocol_type == protocol_type and any(name in shared for name in protocols)

    def chosen_by_vote(self) -> str:
        """The protocol most members prefer among those that all of them know; the first to get there wins a tie."""
        candidates = self._shared_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def _shared_protocols(self) -> set[str]:
        names = [set(member.protocols) for member in self.members.values()]
        return set.intersection(*names) if names else set()

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def note_subscribed_topics(self) -> None:
        """Learn what the members read, as far as their bytes are those of consumers."""
        self.subscribed_topics = None
        if not self.uses_consumer_protocol:
            return
        protocol = self.protocol
        if not self.members:
            self.subscribed_topics = frozenset()
        elif protocol is not None:
            try:
                topics = (subscription_bytes.read_topics(member.protocols[protocol]) for member in self.members.values())
                self.subscribed_topics = frozenset().union(*topics)
            except subscription_bytes.MalformedProtocol:
                return

    # --- the log ----------------------------------------------------------------------------------------------------------

    def as_entry(self, assignments: dict[str, bytes], wall_ms: int) -> ClassicGroupEntry:
        """What the log keeps of the group once these assignments hold."""
        protocol = self.protocol
        members = tuple(
            ClassicMemberValue(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.protocols.get(protocol, b"") if protocol is not None else b"",
                assignment=assignments.get(member.member_id, b""),
            )
            for member in self.members.values()
        )
        return ClassicGroupEntry(
            self.group_id,
            ClassicGroupValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation,
                protocol=protocol,
                leader=self.leader,
                state_timestamp_ms=wall_ms,
                members=members,
            ),
        )

    def restore(self, value: ClassicGroupValue) -> None:
        """Become what an entry says.  Requests that wait here, and protocols that the log does not keep, stay."""
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.leader = value.leader
        self.state_timestamp_ms = None if value.state_timestamp_ms == -1 else value.state_timestamp_ms
        self.state = ClassicState.STABLE if value.members else ClassicState.EMPTY
        self.is_initial_rebalance = self.new_member_added = False
        self.members = {member.member_id: self._restored(member, value.protocol) for member in value.members}
        self.static_members = {
            member.instance_id: member.member_id for member in self.members.values() if member.instance_id is not None
        }
        self.arriving.clear()
        self.note_subscribed_topics()

    def _restored(self, value: ClassicMemberValue, protocol: str | None) -> ClassicMember:
        known = self.members.get(value.member_id) or self.arriving.get(value.member_id)
        if known is not None:
            known.assignment = value.assignment
            return known
        return ClassicMember(
            member_id=value.member_id,
            instance_id=value.instance_id,
            client_id=value.client_id,
            client_host=value.client_host,
            session_timeout_ms=value.session_timeout_ms,
            rebalance_timeout_ms=value.session_timeout_ms if value.rebalance_timeout_ms == -1 else value.rebalance_timeout_ms,
            protocols={protocol or "": value.subscription},
            assignment=value.assignment,
        )
