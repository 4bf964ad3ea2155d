"""A share group: who is in it, what each works on, and on which partitions it has begun.  Changes only by replaying entries."""

from collections.abc import Iterator
from dataclasses import field, replace
from uuid import UUID

from headrace.coordination.group.entries import Partitions
from headrace.coordination.group.share_entries import (
    ShareAssignmentEntry,
    ShareEntry,
    ShareGroupEpochEntry,
    ShareMemberEntry,
    ShareMemberValue,
    ShareTargetEntry,
    ShareTargetEpochEntry,
    ShareTopic,
    ShareTopicsEntry,
)
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode, RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    member_id: str
    about: ShareMemberValue = field(default_factory=ShareMemberValue)
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Partitions = field(default_factory=dict)


@dataclass(slots=True)
class ShareGroup:
    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    target_epoch: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    topics: dict[UUID, ShareTopic] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"

    def member(self, member_id: str) -> ShareMember:
        member = self.members.get(member_id)
        if member is None:
            message = f"Member {member_id} is not a member of group {self.group_id}."
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return member

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*(member.about.topic_names for member in self.members.values()))

    def require_empty(self) -> None:
        if self.members:
            raise RequestError(ErrorCode.NON_EMPTY_GROUP, f"Group {self.group_id} has members.")

    # --- entries ----------------------------------------------------------------------------------------------------------

    def removal_of(self, member_id: str) -> Iterator[ShareEntry]:
        yield ShareAssignmentEntry(self.group_id, member_id, None)
        yield ShareTargetEntry(self.group_id, member_id, None)
        yield ShareMemberEntry(self.group_id, member_id, None)

    def tombstones(self) -> Iterator[ShareEntry]:
        """What the log says when the group is gone."""
        for member_id in self.members:
            yield from self.removal_of(member_id)
        yield ShareTargetEpochEntry(self.group_id, None)
        yield ShareTopicsEntry(self.group_id, None)
        yield ShareGroupEpochEntry(self.group_id, None)

    def replay(self, entry: ShareEntry) -> None:
        match entry:
            case ShareGroupEpochEntry(value=value):
                if value is not None:
                    self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ShareTargetEpochEntry(value=value):
                self.target_epoch = 0 if value is None else value.epoch
            case ShareTopicsEntry(value=value):
                self.topics = dict(value or {})
            case ShareTargetEntry(member_id=member_id, value=value):
                self.targets.pop(member_id, None)
                if value is not None:
                    self.targets[member_id] = value
            case ShareMemberEntry() | ShareAssignmentEntry():
                self._replay_member(entry)

    def _replay_member(self, entry: ShareMemberEntry | ShareAssignmentEntry) -> None:
        known = self.members.get(entry.member_id, ShareMember(member_id=entry.member_id))
        match entry:
            case ShareMemberEntry(value=None):
                self.members.pop(entry.member_id, None)
            case ShareMemberEntry(value=about) if about is not None:
                self.members[entry.member_id] = replace(known, about=about)
            case ShareAssignmentEntry(value=value) if value is not None:
                self.members[entry.member_id] = replace(
                    known, epoch=value.epoch, previous_epoch=value.previous_epoch, assigned=value.assigned
                )
