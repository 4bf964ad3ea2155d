"""What is asked of a group coordinator and what it answers, free of the wire's versions.

An answer that is only an error is raised as `RequestError`; the classes here carry what a reply says beside that.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Generic, TypeVar
from uuid import UUID

from headrace.coordination.group.entries import CommittedOffset
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_TOPIC_ID, ProducerIdentity, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks."""

    client_id: str = ""
    client_host: str = ""
    # A name nobody else has, for a member that still needs one.
    fresh_id: str = ""


# --- the classic protocol ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    protocol_type: str = "consumer"
    # Name and metadata of each protocol, the preferred first.
    protocols: tuple[tuple[str, bytes], ...] = ()
    caller: Caller = Caller()
    # KIP-394: whether the client can be told to come back with an id.
    asks_for_id_first: bool = True
    # KIP-814: whether a leader understands that it need not assign.
    can_skip_assignment: bool = True


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    skip_assignment: bool = False
    # Only the leader is told who is there.
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply:
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Leaver:
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    group_id: str
    members: tuple[Leaver, ...]


@dataclass(frozen=True, slots=True)
class LeftMember:
    member_id: str
    instance_id: str | None
    error: ErrorCode = ErrorCode.NONE


# --- the consumer protocol --------------------------------------------------------------------------------------------------

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2


MaySee = Callable[[str], bool]


def sees_everything(topic: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A member's state and wishes.  None says: as before."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Mapping[UUID, frozenset[int]] | None = None
    caller: Caller = Caller()
    # Which topics its sender may see: a pattern finds no others.
    may_see: MaySee = sees_everything


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatReply:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    # None: as before.
    assignment: Mapping[UUID, frozenset[int]] | None = None


# --- offsets ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    topic: str
    partition: int
    value: CommittedOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    offsets: tuple[OffsetToCommit, ...] = ()
    # Since version 9 a client knows what an unknown group and a stale epoch are.
    knows_consumer_protocol: bool = True
    # How long very old clients wanted an offset kept; -1 leaves that to the broker.
    retention_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalCommit:
    group_id: str
    producer: ProducerIdentity
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    offsets: tuple[OffsetToCommit, ...] = ()


# Errors in the order of the offsets asked about.
PartitionErrors = tuple[ErrorCode, ...]


@dataclass(frozen=True, slots=True)
class OffsetQuery:
    topic: str
    partition: int
    topic_id: UUID = NO_TOPIC_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets:
    group_id: str
    # None asks for all offsets of the group.
    partitions: tuple[OffsetQuery, ...] | None
    member_id: str | None = None
    member_epoch: int = -1
    require_stable: bool = False


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    topic: str
    partition: int
    value: CommittedOffset | None
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsets:
    group_id: str
    partitions: tuple[TopicPartition, ...]


# --- looking at groups ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedClassicMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedClassicGroup:
    group_id: str
    state: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedClassicMember, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribedTopic:
    topic_id: UUID
    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member to which its coordinator assigns partitions: of a share group all that is told."""

    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    assignment: tuple[DescribedTopic, ...]

    @property
    def all_topics(self) -> frozenset[str]:
        """Every topic that a description of it names."""
        return frozenset(self.topic_names) | {topic.name for topic in self.assignment}


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerMember(DescribedMember):
    instance_id: str | None
    topic_regex: str | None
    target: tuple[DescribedTopic, ...]
    is_classic: bool

    @property
    def all_topics(self) -> frozenset[str]:
        # Two arguments: a class with slots is made twice, and `super()` alone would mean the first one.
        return super(DescribedConsumerMember, self).all_topics | {topic.name for topic in self.target}  # noqa: UP008


Member = TypeVar("Member", bound=DescribedMember, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup(Generic[Member]):
    """A group of the consumer protocol, or a share group."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[Member, ...] = ()
