"""Topics, their partitions and their settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from headrace.client.admin.descriptions import TopicDescription
from headrace.client.brokers.cluster import EARLIEST, LATEST
from headrace.client.positions import parse_position
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations, Parameter, Reply
from headrace.gateway.api.paging import PAGE, page
from headrace.gateway.api.shapes import described
from headrace.gateway.serving.problems import bad_request
from headrace.model.identity import TopicPartition

operations = Operations("topics")

SettingValue = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be."""

    name: Annotated[str, described("1 to 249 letters, digits, `.`, `_` and `-`.", minLength=1, maxLength=249, example="orders")]
    partitions: Annotated[int | None, described("How many; the cluster's default when left out.", minimum=1, maximum=100_000)] = (
        None
    )
    replication: Annotated[
        int | None, described("Copies of each; the cluster's default when left out.", minimum=1, maximum=100)
    ] = None
    settings: Annotated[dict[str, SettingValue], described("Settings by name.", example={"retention.ms": 86_400_000})] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is listed."""

    name: str
    id: str
    partitions: int
    replication: int
    internal: bool
    under_replicated: Annotated[int, described("Partitions with fewer in-sync replicas than replicas.")]


@dataclass(frozen=True, slots=True)
class TopicPage:
    """Some topics, and where the next page begins."""

    topics: list[Topic]
    next: str | None


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition, with the first offset that is there and the next one that will be."""

    partition: int
    leader: int | None
    replicas: list[int]
    in_sync: list[int]
    first_offset: int | None = None
    next_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Partitions:
    """All partitions of a topic."""

    topic: str
    partitions: list[Partition]


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """How many partitions a topic shall have."""

    partitions: Annotated[
        int, described("The total.  Keys move: the partition of a key depends on it.", minimum=1, maximum=100_000)
    ]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, and who set it."""

    value: str | None
    source: Annotated[str, described("`topic`, `broker`, `cluster` or `default`.")]
    is_default: bool
    read_only: bool


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting of a topic."""

    settings: dict[str, Setting]


@dataclass(frozen=True, slots=True)
class SettingChanges:
    """Settings to change; null takes one back to its default, and what is not named stays."""

    settings: dict[str, SettingValue]


@dataclass(frozen=True, slots=True)
class Offsets:
    """An offset for each partition."""

    topic: str
    offsets: dict[str, int]


@dataclass(frozen=True, slots=True)
class FirstOffset:
    """The first offset that is left."""

    first_offset: int


def _topic(found: TopicDescription) -> Topic:
    return Topic(
        found.name,
        str(found.id),
        len(found.partitions),
        max((len(each.replicas) for each in found.partitions), default=0),
        found.internal,
        sum(len(each.in_sync) < len(each.replicas) for each in found.partitions),
    )


INTERNAL = Parameter("internal", "Whether to list the cluster's own topics, too.", "boolean", default=False)
PREFIX = Parameter("prefix", "Only topics whose names begin so.")


@operations.get("/topics", "List topics", query=(*PAGE, INTERNAL, PREFIX), answer=TopicPage)
async def list_topics(call: Call) -> TopicPage:
    names = [name for name in await call.caller.admin.topic_names() if call.query["internal"] or not name.startswith("__")]
    wanted = [name for name in names if name.startswith(call.query["prefix"] or "")]
    shown, following = page(wanted, call.query)
    found = await call.caller.admin.topics(shown, internal=True)
    return TopicPage([_topic(found[name]) for name in shown if name in found], following)


@operations.post("/topics", "Make a topic", body=NewTopic, answer=Topic, status=201)
async def create_topic(call: Call) -> Reply:
    wanted: NewTopic = call.body
    admin = call.caller.admin
    await admin.create_topic(
        wanted.name, partitions=wanted.partitions, replication=wanted.replication, settings=_given(wanted.settings)
    )
    call.caller.cluster.forget(wanted.name)
    return Reply(_topic(await admin.topic(wanted.name)), headers={"Location": f"/topics/{wanted.name}"})


def _given(settings: dict[str, SettingValue]) -> dict[str, object]:
    missing = [name for name, value in settings.items() if value is None]
    if missing:
        raise bad_request("A setting of a new topic is null; leave it out for its default.")
    return dict(settings)


@operations.get("/topics/{topic}", "Show a topic", answer=Topic)
async def show_topic(call: Call) -> Topic:
    return _topic(await call.caller.admin.topic(call.path("topic")))


@operations.patch("/topics/{topic}", "Add partitions", body=MorePartitions, answer=Topic)
async def add_partitions(call: Call) -> Topic:
    wanted: MorePartitions = call.body
    await call.caller.admin.add_partitions(call.path("topic"), wanted.partitions)
    call.caller.cluster.forget(call.path("topic"))
    return _topic(await call.caller.admin.topic(call.path("topic")))


@operations.delete("/topics/{topic}", "Delete a topic with all its records")
async def delete_topic(call: Call) -> None:
    await call.caller.admin.delete_topic(call.path("topic"))
    call.caller.cluster.forget(call.path("topic"))


@operations.get("/topics/{topic}/partitions", "Show partitions with their offsets", answer=Partitions)
async def show_partitions(call: Call) -> Partitions:
    name = call.path("topic")
    found = await call.caller.admin.topic(name)
    led = [each.index for each in found.partitions if each.leader is not None]
    first = await call.caller.cluster.offsets(name, EARLIEST, partitions=led)
    following = await call.caller.cluster.offsets(name, LATEST, partitions=led)
    return Partitions(
        name,
        [
            Partition(each.index, each.leader, each.replicas, each.in_sync, first.get(each.index), following.get(each.index))
            for each in found.partitions
        ],
    )


BEFORE = Parameter("before", "Delete what is below this offset; all there is when left out.", "number")


@operations.delete(
    "/topics/{topic}/partitions/{partition}/records", "Delete the oldest records", query=(BEFORE,), answer=FirstOffset
)
async def delete_records(call: Call) -> FirstOffset:
    partition = call.number("partition")
    await call.caller.cluster.leader(TopicPartition(call.path("topic"), partition))  # which says so where it is not there
    found = await call.caller.admin.delete_records(call.path("topic"), {partition: call.query["before"]})
    return FirstOffset(found[partition])


@operations.get("/topics/{topic}/settings", "Show settings", answer=Settings)
async def show_settings(call: Call) -> Settings:
    found = await call.caller.admin.settings(call.path("topic"))
    return Settings({name: Setting(each.value, each.source, each.is_default, each.read_only) for name, each in found.items()})


@operations.patch("/topics/{topic}/settings", "Change some settings", body=SettingChanges, answer=Settings)
async def change_settings(call: Call) -> Settings:
    wanted: SettingChanges = call.body
    if wanted.settings:
        await call.caller.admin.change_settings(call.path("topic"), wanted.settings)
    return await show_settings(call)


AT = Parameter("at", "earliest, latest, or an ISO timestamp.", default="latest")


@operations.get("/topics/{topic}/offsets", "Find offsets by time", query=(AT,), answer=Offsets)
async def find_offsets(call: Call) -> Offsets:
    found = await call.caller.admin.offsets(call.path("topic"), moment(call.query["at"]))
    return Offsets(call.path("topic"), {str(partition): offset for partition, offset in sorted(found.items())})


def moment(text: str) -> Any:
    """earliest, latest, or milliseconds of an ISO timestamp."""
    position = parse_position(text)
    if position.kind == "offset":
        raise bad_request("That is a number; give earliest, latest, or an ISO timestamp such as 2026-05-01T12:00:00Z.")
    return position.number if position.kind == "time" else position.kind
