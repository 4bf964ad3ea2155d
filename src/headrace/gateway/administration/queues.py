"""Queues: share groups (KIP-932), whose members take records one by one, acknowledge each, and get those back that failed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Final

from headrace.client.admin.wire_admin import raise_for
from headrace.client.brokers.cluster import AGAIN_S, COORDINATOR_MOVED, PATIENCE_S
from headrace.gateway.administration.groups import GroupPartition
from headrace.gateway.administration.topics import Setting, SettingValue, moment
from headrace.gateway.administration.wire import change_settings_of, on_the_wire, settings_of
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations
from headrace.gateway.api.paging import PAGE, page
from headrace.gateway.api.shapes import described
from headrace.gateway.serving.problems import not_found
from headrace.model.errors import ErrorCode
from headrace.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from headrace.wire.messages.delete_groups import DeleteGroupsRequest
from headrace.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from headrace.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.messages.share_group_describe import ShareGroupDescribeRequest

operations = Operations("queues")
GROUP_RESOURCE: Final = 32
SHARE: Final = "share"
SOURCES: Final = {5: "default", 8: "group"}


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """A queue as it is listed."""

    name: str
    state: str


@dataclass(frozen=True, slots=True)
class QueuePage:
    """Some queues, and where the next page begins."""

    queues: list[QueueSummary]
    next: str | None


@dataclass(frozen=True, slots=True)
class QueueMember:
    """A member, which topics it wants, and which partitions it works on."""

    id: str
    client_id: str
    host: str
    topics: list[str]
    partitions: list[GroupPartition]


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """How far a queue is in one partition."""

    topic: str
    partition: int
    first_undone: Annotated[int | None, described("The first record that is not done; null before anybody has worked there.")]
    undone: Annotated[int | None, described("How many are not done; null where the broker does not know.")]


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue with its members, and how far it is."""

    name: str
    state: str
    members: list[QueueMember]
    partitions: list[QueuePlace]


@dataclass(frozen=True, slots=True)
class QueueMove:
    """Where a queue without members goes on, in every partition of a topic."""

    topic: Annotated[str, described("The topic.", minLength=1, maxLength=249)]
    to: Annotated[str, described("earliest, latest, or an ISO timestamp.", minLength=1)]


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Every setting of a queue."""

    settings: dict[str, Setting]


@dataclass(frozen=True, slots=True)
class QueueSettingChanges:
    """Settings to change; null takes one back to its default, and what is not named stays."""

    settings: Annotated[
        dict[str, SettingValue], described("Settings by name.", example={"share.record.lock.duration.ms": 60_000})
    ]


@operations.get("/queues", "List queues", query=PAGE, answer=QueuePage)
async def list_queues(call: Call) -> QueuePage:
    request = ListGroupsRequest(states_filter=(), types_filter=(SHARE,))
    found = []
    for broker, reply in (await on_the_wire(call, lambda admin: admin.call_every_broker(request))).items():
        raise_for(reply.error_code, f"listing the groups of broker {broker}")
        found += [QueueSummary(each.group_id, each.group_state) for each in reply.groups]
    shown, following = page(found, call.query, lambda each: each.name)
    return QueuePage(shown, following)


async def _ask(call: Call, group: str, request: Any, code_of: Any) -> Any:
    """What the group's coordinator answers, wherever it is by now."""
    cluster, loop = call.caller.cluster, asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_S
    while True:
        reply = await cluster.call_coordinator(group, request)
        if code_of(reply) not in COORDINATOR_MOVED or loop.time() > deadline:
            return reply
        cluster.forget_coordinator(group)
        await asyncio.sleep(AGAIN_S)


async def _described(call: Call) -> Any:
    name = call.path("queue")
    request = ShareGroupDescribeRequest(group_ids=(name,), include_authorized_operations=False)
    (found,) = (await _ask(call, name, request, lambda reply: reply.groups[0].error_code)).groups
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND or found.group_state == "Dead":
        raise not_found("queue_not_found", "There is no such queue.", "GET /queues lists those there are.")
    raise_for(found.error_code, f"queue '{name}'", found.error_message)
    return found


