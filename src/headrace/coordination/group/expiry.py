"""Which committed offsets nobody needs any more.

An offset expires when its group has not used it for the retention time: counted from when the group became empty, or from the
commit where the group has no members of its own or reads other topics by now.  Only time in which this coordinator served
counts: nobody else's clock is believed.
"""

from collections.abc import Iterator

from headrace.coordination.group.classic.state import ClassicGroup, ClassicState
from headrace.coordination.group.consumer.members import ConsumerGroup
from headrace.coordination.group.entries import CommittedOffset, OffsetEntry
from headrace.coordination.group.offsets import OffsetStore
from headrace.coordination.group.settings import GroupSettings
from headrace.coordination.moment import counted_from

Group = ClassicGroup | ConsumerGroup


def may_expire(group: Group) -> bool:
    """Whether the group's offsets can expire at all as it is now."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None or group.state is ClassicState.EMPTY:
        return True
    # Members are at work: only topics that none of them reads any more may go, and only if we know what they read.
    return group.uses_consumer_protocol and group.subscribed_topics is not None and group.state is ClassicState.STABLE


def expired_offsets(
    group: Group, store: OffsetStore, settings: GroupSettings, wall_ms: int, serving_since_ms: int | None
) -> Iterator[OffsetEntry]:
    """The entries that remove what has expired."""
    offsets = store.of_group(group.group_id)
    if not may_expire(group) or not offsets:
        return
    # A group has few topics but may have many partitions: each topic is looked at once.
    read = {topic for topic in {topic for topic, _ in offsets} if group.is_subscribed_to(topic)}
    for partition, stored in offsets.items():
        if partition.topic in read or store.is_open(group.group_id, partition):
            continue
        since_ms = counted_from(_unused_since(group, stored.value), serving_since_ms, wall_ms)
        if wall_ms - since_ms >= _retention_ms(stored.value, settings):
            yield OffsetEntry(group.group_id, *partition, None)


def _retention_ms(value: CommittedOffset, settings: GroupSettings) -> int:
    if value.expire_timestamp_ms != -1:
        return value.expire_timestamp_ms - value.commit_timestamp_ms
    return settings.offsets_retention_ms


def _unused_since(group: Group, value: CommittedOffset) -> int:
    if value.expire_timestamp_ms != -1:
        return value.commit_timestamp_ms
    if isinstance(group, ClassicGroup) and group.protocol_type is not None and group.state is ClassicState.EMPTY:
        return value.commit_timestamp_ms if group.state_timestamp_ms is None else group.state_timestamp_ms
    return value.commit_timestamp_ms
