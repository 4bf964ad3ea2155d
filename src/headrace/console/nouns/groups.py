"""Groups of every kind: members and what they hold, lag, and moving them, with what would happen shown before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from aiohttp import web

from headrace.client.admin.wire_admin import raise_for
from headrace.client.brokers.cluster import EARLIEST, LATEST, Cluster
from headrace.client.errors import BrokerError, GroupNotFound
from headrace.client.positions import Position, parse_position
from headrace.console.nouns.rights import rights_of
from headrace.console.nouns.visible import view_of
from headrace.console.serving.packing import packed
from headrace.console.watching.ends import ends_of
from headrace.console.watching.group_facts import Member, described_group, is_unknown, listed_groups, offsets_and_lags
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations
from headrace.gateway.api.shapes import described
from headrace.gateway.serving.problems import Problem, bad_request
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)

operations = Operations("console groups")


@dataclass(frozen=True, slots=True)
class Reset:
    """Where a group shall go on: in some topics, or in all that it has offsets in."""

    topics: Annotated[list[str], described("Topics; none means all that the group has offsets in.")]
    to: Annotated[str | None, described("earliest, latest, an offset, or an ISO timestamp.", maxLength=64)] = None
    by: Annotated[int | None, described("Instead: so many records on, or back.", minimum=-(2**62), maximum=2**62)] = None


@dataclass(frozen=True, slots=True)
class NewOffset:
    """Where a share group goes on in one partition."""

    topic: Annotated[str, described("The topic.", minLength=1, maxLength=249)]
    partition: Annotated[int, described("The partition.", minimum=0)]
    offset: Annotated[int, described("The offset.", minimum=0)]


@dataclass(frozen=True, slots=True)
class NewOffsets:
    """As a plan gave them."""

    offsets: Annotated[list[NewOffset], described("Offsets by partition.", minItems=1, maxItems=100_000)]


@operations.get("/console/api/groups", "All groups", listed=False)
async def list_groups(call: Call) -> web.Response:
    view = await view_of(call)
    rows = [
        (
            group.name,
            group.kind,
            group.state,
            group.lag,
            len(group.topics),
            max(group.topics, key=lambda n: group.topics[n], default=None),
        )
        for group in view.snapshot.groups.values()
    ]
    columns = ("name", "kind", "state", "lag", "topics", "worst")
    return await packed(call.request, {"at": view.snapshot.at, "columns": columns, "rows": rows})


@operations.get("/console/api/groups/{group}", "One group", listed=False)
async def show_group(call: Call) -> web.Response:
    name, cluster = call.path("group"), call.caller.cluster
    kind = await _kind_of(cluster, name)
    try:
        group = await described_group(cluster, name, kind)
    except BrokerError as error:
        if is_unknown(error):
            raise GroupNotFound(f"there is no group '{name}'", code=error.code, name=error.name) from None
        raise
    places = await _places(cluster, group)
    owners = {place: member.id for member in group.members for place in member.holds} if kind != "share" else {}
    partitions = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "offset": offset,
            "end": end,
            "lag": lag,
            "member": owners.get(place),
        }
        for place, (offset, end, lag) in sorted(places.items())
    ]
    return await packed(
        call.request,
        {
            "name": name,
            "kind": group.kind,
            "state": group.state,
            "assignor": group.assignor,
            "epoch": group.epoch,
            "rights": rights_of(group.rights),
            "members": [_member(each) for each in group.members],
            "partitions": partitions,
            "lag": sum(each["lag"] for each in partitions if isinstance(each["lag"], int)),
        },
    )


def _member(member: Member) -> dict[str, Any]:
    return {
        "id": member.id,
        "client_id": member.client_id,
        "host": member.host.removeprefix("/"),
        "instance_id": member.instance_id,
        "epoch": member.epoch,
        "holds": [[place.topic, place.partition] for place in member.holds],
        "wanted": None if member.wanted is None else [[place.topic, place.partition] for place in member.wanted],
    }


async def _kind_of(cluster: Cluster, name: str) -> str:
    brokers = await _brokers(cluster)
    for group in await listed_groups(cluster, brokers):
        if group.name == name:
            return group.kind
    raise GroupNotFound(f"there is no group '{name}'", code=ErrorCode.GROUP_ID_NOT_FOUND, name="GROUP_ID_NOT_FOUND")


async def _brokers(cluster: Cluster) -> list[int]:
    from headrace.wire.messages.metadata import MetadataRequest

    return [each.node_id for each in (await cluster.call(MetadataRequest(topics=()))).brokers]


async def _places(cluster: Cluster, group: Any) -> dict[TopicPartition, tuple[int | None, int | None, int | None]]:
    """Offset, end and lag of each partition that the group has an offset in, or that a member holds."""
    committed = await offsets_and_lags(cluster, group, {})
    held = {place for member in group.members for place in member.holds}
    leaders = {place: await _leader(cluster, place) for place in {*committed, *held}}
    ends = await ends_of(cluster, leaders, LATEST)
    found: dict[TopicPartition, tuple[int | None, int | None, int | None]] = {}
    for place in leaders:
        offset, lag = committed.get(place, (None, None))
        if lag is None and offset is not None and place in ends:
            lag = max(0, ends[place] - max(0, offset))
        found[place] = (offset, ends.get(place), lag)
    return found


async def _leader(cluster: Cluster, place: TopicPartition) -> int:
    try:
        return (await cluster.leaders(place.topic)).get(place.partition, -1)
    except BrokerError:
        return -1  # the topic is gone, and the group's offset of it is not yet


@operations.post("/console/api/groups/{group}/plans", "What a reset would do", body=Reset, listed=False)
async def plan_reset(call: Call) -> dict[str, Any]:
    """Changes nothing.  New offsets never lie outside of what a partition holds."""
    name, cluster, wanted = call.path("group"), call.caller.cluster, call.body
    if (wanted.to is None) == (wanted.by is None):
        raise bad_request("Give a place, or a number of records to shift by.", "Choose one of them.")
    group = await described_group(cluster, name, await _kind_of(cluster, name))
    if group.members:
        raise Problem(
            409, "group_has_members", f"The group has {len(group.members)} member(s) at work.", "Stop them, then reset the group."
        )
    committed = {place: offset for place, (offset, _) in (await offsets_and_lags(cluster, group, {})).items()}
    places = await _chosen(cluster, wanted.topics, committed)
    if not places:
        raise bad_request("The group has no offsets.", "Name a topic.")
    targets = await _targets(cluster, places, committed, wanted)
    rows = [
        {"topic": place.topic, "partition": place.partition, "from": committed.get(place), "to": target}
        for place, target in sorted(targets.items())
    ]
    return {"group": name, "kind": group.kind, "partitions": rows}


async def _chosen(cluster: Cluster, topics: list[str], committed: dict[TopicPartition, int]) -> list[TopicPartition]:
    if not topics:
        return list(committed)
    return [TopicPartition(topic, partition) for topic in topics for partition in await cluster.leaders(topic)]


async def _targets(
    cluster: Cluster, places: list[TopicPartition], committed: dict[TopicPartition, int], wanted: Reset
) -> dict[TopicPartition, int]:
    leaders = {place: await _leader(cluster, place) for place in places}
    firsts, ends = await ends_of(cluster, leaders, EARLIEST), await ends_of(cluster, leaders, LATEST)
    if wanted.to is not None:
        targets = await _at(cluster, parse_position(wanted.to), leaders, firsts, ends)
    else:
        targets = {place: committed[place] + (wanted.by or 0) for place in places if place in committed}
    return {
        place: min(max(offset, firsts[place]), ends[place])
        for place, offset in targets.items()
        if place in firsts and place in ends
    }


async def _at(
    cluster: Cluster,
    position: Position,
    leaders: dict[TopicPartition, int],
    firsts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    match position.kind:
        case "earliest":
            return firsts
        case "latest":
            return ends
        case "offset":
            return dict.fromkeys(leaders, position.number)
    found = await ends_of(cluster, leaders, position.number)
    return {place: offset if offset >= 0 else ends[place] for place, offset in found.items() if place in ends}


@operations.patch("/console/api/share-groups/{group}/offsets", "Move a share group", body=NewOffsets, listed=False)
async def move_share_group(call: Call) -> dict[str, Any]:
    name, wanted = call.path("group"), call.body
    by_topic: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for each in wanted.offsets:
        asked = AlterShareGroupOffsetsRequestPartition(partition_index=each.partition, start_offset=each.offset)
        by_topic.setdefault(each.topic, []).append(asked)
    request = AlterShareGroupOffsetsRequest(
        group_id=name,
        topics=tuple(
            AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=tuple(each)) for topic, each in by_topic.items()
        ),
    )
    reply = await call.caller.cluster.call_coordinator(name, request)
    raise_for(reply.error_code, f"share group '{name}'", reply.error_message)
    for topic in reply.responses:
        for each in topic.partitions:
            raise_for(each.error_code, f"partition {each.partition_index} of '{topic.topic_name}'", each.error_message)
    return {"moved": len(wanted.offsets)}
