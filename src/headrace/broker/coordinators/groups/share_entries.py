"""Entries about share groups as records of `__consumer_offsets`, and back."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from headrace.coordination.group.entries import GroupEpochValue, Partitions, TargetEpochValue
from headrace.coordination.group.share_entries import (
    ShareAssignmentEntry,
    ShareAssignmentValue,
    ShareEntry,
    ShareGroupEpochEntry,
    ShareMemberEntry,
    ShareMemberValue,
    ShareTargetEntry,
    ShareTargetEpochEntry,
    ShareTopic,
    ShareTopicsEntry,
)
from headrace.wire.codec import encode_versioned
from headrace.wire.entries import group as wire

STABLE = 0  # the only state that a member of a share group has


def encode_share(entry: ShareEntry) -> tuple[bytes, bytes | None]:
    kind, message = _on_wire(entry)
    key: Any = wire.GroupKey(group=entry.group_id)
    if isinstance(entry, ShareMemberEntry | ShareTargetEntry | ShareAssignmentEntry):
        key = wire.MemberKey(group=entry.group_id, member_id=entry.member_id)
    return wire.encode_key(kind, key), None if message is None else encode_versioned(message, 0)


def _on_wire(entry: ShareEntry) -> tuple[int, Any]:
    match entry:
        case ShareGroupEpochEntry(value=epoch):
            return wire.SHARE_GROUP_METADATA, epoch and wire.ShareGroupMetadataValue(
                epoch=epoch.epoch, metadata_hash=epoch.metadata_hash
            )
        case ShareTargetEpochEntry(value=target):
            return wire.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA, target and wire.ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=target.epoch, assignment_timestamp=target.timestamp_ms
            )
        case ShareTopicsEntry(value=topics):
            return wire.SHARE_GROUP_STATE_PARTITION_METADATA, None if topics is None else _topics_on_wire(topics)
        case ShareMemberEntry(value=member):
            return wire.SHARE_GROUP_MEMBER_METADATA, member and wire.ShareGroupMemberMetadataValue(
                rack_id=member.rack_id,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=tuple(sorted(member.topic_names)),
            )
        case ShareTargetEntry(value=partitions):
            message = None
            if partitions is not None:
                message = wire.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=_partitions_on_wire(partitions))
            return wire.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER, message
        case ShareAssignmentEntry(value=assignment):
            return wire.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT, assignment and wire.ShareGroupCurrentMemberAssignmentValue(
                member_epoch=assignment.epoch,
                previous_member_epoch=assignment.previous_epoch,
                state=STABLE,
                assigned_partitions=_partitions_on_wire(assignment.assigned),
            )


def _partitions_on_wire(partitions: Partitions) -> tuple[wire.TargetTopicPartitions, ...]:
    return tuple(
        wire.TargetTopicPartitions(topic_id=topic_id, partitions=tuple(sorted(indexes)))
        for topic_id, indexes in partitions.items()
    )


def _topics_on_wire(topics: Mapping[UUID, ShareTopic]) -> wire.ShareGroupStatePartitionMetadataValue:
    return wire.ShareGroupStatePartitionMetadataValue(
        initialized_topics=tuple(
            wire.TopicPartitionsInfo(topic_id=topic_id, topic_name=topic.name, partitions=tuple(sorted(topic.partitions)))
            for topic_id, topic in topics.items()
        )
    )


# --- records to entries -----------------------------------------------------------------------------------------------------


def _epoch(key: wire.GroupKey, value: wire.ShareGroupMetadataValue | None) -> ShareGroupEpochEntry:
    return ShareGroupEpochEntry(key.group, None if value is None else GroupEpochValue(value.epoch, value.metadata_hash))


def _member(key: wire.MemberKey, value: wire.ShareGroupMemberMetadataValue | None) -> ShareMemberEntry:
    if value is None:
        return ShareMemberEntry(key.group, key.member_id, None)
    member = ShareMemberValue(
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
    )
    return ShareMemberEntry(key.group, key.member_id, member)


def _target_epoch(key: wire.GroupKey, value: wire.ConsumerGroupTargetAssignmentMetadataValue | None) -> ShareTargetEpochEntry:
    epoch = None if value is None else TargetEpochValue(value.assignment_epoch, value.assignment_timestamp)
    return ShareTargetEpochEntry(key.group, epoch)


def _target(key: wire.MemberKey, value: wire.ConsumerGroupTargetAssignmentMemberValue | None) -> ShareTargetEntry:
    return ShareTargetEntry(key.group, key.member_id, None if value is None else _partitions(value.topic_partitions))


def _assignment(key: wire.MemberKey, value: wire.ShareGroupCurrentMemberAssignmentValue | None) -> ShareAssignmentEntry:
    if value is None:
        return ShareAssignmentEntry(key.group, key.member_id, None)
    assigned = ShareAssignmentValue(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        assigned=_partitions(value.assigned_partitions),
    )
    return ShareAssignmentEntry(key.group, key.member_id, assigned)


def _topics(key: wire.GroupKey, value: wire.ShareGroupStatePartitionMetadataValue | None) -> ShareTopicsEntry:
    if value is None:
        return ShareTopicsEntry(key.group, None)
    begun = {each.topic_id: ShareTopic(each.topic_name, frozenset(each.partitions)) for each in value.initialized_topics}
    return ShareTopicsEntry(key.group, begun)


def _partitions(topics: tuple[wire.TargetTopicPartitions, ...]) -> dict[UUID, frozenset[int]]:
    return {each.topic_id: frozenset(each.partitions) for each in topics}


SHARE_DECODERS: dict[int, Any] = {
    wire.SHARE_GROUP_MEMBER_METADATA: _member,
    wire.SHARE_GROUP_METADATA: _epoch,
    wire.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: _target_epoch,
    wire.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: _target,
    wire.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: _assignment,
    wire.SHARE_GROUP_STATE_PARTITION_METADATA: _topics,
}
