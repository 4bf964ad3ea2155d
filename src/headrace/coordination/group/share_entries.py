"""What a group coordinator writes into its log about share groups.  No value says that the thing is gone."""

from collections.abc import Mapping
from dataclasses import field
from uuid import UUID

from headrace.coordination.group.entries import GroupEpochValue, Partitions, TargetEpochValue
from headrace.declaring import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMemberValue:
    """What a member says of itself."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ShareGroupEpochEntry:
    """A share group exists and has this epoch."""

    group_id: str
    value: GroupEpochValue | None


@dataclass(frozen=True, slots=True)
class ShareMemberEntry:
    group_id: str
    member_id: str
    value: ShareMemberValue | None


@dataclass(frozen=True, slots=True)
class ShareTargetEpochEntry:
    group_id: str
    value: TargetEpochValue | None


@dataclass(frozen=True, slots=True)
class ShareTargetEntry:
    group_id: str
    member_id: str
    value: Partitions | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAssignmentValue:
    epoch: int
    previous_epoch: int
    assigned: Partitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShareAssignmentEntry:
    group_id: str
    member_id: str
    value: ShareAssignmentValue | None


@dataclass(frozen=True, slots=True)
class ShareTopic:
    """A topic, and those of its partitions of which a share coordinator keeps how far the group is."""

    name: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class ShareTopicsEntry:
    """All topics that the group has begun to work on."""

    group_id: str
    value: Mapping[UUID, ShareTopic] | None


ShareEntry = (
    ShareGroupEpochEntry | ShareMemberEntry | ShareTargetEpochEntry | ShareTargetEntry | ShareAssignmentEntry | ShareTopicsEntry
)

SHARE_ENTRIES = (
    ShareGroupEpochEntry,
    ShareMemberEntry,
    ShareTargetEpochEntry,
    ShareTargetEntry,
    ShareAssignmentEntry,
    ShareTopicsEntry,
)
