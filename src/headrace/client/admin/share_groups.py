"""Share groups: which there are, on which topics, and where they go on."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.client.admin.wire_admin import WireAdmin, raise_for
from headrace.model.errors import ErrorCode
from headrace.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from headrace.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.messages.share_group_describe import ShareGroupDescribeRequest


def share_groups(wire: WireAdmin) -> dict[str, str]:
    """The state of each."""
    replies = wire.call_every_broker(ListGroupsRequest(types_filter=("share",)))
    found: dict[str, str] = {}
    for reply in replies.values():
        raise_for(reply.error_code, "the list of groups")
        found |= {each.group_id: each.group_state for each in reply.groups if each.group_type == "share"}
    return dict(sorted(found.items()))


def topics_of(wire: WireAdmin, group: str) -> list[str]:
    """The topics that a group works on, or has worked on."""
    request = DescribeShareGroupOffsetsRequest(groups=(DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None),))
    (found,) = wire.call_coordinator(request, group, "group").groups
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return []
    raise_for(found.error_code, f"group '{group}'", found.error_message)
    return sorted(each.topic_name for each in found.topics)


def member_count(wire: WireAdmin, group: str) -> int:
    """How many work in it just now."""
    (found,) = wire.call_coordinator(
        ShareGroupDescribeRequest(group_ids=(group,), include_authorized_operations=False), group, "group"
    ).groups
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return 0
    raise_for(found.error_code, f"group '{group}'", found.error_message)
    return len(found.members)


def set_share_offsets(wire: WireAdmin, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Where a group without members goes on."""
    partitions = tuple(
        AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
        for partition, offset in offsets.items()
    )
    topics = (AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions),)
    reply = wire.call_coordinator(AlterShareGroupOffsetsRequest(group_id=group, topics=topics), group, "group")
    raise_for(reply.error_code, f"group '{group}'", reply.error_message)
    for answer in (each for found in reply.responses for each in found.partitions):
        raise_for(answer.error_code, f"partition {answer.partition_index} of '{topic}'", answer.error_message)
