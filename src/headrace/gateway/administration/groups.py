"""Consumer groups: members, offsets and lag."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from headrace.client.admin.descriptions import GroupDescription
from headrace.gateway.administration.topics import moment
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations
from headrace.gateway.api.paging import PAGE, page
from headrace.gateway.api.shapes import described
from headrace.gateway.serving.problems import bad_request
from headrace.model.identity import TopicPartition

operations = Operations("groups")


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A group as it is listed."""

    name: str
    state: str
    protocol: str


@dataclass(frozen=True, slots=True)
class GroupPage:
    """Some groups, and where the next page begins."""

    groups: list[GroupSummary]
    next: str | None


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """One partition of a topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member, and what it reads."""

    id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: list[GroupPartition]


@dataclass(frozen=True, slots=True)
class Group:
    """A group with its members."""

    name: str
    state: str
    protocol: str
    assignor: str
    coordinator: int | None
    members: list[GroupMember]


@dataclass(frozen=True, slots=True)
class PlaceLag:
    """How far a group is in one partition; `offset` is null where it has committed nothing."""

    topic: str
    partition: int
    offset: int | None
    lag: int


@dataclass(frozen=True, slots=True)
class Lag:
    """How much a group has yet to read."""

    group: str
    total: int
    partitions: list[PlaceLag]


@dataclass(frozen=True, slots=True)
class PlaceOffset:
    """An offset of a group in one partition."""

    topic: Annotated[str, described("The topic.", minLength=1, maxLength=249)]
    partition: Annotated[int, described("The partition.", minimum=0, maximum=2**31 - 1)]
    offset: Annotated[int, described("The next offset to read.", minimum=0)]


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """What a group has committed."""

    offsets: list[PlaceOffset]


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """Offsets to set one by one, or a topic and where in it to go."""

    offsets: Annotated[list[PlaceOffset], described("Offsets by partition.")] = field(default_factory=list)
    topic: Annotated[str | None, described("Instead: every partition of this topic …", minLength=1)] = None
    to: Annotated[str | None, described("… to earliest, latest, or an ISO timestamp.", minLength=1)] = None


@operations.get("/groups", "List groups", query=PAGE, answer=GroupPage)
async def list_groups(call: Call) -> GroupPage:
    found = await call.caller.admin.group_listings()
    shown, following = page(found, call.query, lambda each: each.name)
    return GroupPage([GroupSummary(each.name, each.state, each.protocol) for each in shown], following)


@operations.get("/groups/{group}", "Show a group", answer=Group)
async def show_group(call: Call) -> Group:
    return _group(await call.caller.admin.group(call.path("group")))


def _group(found: GroupDescription) -> Group:
    members = [
        GroupMember(
            each.id,
            each.client_id,
            each.host,
            each.instance_id,
            [GroupPartition(place.topic, place.partition) for place in each.partitions],
        )
        for each in found.members
    ]
    return Group(found.name, found.state, found.protocol, found.assignor, found.coordinator, members)


@operations.delete("/groups/{group}", "Delete a group that has no members")
async def delete_group(call: Call) -> None:
    await call.caller.admin.delete_group(call.path("group"))


@operations.get("/groups/{group}/lag", "Show how much is yet to be read", answer=Lag)
async def show_lag(call: Call) -> Lag:
    name = call.path("group")
    lags = await call.caller.admin.lag(name)
    committed = await call.caller.admin.committed(name)
    each = [PlaceLag(place.topic, place.partition, committed.get(place), lag) for place, lag in lags.items()]
    return Lag(name, sum(lags.values()), each)


@operations.get("/groups/{group}/offsets", "Show what is committed", answer=GroupOffsets)
async def show_offsets(call: Call) -> GroupOffsets:
    found = await call.caller.admin.committed(call.path("group"))
    return GroupOffsets([PlaceOffset(place.topic, place.partition, offset) for place, offset in sorted(found.items())])


@operations.patch("/groups/{group}/offsets", "Move a group that has no members", body=OffsetMove, answer=GroupOffsets)
async def move_offsets(call: Call) -> GroupOffsets:
    wanted: OffsetMove = call.body
    admin, group = call.caller.admin, call.path("group")
    if wanted.topic is not None and wanted.to is not None and not wanted.offsets:
        await admin.reset_offsets(group, wanted.topic, moment(wanted.to))
    elif wanted.offsets and wanted.topic is None and wanted.to is None:
        await admin.set_offsets(group, {TopicPartition(each.topic, each.partition): each.offset for each in wanted.offsets})
    else:
        raise bad_request("Give offsets, or topic and to; not both.")
    return await show_offsets(call)