async def _places(call: Call) -> list[QueuePlace]:
    name = call.path("queue")
    request = DescribeShareGroupOffsetsRequest(groups=(DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None),))
    (found,) = (await _ask(call, name, request, lambda reply: reply.groups[0].error_code)).groups
    raise_for(found.error_code, f"queue '{name}'", found.error_message)
    return [
        QueuePlace(topic.topic_name, each.partition_index, _known(each.start_offset), _known(each.lag))
        for topic in sorted(found.topics, key=lambda topic: str(topic.topic_name))
        for each in sorted(topic.partitions, key=lambda each: int(each.partition_index))
        if each.error_code == ErrorCode.NONE
    ]


def _known(number: int) -> int | None:
    return number if number >= 0 else None


@operations.get("/queues/{queue}", "Show a queue", answer=Queue)
async def show_queue(call: Call) -> Queue:
    found = await _described(call)
    members = [
        QueueMember(
            each.member_id,
            each.client_id,
            each.client_host,
            list(each.subscribed_topic_names),
            [
                GroupPartition(topic.topic_name, index)
                for topic in each.assignment.topic_partitions
                for index in sorted(topic.partitions)
            ],
        )
        for each in found.members
    ]
    return Queue(found.group_id, found.group_state, members, await _places(call))


@operations.delete("/queues/{queue}", "Delete a queue that has no members")
async def delete_queue(call: Call) -> None:
    """The topic stays, with its records; what was done of them is forgotten."""
    name = (await _described(call)).group_id
    reply = await _ask(call, name, DeleteGroupsRequest(groups_names=(name,)), lambda reply: reply.results[0].error_code)
    raise_for(reply.results[0].error_code, f"queue '{name}'")


@operations.patch("/queues/{queue}", "Move a queue that has no members", body=QueueMove, answer=Queue)
async def move_queue(call: Call) -> Queue:
    name, wanted = call.path("queue"), call.body
    offsets = await call.caller.admin.offsets(wanted.topic, moment(wanted.to))
    partitions = tuple(
        AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset) for index, offset in offsets.items()
    )
    request = AlterShareGroupOffsetsRequest(
        group_id=name, topics=(AlterShareGroupOffsetsRequestTopic(topic_name=wanted.topic, partitions=partitions),)
    )
    reply = await _ask(call, name, request, lambda reply: reply.error_code)
    raise_for(reply.error_code, f"queue '{name}'", reply.error_message)
    for topic in reply.responses:
        for each in topic.partitions:
            raise_for(each.error_code, f"partition {each.partition_index} of topic '{topic.topic_name}'", each.error_message)
    return await show_queue(call)


@operations.delete("/queues/{queue}/topics/{topic}", "Have a queue without members forget a topic")
async def forget_topic(call: Call) -> None:
    name, topic = call.path("queue"), call.path("topic")
    request = DeleteShareGroupOffsetsRequest(group_id=name, topics=(DeleteShareGroupOffsetsRequestTopic(topic_name=topic),))
    reply = await _ask(call, name, request, lambda reply: reply.error_code)
    raise_for(reply.error_code, f"queue '{name}'", reply.error_message)
    for each in reply.responses:
        raise_for(each.error_code, f"topic '{each.topic_name}'", each.error_message)


@operations.get("/queues/{queue}/settings", "Show a queue's settings", answer=QueueSettings)
async def show_queue_settings(call: Call) -> QueueSettings:
    """They may be set before the queue is there."""
    return QueueSettings(
        {
            each.name: Setting(each.value, SOURCES.get(each.config_source, "group"), each.config_source == 5, each.read_only)
            for each in await settings_of(call, GROUP_RESOURCE, call.path("queue"))
        }
    )


@operations.patch("/queues/{queue}/settings", "Change a queue's settings", body=QueueSettingChanges, answer=QueueSettings)
async def change_queue_settings(call: Call) -> QueueSettings:
    changes = {name: None if value is None else _text(value) for name, value in call.body.settings.items()}
    if changes:
        await change_settings_of(call, GROUP_RESOURCE, call.path("queue"), changes)
    return await show_queue_settings(call)


def _text(value: SettingValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
