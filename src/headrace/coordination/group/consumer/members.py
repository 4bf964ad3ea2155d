"""A group that speaks the consumer protocol (KIP-848): its epochs, its members, what each has and what each is meant to have.

All of it comes from the log and changes only by replaying entries.  What always holds:
- a partition has at most one owner: a member that has it or is still giving it up;
- member epoch <= target epoch <= group epoch; a static member that is away has epoch -2.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from uuid import UUID

from headrace.coordination.group.entries import (
    AssignmentEntry,
    AssignmentValue,
    ClassicProtocols,
    Entry,
    EpochsByPartition,
    GroupEpochEntry,
    GroupEpochValue,
    LegacyTopicsEntry,
    MemberEntry,
    MemberState,
    MemberValue,
    Partitions,
    RegexEntry,
    RegexValue,
    TargetEntry,
    TargetEpochEntry,
    TargetEpochValue,
)
from headrace.coordination.group.requests import LEAVE_EPOCH
from headrace.coordination.group.topics import TopicCatalog
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode, RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member: what it says of itself, and where it stands."""

    member_id: str
    about: MemberValue = field(default_factory=MemberValue)
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: EpochsByPartition = field(default_factory=dict)
    revoking: EpochsByPartition = field(default_factory=dict)

    @property
    def instance_id(self) -> str | None:
        return self.about.instance_id

    @property
    def regex(self) -> str | None:
        return self.about.topic_regex or None

    @property
    def classic(self) -> ClassicProtocols | None:
        """Set for a member that speaks the classic protocol inside this group."""
        return self.about.classic

    def held(self) -> dict[UUID, frozenset[int]]:
        """What the member answers for: what it has, and what it is to give up but has not."""
        held = without_epochs(self.assigned)
        for topic_id, partitions in without_epochs(self.revoking).items():
            held[topic_id] = held.get(topic_id, frozenset()) | partitions
        return held

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def at_epoch(self, epoch: int) -> "ConsumerMember":
        """With its epoch moved, the old one remembered: a reply may be lost and the member come with that again."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch)

    def assignment_value(self) -> AssignmentValue:
        return AssignmentValue(
            epoch=self.epoch,
            previous_epoch=self.previous_epoch,
            state=self.state,
            assigned=self.assigned,
            revoking=self.revoking,
        )

    def with_assignment(self, value: AssignmentValue) -> "ConsumerMember":
        return replace(
            self,
            epoch=value.epoch,
            previous_epoch=value.previous_epoch,
            state=value.state,
            assigned=value.assigned,
            revoking=value.revoking,
        )


def without_epochs(assigned: EpochsByPartition) -> dict[UUID, frozenset[int]]:
    return {topic_id: frozenset(partitions) for topic_id, partitions in assigned.items()}


def with_epoch(partitions: Partitions, epoch: int) -> dict[UUID, dict[int, int]]:
    return {topic_id: dict.fromkeys(sorted(indexes), epoch) for topic_id, indexes in partitions.items()}


@dataclass(slots=True)
class ConsumerGroup:
    """A group of the consumer protocol."""

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    target_epoch: int = 0
    target_timestamp_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    regexes: dict[str, RegexValue] = field(default_factory=dict)
    owners: dict[UUID, dict[int, str]] = field(default_factory=dict)
    has_legacy_topics: bool = False
    # When to look at the cluster's topics again though no member changed, and the epoch at which that was decided.
    refresh_deadline: float = 0.0
    refresh_epoch: int = 0
    # Since when some member has not what it is to have; None while all have, and after a start.
    rebalancing_since_ms: int | None = None

    # --- looking ----------------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            message = f"Member {member_id} is not a member of group {self.group_id}."
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names a member reads.  A pattern that is not resolved yet matches nothing."""
        resolved = self.regexes.get(member.regex) if member.regex is not None else None
        return member.about.topic_names if resolved is None else member.about.topic_names | resolved.topics

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*(self.topics_of(member) for member in self.members.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.topics_of(member) for member in self.members.values())

    def is_refresh_due(self, now: float) -> bool:
        return now >= self.refresh_deadline or self.epoch < self.refresh_epoch

    def preferred_assignor(self) -> str | None:
        """The assignor most members ask for; the first to get there wins a tie."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            if member.about.server_assignor is not None:
                votes[member.about.server_assignor] = votes.get(member.about.server_assignor, 0) + 1
        return max(votes, key=votes.__getitem__) if votes else None

    def with_member(self, member: ConsumerMember, *, replaces: str | None = None) -> "ConsumerGroup":
        """The group as it would be with this member in it: for a decision to look at, never to be kept."""
        members = {member_id: each for member_id, each in self.members.items() if member_id != replaces}
        members[member.member_id] = member
        static = self.static_members
        if member.instance_id is not None:
            static = {**static, member.instance_id: member.member_id}
        targets = self.targets
        if replaces is not None and replaces in targets:
            targets = {id: target for id, target in targets.items() if id != replaces} | {member.member_id: targets[replaces]}
        return replace(self, members=members, static_members=static, targets=targets)

    def without_members(self, member_ids: Iterable[str]) -> "ConsumerGroup":
        """The group as it would be without these members, and without patterns that only they had."""
        gone = set(member_ids)
        members = {member_id: member for member_id, member in self.members.items() if member_id not in gone}
        patterns = {member.regex for member in members.values()}
        regexes = {regex: value for regex, value in self.regexes.items() if regex in patterns}
        targets = {member_id: target for member_id, target in self.targets.items() if member_id not in gone}
        return replace(self, members=members, regexes=regexes, targets=targets)

    def owner_of(self, topic_id: UUID, partition: int) -> str | None:
        return self.owners.get(topic_id, {}).get(partition)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether some partition meant for the member is still with another one."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic_id, {}) and self.owner_of(topic_id, partition) is not None
            for topic_id, partitions in self.targets.get(member.member_id, {}).items()
            for partition in partitions
        )

    # --- classic members --------------------------------------------------------------------------------------------------

    @property
    def classic_members(self) -> list[ConsumerMember]:
        return [member for member in self.members.values() if member.classic is not None]

    def supports_classic(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        if protocol_type != "consumer":
            return False
        known = [{name for name, _ in member.classic.protocols} for member in self.classic_members if member.classic is not None]
        return any(all(name in names for names in known) for name in protocols)

    def only_classic_without(self, leaving: Iterable[str]) -> bool:
        """Whether all members but these speak the classic protocol."""
        gone = set(leaving)
        return all(member.classic is not None for member_id, member in self.members.items() if member_id not in gone)

    # --- entries ----------------------------------------------------------------------------------------------------------

    def removal_of(self, member_id: str) -> Iterator[AssignmentEntry | TargetEntry | MemberEntry]:
        """What the log says when a member is gone."""
        yield AssignmentEntry(self.group_id, member_id, None)
        yield TargetEntry(self.group_id, member_id, None)
        yield MemberEntry(self.group_id, member_id, None)

    def tombstones(self) -> Iterator[Entry]:
        """What the log says when the whole group is gone."""
        yield from (AssignmentEntry(self.group_id, member_id, None) for member_id in self.members)
        yield from (TargetEntry(self.group_id, member_id, None) for member_id in self.members)
        yield TargetEpochEntry(self.group_id, None)
        yield from (MemberEntry(self.group_id, member_id, None) for member_id in self.members)
        yield from (RegexEntry(self.group_id, regex, None) for regex in self.regexes)
        if self.has_legacy_topics:
            yield LegacyTopicsEntry(self.group_id, False)
        yield GroupEpochEntry(self.group_id, None)

    def creation(self) -> Iterator[Entry]:
        """What the log says when the group comes to be as it is now."""
        for member in self.members.values():
            yield MemberEntry(self.group_id, member.member_id, member.about)
        yield GroupEpochEntry(self.group_id, GroupEpochValue(self.epoch, self.metadata_hash))
        for member_id, target in self.targets.items():
            yield TargetEntry(self.group_id, member_id, target)
        yield TargetEpochEntry(self.group_id, TargetEpochValue(self.target_epoch, self.target_timestamp_ms))
        for member in self.members.values():
            yield AssignmentEntry(self.group_id, member.member_id, member.assignment_value())

    # --- replaying --------------------------------------------------------------------------------------------------------

    def replay_member(self, entry: MemberEntry) -> None:
        if entry.value is None:
            self._forget(entry.member_id)
            return
        known = self.members.get(entry.member_id, ConsumerMember(member_id=entry.member_id))
        self.members[entry.member_id] = replace(known, about=entry.value)
        if entry.value.instance_id is not None:
            self.static_members[entry.value.instance_id] = entry.member_id

    def replay_assignment(self, entry: AssignmentEntry) -> None:
        known = self.members.get(entry.member_id)
        if entry.value is None and known is None:
            return
        known = known or ConsumerMember(member_id=entry.member_id)
        value = entry.value or AssignmentValue(epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH)
        self._release(known)
        member = known.with_assignment(value)
        self.members[entry.member_id] = member
        for held in (member.assigned, member.revoking):
            for topic_id, partitions in held.items():
                self.owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member.member_id))

    def replay_target(self, entry: TargetEntry) -> None:
        if entry.value is None:
            self.targets.pop(entry.member_id, None)
        else:
            self.targets[entry.member_id] = entry.value

    def replay_target_epoch(self, entry: TargetEpochEntry) -> None:
        value = entry.value or TargetEpochValue(-1)
        self.target_epoch, self.target_timestamp_ms = value.epoch, value.timestamp_ms

    def replay_regex(self, entry: RegexEntry) -> None:
        if entry.value is None:
            self.regexes.pop(entry.regex, None)
        else:
            self.regexes[entry.regex] = entry.value

    def _forget(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        # A static member that was replaced has left its instance id to another.
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _release(self, member: ConsumerMember) -> None:
        for held in (member.assigned, member.revoking):
            for topic_id, partitions in held.items():
                owners = self.owners.get(topic_id, {})
                for partition in partitions:
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    self.owners.pop(topic_id, None)


def named_partitions(partitions: Mapping[UUID, Iterable[int]], topics: TopicCatalog) -> dict[str, tuple[int, ...]]:
    """The same partitions by the names of those topics that exist."""
    return {
        topic.name: tuple(sorted(indexes))
        for topic_id, indexes in partitions.items()
        if (topic := topics.identified(topic_id)) is not None
    }


def identified_partitions(partitions: Mapping[str, Iterable[int]], topics: TopicCatalog) -> dict[UUID, frozenset[int]]:
    """The same partitions by the ids of those topics that exist."""
    return {
        topic.topic_id: frozenset(indexes) for name, indexes in partitions.items() if (topic := topics.named(name)) is not None
    }
