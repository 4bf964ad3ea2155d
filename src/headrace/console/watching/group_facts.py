"""Groups of every kind as the brokers tell them: who is in them, what each member holds, and how far they are."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.client.admin.wire_admin import raise_for
from headrace.client.brokers.cluster import COORDINATOR_MOVED, Cluster
from headrace.client.errors import HeadraceError
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from headrace.wire.messages.share_group_describe import ShareGroupDescribeRequest

NAMED_TOPICS_VERSION_MAX: Final = 9  # the newest OffsetFetch that names topics
AGAIN: Final = 3
NO_RIGHTS_KNOWN: Final = -(2**31)


@dataclass(slots=True)
class Member:
    """`wanted` is what a member of the new protocol shall hold, where that differs from what it holds."""

    id: str
    client_id: str
    host: str
    instance_id: str | None = None
    epoch: int | None = None
    holds: list[TopicPartition] = field(default_factory=list)
    wanted: list[TopicPartition] | None = None


@dataclass(slots=True)
class Group:
    """`kind` is classic, consumer (KIP-848) or share (KIP-932)."""

    name: str
    kind: str
    state: str
    assignor: str = ""
    epoch: int | None = None
    members: list[Member] = field(default_factory=list)
    rights: int = NO_RIGHTS_KNOWN


async def listed_groups(cluster: Cluster, brokers: list[int]) -> list[Group]:
    """All groups of the cluster that may be seen, by name."""
    replies = await asyncio.gather(*(cluster.call(ListGroupsRequest(), broker=broker) for broker in brokers))
    found = {
        each.group_id: Group(each.group_id, each.group_type.lower() or "classic", _words(each.group_state))
        for reply in replies
        for each in reply.groups
    }
    return [found[name] for name in sorted(found)]


async def described_group(cluster: Cluster, name: str, kind: str) -> Group:
    """A group with its members."""
    match kind:
        case "consumer":
            request: Any = ConsumerGroupDescribeRequest(group_ids=(name,), include_authorized_operations=True)
        case "share":
            request = ShareGroupDescribeRequest(group_ids=(name,), include_authorized_operations=True)
        case _:
            request = DescribeGroupsRequest(groups=(name,), include_authorized_operations=True)
    reply = await _ask_coordinator(cluster, name, request, lambda reply: reply.groups[0].error_code)
    (told,) = reply.groups
    raise_for(told.error_code, f"group '{name}'", getattr(told, "error_message", None))
    if kind not in ("consumer", "share"):
        members = [_classic_member(each) for each in told.members]
        return Group(name, "classic", _words(told.group_state), told.protocol_data, None, members, told.authorized_operations)
    members = [_member(each) for each in told.members]
    return Group(name, kind, _words(told.group_state), told.assignor_name, told.group_epoch, members, told.authorized_operations)


async def committed_offsets(cluster: Cluster, name: str) -> dict[TopicPartition, int]:
    """What a group of consumers has committed."""
    request = OffsetFetchRequest(group_id=name, topics=None, groups=(OffsetFetchRequestGroup(group_id=name, topics=None),))
    reply = await _ask_coordinator(
        cluster, name, request, lambda reply: (reply.groups[0] if reply.groups else reply).error_code, NAMED_TOPICS_VERSION_MAX
    )
    told = reply.groups[0] if reply.groups else reply
    raise_for(told.error_code, f"the offsets of group '{name}'")
    return {
        TopicPartition(topic.name, each.partition_index): each.committed_offset
        for topic in told.topics
        for each in topic.partitions
        if each.committed_offset >= 0 and not each.error_code
    }


async def share_offsets(cluster: Cluster, name: str) -> dict[TopicPartition, tuple[int, int]]:
    """Where a share group is in each partition, and how many records it has not done; -1 where that is not known."""
    request = DescribeShareGroupOffsetsRequest(groups=(DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None),))
    reply = await _ask_coordinator(cluster, name, request, lambda reply: reply.groups[0].error_code)
    (told,) = reply.groups
    raise_for(told.error_code, f"the offsets of share group '{name}'", told.error_message)
    return {
        TopicPartition(topic.topic_name, each.partition_index): (each.start_offset, each.lag)
        for topic in told.topics
        for each in topic.partitions
        if not each.error_code
    }


async def offsets_and_lags(
    cluster: Cluster, group: Group, ends: dict[TopicPartition, int]
) -> dict[TopicPartition, tuple[int, int | None]]:
    """The offset and the lag of a group in each partition that it has an offset in; nothing where it may not be asked."""
    try:
        if group.kind == "share":
            told = await share_offsets(cluster, group.name)
            return {place: (start, lag if lag >= 0 else _lag(ends.get(place), start)) for place, (start, lag) in told.items()}
        committed = await committed_offsets(cluster, group.name)
    except HeadraceError:
        return {}
    return {place: (offset, _lag(ends.get(place), offset)) for place, offset in committed.items()}


def _lag(end: int | None, offset: int) -> int | None:
    return None if end is None else max(0, end - max(0, offset))


async def _ask_coordinator(cluster: Cluster, name: str, request: Any, code_of: Any, version_max: int | None = None) -> Any:
    """Coordinators move: whoever was asked in vain is forgotten, and the new one is looked for."""
    for attempt in range(AGAIN):
        reply = await cluster.call_coordinator(name, request, version_max=version_max)
        if code_of(reply) not in COORDINATOR_MOVED or attempt == AGAIN - 1:
            break
        cluster.forget_coordinator(name)
        await asyncio.sleep(0.1 * (attempt + 1))
    return reply


def _words(state: str) -> str:
    """PreparingRebalance becomes `preparing rebalance`."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in state).strip()


def _member(told: Any) -> Member:
    holds = _places(told.assignment)
    target = getattr(told, "target_assignment", None)
    wanted = None if target is None or _places(target) == holds else _places(target)
    return Member(
        told.member_id, told.client_id, told.client_host, getattr(told, "instance_id", None), told.member_epoch, holds, wanted
    )


def _places(assignment: Any) -> list[TopicPartition]:
    return sorted(TopicPartition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions)


def _classic_member(told: Any) -> Member:
    return Member(
        told.member_id,
        told.client_id,
        told.client_host,
        told.group_instance_id,
        None,
        read_assignment(bytes(told.member_assignment)),
    )


def read_assignment(data: bytes) -> list[TopicPartition]:
    """What a member of a classic group of consumers holds.  Others may use the protocol for other things: nothing, then."""
    found: list[TopicPartition] = []
    try:
        (topics,) = struct.unpack_from(">i", data, 2)
        at = 6
        for _ in range(topics):
            (length,) = struct.unpack_from(">h", data, at)
            name = data[at + 2 : at + 2 + length].decode()
            at += 2 + length
            (count,) = struct.unpack_from(">i", data, at)
            found += [TopicPartition(name, index) for index in struct.unpack_from(f">{count}i", data, at + 4)]
            at += 4 + 4 * count
    except (struct.error, UnicodeDecodeError, ValueError):
        return []
    return sorted(found)


def is_unknown(error: HeadraceError) -> bool:
    return getattr(error, "code", None) in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_MEMBER_ID)
