"""A group's offsets, read and set by somebody who is no member of it.

The coordinator takes them only while the group has no members: whoever reads in a group's name here does not do so beside others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from headrace.client.admin.wire_admin import raise_for
from headrace.client.brokers.cluster import AGAIN_S, COORDINATOR_MOVED, PATIENCE_S
from headrace.model.errors import ErrorCode
from headrace.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

if TYPE_CHECKING:
    from headrace.client.brokers.cluster import Cluster

VERSION_MAX: Final = 9  # the newest that names topics


async def committed(cluster: Cluster, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """What the group has committed; partitions without anything are left out."""
    notes = await committed_notes(cluster, group, topic, partitions)
    return {partition: offset for partition, (offset, _) in notes.items()}


async def committed_notes(
    cluster: Cluster, group: str, topic: str, partitions: Iterable[int]
) -> dict[int, tuple[int, str | None]]:
    """The same, with what was noted beside each offset."""
    indexes = tuple(partitions)
    request = OffsetFetchRequest(
        group_id=group,
        topics=(OffsetFetchRequestTopic(name=topic, partition_indexes=indexes),),
        groups=(
            OffsetFetchRequestGroup(group_id=group, topics=(OffsetFetchRequestTopics(name=topic, partition_indexes=indexes),)),
        ),
    )
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_S
    while True:
        reply = await cluster.call_coordinator(group, request, version_max=VERSION_MAX)
        # From version 8 on a request names several groups and its reply has a list; before it, one each.
        found = reply.groups[0] if reply.groups else reply
        codes = {found.error_code, *(each.error_code for answered in found.topics for each in answered.partitions)}
        if not codes & COORDINATOR_MOVED or loop.time() > deadline:
            break
        cluster.forget_coordinator(group)
        await asyncio.sleep(AGAIN_S)
    for code in codes:
        raise_for(code, f"the offsets of group '{group}'")
    return {
        each.partition_index: (each.committed_offset, each.metadata)
        for answered in found.topics
        for each in answered.partitions
        if each.committed_offset >= 0
    }


async def commit(cluster: Cluster, group: str, topic: str, offsets: Mapping[int, int], note: str = "") -> None:
    """Set offsets of a group that has no members, with a note beside each."""
    asked = tuple(
        OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata=note)
        for partition, offset in offsets.items()
    )
    request = OffsetCommitRequest(group_id=group, topics=(OffsetCommitRequestTopic(name=topic, partitions=asked),))
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_S
    while True:
        reply = await cluster.call_coordinator(group, request, version_max=VERSION_MAX)
        codes = {each.error_code for answered in reply.topics for each in answered.partitions} - {ErrorCode.NONE}
        if not codes & COORDINATOR_MOVED or loop.time() > deadline:
            break
        cluster.forget_coordinator(group)
        await asyncio.sleep(AGAIN_S)
    for code in codes:
        raise_for(code, f"the offsets of group '{group}'")
