"""Keys and values of `__consumer_offsets`, as Kafka writes them.

A record's key begins with a number that names its kind, and for most kinds it is the kind's only version; a value begins with its
own version.  A record without a value takes the thing away.
"""

from typing import Annotated, Any, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.model.identity import NO_TOPIC_ID
from headrace.wire.codec import WireError, decode, encode, read_version
from headrace.wire.schema import Layout, Since, Tagged, Until, array, binary, int8, int32, int64, string, uuid

_ONLY = Layout(versions=range(1))
_FLEXIBLE = Layout(versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitKey:
    """Kinds 0 and 1 have the same layout; 0 was written before Kafka 0.9."""

    layout: ClassVar[Layout] = _ONLY
    group: Annotated[str, string]
    topic: Annotated[str, string]
    partition: Annotated[int, int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue:
    """Version 3 adds the leader epoch, version 4 the topic's id; only version 1 had an end of its own."""

    layout: ClassVar[Layout] = Layout(versions=range(5), flexible_from=4)
    offset: Annotated[int, int64]
    leader_epoch: Annotated[int, int32, Since(3)] = -1
    metadata: Annotated[str, string] = ""
    commit_timestamp: Annotated[int, int64] = -1
    expire_timestamp: Annotated[int, int64, Since(1), Until(1)] = -1
    topic_id: Annotated[UUID, uuid, Since(4), Tagged(0)] = NO_TOPIC_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """The key of whatever there is one of for each group: kinds 2, 3, 4 and 6."""

    layout: ClassVar[Layout] = _ONLY
    group: Annotated[str, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberKey:
    """The key of whatever there is one of for each member: kinds 5, 7 and 8."""

    layout: ClassVar[Layout] = _ONLY
    group: Annotated[str, string]
    member_id: Annotated[str, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegularExpressionKey:
    layout: ClassVar[Layout] = _ONLY
    group: Annotated[str, string]
    regular_expression: Annotated[str, string]


# --- the classic protocol ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    member_id: Annotated[str, string]
    group_instance_id: Annotated[str | None, string, Since(3)] = None
    client_id: Annotated[str, string] = ""
    client_host: Annotated[str, string] = ""
    rebalance_timeout: Annotated[int, int32, Since(1)] = -1
    session_timeout: Annotated[int, int32] = -1
    subscription: Annotated[bytes, binary] = b""
    assignment: Annotated[bytes, binary] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    """A group of the classic protocol after a complete rebalance."""

    layout: ClassVar[Layout] = Layout(versions=range(5), flexible_from=4)
    protocol_type: Annotated[str, string]
    generation: Annotated[int, int32]
    protocol: Annotated[str | None, string]
    leader: Annotated[str | None, string]
    current_state_timestamp: Annotated[int, int64, Since(2)] = -1
    members: Annotated[tuple[ClassicMember, ...], array(ClassicMember)] = ()


# --- the consumer protocol --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue:
    layout: ClassVar[Layout] = _FLEXIBLE
    epoch: Annotated[int, int32]
    metadata_hash: Annotated[int, int64, Tagged(0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    name: Annotated[str, string]
    metadata: Annotated[bytes, binary]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """What a member that speaks the classic protocol inside a consumer group joined with."""

    session_timeout_ms: Annotated[int, int32]
    supported_protocols: Annotated[tuple[ClassicProtocol, ...], array(ClassicProtocol)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue:
    layout: ClassVar[Layout] = _FLEXIBLE
    instance_id: Annotated[str | None, string]
    rack_id: Annotated[str | None, string]
    client_id: Annotated[str, string]
    client_host: Annotated[str, string]
    subscribed_topic_names: Annotated[tuple[str, ...], array(string)]
    subscribed_topic_regex: Annotated[str | None, string]
    rebalance_timeout_ms: Annotated[int, int32] = -1
    server_assignor: Annotated[str | None, string] = None
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, ClassicMemberMetadata, Tagged(0)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    layout: ClassVar[Layout] = _FLEXIBLE
    assignment_epoch: Annotated[int, int32]
    assignment_timestamp: Annotated[int, int64, Tagged(0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTopicPartitions:
    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue:
    layout: ClassVar[Layout] = _FLEXIBLE
    topic_partitions: Annotated[tuple[TargetTopicPartitions, ...], array(TargetTopicPartitions)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTopicPartitions:
    """The epochs stand beside the partitions they belong to; entries of older brokers have none."""

    topic_id: Annotated[UUID, uuid]
    partitions: Annotated[tuple[int, ...], array(int32)]
    assignment_epochs: Annotated[tuple[int, ...] | None, array(int32), Tagged(0)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    layout: ClassVar[Layout] = _FLEXIBLE
    member_epoch: Annotated[int, int32]
    previous_member_epoch: Annotated[int, int32]
    state: Annotated[int, int8]
    assigned_partitions: Annotated[tuple[AssignedTopicPartitions, ...], array(AssignedTopicPartitions)]
    partitions_pending_revocation: Annotated[tuple[AssignedTopicPartitions, ...], array(AssignedTopicPartitions)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue:
    layout: ClassVar[Layout] = _FLEXIBLE
    topics: Annotated[tuple[str, ...], array(string)]
    version: Annotated[int, int64]
    timestamp: Annotated[int, int64]


# --- share groups -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMemberMetadataValue:
    layout: ClassVar[Layout] = _FLEXIBLE
    rack_id: Annotated[str | None, string]
    client_id: Annotated[str, string]
    client_host: Annotated[str, string]
    subscribed_topic_names: Annotated[tuple[str, ...], array(string)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMetadataValue:
    layout: ClassVar[Layout] = _FLEXIBLE
    epoch: Annotated[int, int32]
    metadata_hash: Annotated[int, int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupCurrentMemberAssignmentValue:
    layout: ClassVar[Layout] = _FLEXIBLE
    member_epoch: Annotated[int, int32]
    previous_member_epoch: Annotated[int, int32]
    state: Annotated[int, int8]
    assigned_partitions: Annotated[tuple[TargetTopicPartitions, ...], array(TargetTopicPartitions)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitionsInfo:
    topic_id: Annotated[UUID, uuid]
    topic_name: Annotated[str, string]
    partitions: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    topic_id: Annotated[UUID, uuid]
    topic_name: Annotated[str, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupStatePartitionMetadataValue:
    """The topics of which share coordinators keep how far the group is.  We write only what has begun."""

    layout: ClassVar[Layout] = _FLEXIBLE
    initializing_topics: Annotated[tuple[TopicPartitionsInfo, ...], array(TopicPartitionsInfo)] = ()
    initialized_topics: Annotated[tuple[TopicPartitionsInfo, ...], array(TopicPartitionsInfo)]
    deleting_topics: Annotated[tuple[TopicInfo, ...], array(TopicInfo)] = ()


# --- kinds ------------------------------------------------------------------------------------------------------------------

LEGACY_OFFSET_COMMIT = 0
OFFSET_COMMIT = 1
GROUP_METADATA = 2
CONSUMER_GROUP_METADATA = 3
CONSUMER_GROUP_PARTITION_METADATA = 4
CONSUMER_GROUP_MEMBER_METADATA = 5
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
SHARE_GROUP_MEMBER_METADATA = 10
SHARE_GROUP_METADATA = 11
SHARE_GROUP_TARGET_ASSIGNMENT_METADATA = 12
SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER = 13
SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT = 14
SHARE_GROUP_STATE_PARTITION_METADATA = 15
CONSUMER_GROUP_REGULAR_EXPRESSION = 16

# The class of each kind's key and of its value.  Values of kind 4 are no longer written and their content no longer read.
KINDS: dict[int, tuple[type[Any], type[Any] | None]] = {
    LEGACY_OFFSET_COMMIT: (OffsetCommitKey, OffsetCommitValue),
    OFFSET_COMMIT: (OffsetCommitKey, OffsetCommitValue),
    GROUP_METADATA: (GroupKey, GroupMetadataValue),
    CONSUMER_GROUP_METADATA: (GroupKey, ConsumerGroupMetadataValue),
    CONSUMER_GROUP_PARTITION_METADATA: (GroupKey, None),
    CONSUMER_GROUP_MEMBER_METADATA: (MemberKey, ConsumerGroupMemberMetadataValue),
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: (GroupKey, ConsumerGroupTargetAssignmentMetadataValue),
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: (MemberKey, ConsumerGroupTargetAssignmentMemberValue),
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: (MemberKey, ConsumerGroupCurrentMemberAssignmentValue),
    CONSUMER_GROUP_REGULAR_EXPRESSION: (RegularExpressionKey, ConsumerGroupRegularExpressionValue),
    SHARE_GROUP_MEMBER_METADATA: (MemberKey, ShareGroupMemberMetadataValue),
    SHARE_GROUP_METADATA: (GroupKey, ShareGroupMetadataValue),
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: (GroupKey, ConsumerGroupTargetAssignmentMetadataValue),
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: (MemberKey, ConsumerGroupTargetAssignmentMemberValue),
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: (MemberKey, ShareGroupCurrentMemberAssignmentValue),
    SHARE_GROUP_STATE_PARTITION_METADATA: (GroupKey, ShareGroupStatePartitionMetadataValue),
}


def encode_key(kind: int, key: Any) -> bytes:
    return kind.to_bytes(2, "big") + encode(key, 0)


def read_entry(key: bytes, value: bytes | None) -> tuple[int, Any, Any] | None:
    """The kind of a record, its key and its value; None for a kind that we do not know.  Raises WireError."""
    kind, position = read_version(key)
    if kind not in KINDS:
        return None
    key_class, value_class = KINDS[kind]
    return kind, decode(key_class, key, 0, position), _read_value(value_class, value)


def _read_value(value_class: type[Any] | None, value: bytes | None) -> Any:
    if value is None or value_class is None:
        return value
    version, position = read_version(value)
    layout: Layout = value_class.layout
    if version not in layout.versions:
        raise WireError(f"{value_class.__name__} version {version} is newer than this broker")
    # A newer broker of the same version may have added tagged fields only, and those are skipped.
    return decode(value_class, value, version, position)
