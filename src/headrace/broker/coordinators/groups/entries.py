"""Entries of the group coordinator as records of `__consumer_offsets`, and back."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from headrace.broker.coordinators.groups import offset_bytes
from headrace.broker.coordinators.groups.share_entries import SHARE_DECODERS, encode_share
from headrace.coordination.group.entries import (
    AssignmentEntry,
    AssignmentValue,
    ClassicGroupEntry,
    ClassicGroupValue,
    ClassicMemberValue,
    ClassicProtocols,
    CommittedOffset,
    Entry,
    EpochsByPartition,
    GroupEpochEntry,
    GroupEpochValue,
    LegacyTopicsEntry,
    MemberEntry,
    MemberState,
    MemberValue,
    OffsetEntry,
    Partitions,
    RegexEntry,
    RegexValue,
    TargetEntry,
    TargetEpochEntry,
    TargetEpochValue,
)
from headrace.coordination.group.share_entries import SHARE_ENTRIES, ShareEntry
from headrace.model.identity import NO_TOPIC_ID
from headrace.wire.codec import encode_versioned
from headrace.wire.entries import group as wire


class GroupEntryCodec:
    """Knows which kind of record each entry is."""

    def __init__(self) -> None:
        self._offsets = offset_bytes.OffsetReader()

    def encode(self, entry: Entry | ShareEntry) -> tuple[bytes, bytes | None]:
        if isinstance(entry, SHARE_ENTRIES):
            return encode_share(entry)
        match entry:
            case OffsetEntry(value=value):
                return offset_bytes.write_key(entry), None if value is None else _offset_bytes(value)
            case ClassicGroupEntry(group, value):
                return _group_record(wire.GROUP_METADATA, group, None if value is None else _classic_bytes(value))
            case GroupEpochEntry(group, value):
                return _group_record(wire.CONSUMER_GROUP_METADATA, group, None if value is None else _epoch_bytes(value))
            case LegacyTopicsEntry(group, present):
                assert not present, "topics are not kept this way any more"
                return _group_record(wire.CONSUMER_GROUP_PARTITION_METADATA, group, None)
            case TargetEpochEntry(group, value):
                encoded = None if value is None else _target_epoch_bytes(value)
                return _group_record(wire.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, group, encoded)
            case RegexEntry(group, regex, value):
                key = wire.RegularExpressionKey(group=group, regular_expression=regex)
                encoded = None if value is None else _regex_bytes(value)
                return wire.encode_key(wire.CONSUMER_GROUP_REGULAR_EXPRESSION, key), encoded
            case MemberEntry() | TargetEntry() | AssignmentEntry():
                return _encode_of_member(entry)

    def decode(self, key: bytes, value: bytes | None) -> Entry | ShareEntry | None:
        offset = self._offsets.read(key, value)
        if offset is not None:
            return offset
        read = wire.read_entry(key, value)
        if read is None:
            return None
        kind, key_read, value_read = read
        entry: Entry | ShareEntry = _DECODERS[kind](key_read, value_read)
        return entry


def _group_record(kind: int, group: str, value: bytes | None) -> tuple[bytes, bytes | None]:
    return wire.encode_key(kind, wire.GroupKey(group=group)), value


def _encode_of_member(entry: MemberEntry | TargetEntry | AssignmentEntry) -> tuple[bytes, bytes | None]:
    key = wire.MemberKey(group=entry.group_id, member_id=entry.member_id)
    match entry:
        case MemberEntry(value=value):
            return wire.encode_key(wire.CONSUMER_GROUP_MEMBER_METADATA, key), None if value is None else _member_bytes(value)
        case TargetEntry(value=value):
            kind = wire.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER
            return wire.encode_key(kind, key), None if value is None else _target_bytes(value)
        case AssignmentEntry(value=value):
            kind = wire.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT
            return wire.encode_key(kind, key), None if value is None else _assignment_bytes(value)


# --- values to bytes --------------------------------------------------------------------------------------------------------


def _offset_bytes(value: CommittedOffset) -> bytes:
    return offset_bytes.write_value(value) or declared_offset_bytes(value)


def declared_offset_bytes(value: CommittedOffset) -> bytes:
    message = wire.OffsetCommitValue(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp=value.commit_timestamp_ms,
        expire_timestamp=value.expire_timestamp_ms,
        topic_id=value.topic_id,
    )
    # Each version keeps something that no other does; the oldest that keeps everything is read by most.
    version = 1 if value.expire_timestamp_ms != -1 else 3 if value.topic_id == NO_TOPIC_ID else 4
    return encode_versioned(message, version)


def _classic_bytes(value: ClassicGroupValue) -> bytes:
    members = tuple(
        wire.ClassicMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.subscription,
            assignment=member.assignment,
        )
        for member in value.members
    )
    message = wire.GroupMetadataValue(
        protocol_type=value.protocol_type,
        generation=value.generation,
        protocol=value.protocol,
        leader=value.leader,
        current_state_timestamp=value.state_timestamp_ms,
        members=members,
    )
    return encode_versioned(message, 3)


def _epoch_bytes(value: GroupEpochValue) -> bytes:
    return encode_versioned(wire.ConsumerGroupMetadataValue(epoch=value.epoch, metadata_hash=value.metadata_hash), 0)


def _target_epoch_bytes(value: TargetEpochValue) -> bytes:
    message = wire.ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=value.epoch, assignment_timestamp=value.timestamp_ms
    )
    return encode_versioned(message, 0)


def _regex_bytes(value: RegexValue) -> bytes:
    topics = tuple(sorted(value.topics))
    message = wire.ConsumerGroupRegularExpressionValue(topics=topics, version=value.version, timestamp=value.timestamp_ms)
    return encode_versioned(message, 0)


def _member_bytes(value: MemberValue) -> bytes:
    classic = None
    if value.classic is not None:
        protocols = tuple(wire.ClassicProtocol(name=name, metadata=data) for name, data in value.classic.protocols)
        classic = wire.ClassicMemberMetadata(session_timeout_ms=value.classic.session_timeout_ms, supported_protocols=protocols)
    message = wire.ConsumerGroupMemberMetadataValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=tuple(sorted(value.topic_names)),
        subscribed_topic_regex=value.topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic_member_metadata=classic,
    )
    return encode_versioned(message, 0)


def _target_bytes(value: Partitions) -> bytes:
    topics = tuple(
        wire.TargetTopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
        for topic_id, partitions in value.items()
    )
    return encode_versioned(wire.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics), 0)


def _assignment_bytes(value: AssignmentValue) -> bytes:
    message = wire.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=value.epoch,
        previous_member_epoch=value.previous_epoch,
        state=value.state,
        assigned_partitions=_with_epochs(value.assigned),
        partitions_pending_revocation=_with_epochs(value.revoking),
    )
    return encode_versioned(message, 0)


def _with_epochs(assigned: EpochsByPartition) -> tuple[wire.AssignedTopicPartitions, ...]:
    return tuple(
        wire.AssignedTopicPartitions(topic_id=topic_id, partitions=tuple(epochs), assignment_epochs=tuple(epochs.values()))
        for topic_id, epochs in assigned.items()
    )


# --- records to entries -----------------------------------------------------------------------------------------------------


def declared_offset_entry(key: wire.OffsetCommitKey, value: wire.OffsetCommitValue | None) -> OffsetEntry:
    if value is None:
        return OffsetEntry(key.group, key.topic, key.partition, None)
    committed = CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=value.expire_timestamp,
        topic_id=value.topic_id,
    )
    return OffsetEntry(key.group, key.topic, key.partition, committed)


def _classic_entry(key: wire.GroupKey, value: wire.GroupMetadataValue | None) -> ClassicGroupEntry:
    if value is None:
        return ClassicGroupEntry(key.group, None)
    members = tuple(
        ClassicMemberValue(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout,
            session_timeout_ms=member.session_timeout,
            subscription=member.subscription,
            assignment=member.assignment,
        )
        for member in value.members
    )
    group = ClassicGroupValue(
        protocol_type=value.protocol_type,
        generation=value.generation,
        protocol=value.protocol,
        leader=value.leader,
        state_timestamp_ms=value.current_state_timestamp,
        members=members,
    )
    return ClassicGroupEntry(key.group, group)


def _epoch_entry(key: wire.GroupKey, value: wire.ConsumerGroupMetadataValue | None) -> GroupEpochEntry:
    return GroupEpochEntry(key.group, None if value is None else GroupEpochValue(value.epoch, value.metadata_hash))


def _legacy_entry(key: wire.GroupKey, value: bytes | None) -> LegacyTopicsEntry:
    return LegacyTopicsEntry(key.group, value is not None)


def _member_entry(key: wire.MemberKey, value: wire.ConsumerGroupMemberMetadataValue | None) -> MemberEntry:
    if value is None:
        return MemberEntry(key.group, key.member_id, None)
    metadata = value.classic_member_metadata
    classic = None
    if metadata is not None:
        protocols = tuple((protocol.name, protocol.metadata) for protocol in metadata.supported_protocols)
        classic = ClassicProtocols(metadata.session_timeout_ms, protocols)
    member = MemberValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=classic,
    )
    return MemberEntry(key.group, key.member_id, member)


def _target_epoch_entry(key: wire.GroupKey, value: wire.ConsumerGroupTargetAssignmentMetadataValue | None) -> TargetEpochEntry:
    epoch = None if value is None else TargetEpochValue(value.assignment_epoch, value.assignment_timestamp)
    return TargetEpochEntry(key.group, epoch)


def _target_entry(key: wire.MemberKey, value: wire.ConsumerGroupTargetAssignmentMemberValue | None) -> TargetEntry:
    target = None if value is None else {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions}
    return TargetEntry(key.group, key.member_id, target)


def _assignment_entry(key: wire.MemberKey, value: wire.ConsumerGroupCurrentMemberAssignmentValue | None) -> AssignmentEntry:
    if value is None:
        return AssignmentEntry(key.group, key.member_id, None)
    states = set(MemberState)
    assignment = AssignmentValue(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if value.state in states else MemberState.UNKNOWN,
        assigned=_epochs_by_partition(value.assigned_partitions, value.member_epoch),
        revoking=_epochs_by_partition(value.partitions_pending_revocation, value.member_epoch),
    )
    return AssignmentEntry(key.group, key.member_id, assignment)


def _epochs_by_partition(topics: Iterable[wire.AssignedTopicPartitions], member_epoch: int) -> Mapping[UUID, Mapping[int, int]]:
    """Entries of brokers that kept no epochs beside partitions count from the member's own."""
    return {
        each.topic_id: dict(zip(each.partitions, each.assignment_epochs, strict=True))
        if each.assignment_epochs is not None and len(each.assignment_epochs) == len(each.partitions)
        else dict.fromkeys(each.partitions, member_epoch)
        for each in topics
    }


def _regex_entry(key: wire.RegularExpressionKey, value: wire.ConsumerGroupRegularExpressionValue | None) -> RegexEntry:
    resolved = None if value is None else RegexValue(frozenset(value.topics), value.version, value.timestamp)
    return RegexEntry(key.group, key.regular_expression, resolved)


_DECODERS: dict[int, Any] = {
    wire.LEGACY_OFFSET_COMMIT: declared_offset_entry,
    wire.OFFSET_COMMIT: declared_offset_entry,
    wire.GROUP_METADATA: _classic_entry,
    wire.CONSUMER_GROUP_METADATA: _epoch_entry,
    wire.CONSUMER_GROUP_PARTITION_METADATA: _legacy_entry,
    wire.CONSUMER_GROUP_MEMBER_METADATA: _member_entry,
    wire.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _target_epoch_entry,
    wire.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _target_entry,
    wire.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _assignment_entry,
    wire.CONSUMER_GROUP_REGULAR_EXPRESSION: _regex_entry,
    **SHARE_DECODERS,
}
