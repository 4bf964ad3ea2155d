"""What a group coordinator writes into its log.  An entry names a thing and gives its new value; no value says it is gone.

Each entry is one record of `__consumer_offsets`; the shell knows their bytes.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from headrace.declaring import dataclass
from headrace.model.identity import NO_TOPIC_ID

# The partitions of each topic; for what a member has, with the epoch at which it got each.
Partitions = Mapping[UUID, frozenset[int]]
EpochsByPartition = Mapping[UUID, Mapping[int, int]]


class MemberState(IntEnum):
    """Where a member of a consumer group stands between its old and its target assignment.  The numbers are Kafka's."""

    STABLE = 0
    # It was told to give up partitions and has not said that it did.
    UNREVOKED_PARTITIONS = 1
    # Partitions meant for it are still with others.
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class CommittedOffset(NamedTuple):
    """How far a group has read one partition.  There are many of these, so it is the lightest kind of value."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    # Only commits of very old clients bring their own end.
    expire_timestamp_ms: int = -1
    topic_id: UUID = NO_TOPIC_ID


class OffsetEntry(NamedTuple):
    group_id: str
    topic: str
    partition: int
    value: CommittedOffset | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberValue:
    """A member of a classic group as of its last complete rebalance."""

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    session_timeout_ms: int = -1
    subscription: bytes = b""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupValue:
    """A classic group as of its last complete rebalance.  No members: the group is empty."""

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    state_timestamp_ms: int = -1
    members: tuple[ClassicMemberValue, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassicGroupEntry:
    group_id: str
    value: ClassicGroupValue | None


@dataclass(frozen=True, slots=True)
class GroupEpochValue:
    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class GroupEpochEntry:
    """A consumer group exists and has this epoch."""

    group_id: str
    value: GroupEpochValue | None


@dataclass(frozen=True, slots=True)
class LegacyTopicsEntry:
    """Subscribed topics as brokers before 4.1 kept them.  We never write one with a value, only take such ones away."""

    group_id: str
    present: bool


@dataclass(frozen=True, slots=True)
class ClassicProtocols:
    """What a member that speaks the classic protocol inside a consumer group joined with."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValue:
    """What a member of a consumer group says of itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicProtocols | None = None


@dataclass(frozen=True, slots=True)
class MemberEntry:
    group_id: str
    member_id: str
    value: MemberValue | None


@dataclass(frozen=True, slots=True)
class TargetEpochValue:
    epoch: int
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class TargetEpochEntry:
    """The target assignments of a consumer group are those of this epoch."""

    group_id: str
    value: TargetEpochValue | None


@dataclass(frozen=True, slots=True)
class TargetEntry:
    """The partitions a member is meant to have."""

    group_id: str
    member_id: str
    value: Partitions | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentValue:
    """The partitions a member has, and those it is to give up."""

    epoch: int
    previous_epoch: int
    state: MemberState = MemberState.STABLE
    assigned: EpochsByPartition = field(default_factory=dict)
    revoking: EpochsByPartition = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssignmentEntry:
    group_id: str
    member_id: str
    value: AssignmentValue | None


@dataclass(frozen=True, slots=True)
class RegexValue:
    """The topics a pattern matched, at a version of the metadata and a time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class RegexEntry:
    group_id: str
    regex: str
    value: RegexValue | None


Entry = (
    OffsetEntry
    | ClassicGroupEntry
    | GroupEpochEntry
    | LegacyTopicsEntry
    | MemberEntry
    | TargetEpochEntry
    | TargetEntry
    | AssignmentEntry
    | RegexEntry
)
