"""The cluster, its brokers, and replicas on the move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from headrace.client.admin.wire_admin import raise_for
from headrace.gateway.administration.topics import Setting
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations
from headrace.gateway.api.paging import PAGE, page
from headrace.gateway.api.shapes import described
from headrace.gateway.serving.problems import not_found
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest

operations = Operations("cluster")
BROKER_RESOURCE = 4
SOURCES = {1: "topic", 2: "broker", 3: "cluster", 4: "broker", 5: "default"}


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that is up."""

    id: int
    host: str
    port: int
    rack: str | None
    is_controller: bool


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers that are up."""

    cluster: str
    brokers: list[Broker]


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The settings of a broker; secrets have no value here."""

    settings: dict[str, Setting]


@dataclass(frozen=True, slots=True)
class Move:
    """A partition whose replicas are on their way."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


@dataclass(frozen=True, slots=True)
class MovePage:
    """Some of what is on its way, and where the next page begins."""

    moves: list[Move]
    next: str | None


@dataclass(frozen=True, slots=True)
class NewMove:
    """Where a partition's replicas shall be; the first one leads when it can."""

    topic: Annotated[str, described("The topic.", minLength=1, maxLength=249)]
    partition: Annotated[int, described("The partition.", minimum=0, maximum=2**31 - 1)]
    replicas: Annotated[list[int], described("Ids of brokers.", minItems=1, maxItems=100)]


@operations.get("/brokers", "List brokers", answer=Brokers)
async def list_brokers(call: Call) -> Brokers:
    found = await call.caller.admin.cluster()
    return Brokers(
        found.id, [Broker(each.id, each.host, each.port, each.rack, each.id == found.controller) for each in found.brokers]
    )


@operations.get("/brokers/{broker}", "Show a broker", answer=Broker)
async def show_broker(call: Call) -> Broker:
    number = call.number("broker")
    for broker in (await list_brokers(call)).brokers:
        if broker.id == number:
            return broker
    raise not_found("broker_not_found", "There is no such broker, or it is not up.", "GET /brokers lists those that are up.")


@operations.delete("/brokers/{broker}", "Forget a broker that is gone for good")
async def forget_broker(call: Call) -> None:
    """It has to be stopped, and to hold nothing: move its replicas first."""
    number = call.number("broker")
    if number > 2**31 - 1:
        raise not_found("broker_not_found", "There is no such broker.", "GET /brokers lists those that are up.")
    reply = await call.caller.cluster.call_controller(UnregisterBrokerRequest(broker_id=number))
    raise_for(reply.error_code, f"broker {number}", reply.error_message)


@operations.get("/brokers/{broker}/settings", "Show a broker's settings", answer=BrokerSettings)
async def show_broker_settings(call: Call) -> BrokerSettings:
    broker = await show_broker(call)
    resource = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name=str(broker.id), configuration_keys=None)
    reply = await call.caller.cluster.call(DescribeConfigsRequest(resources=(resource,)), broker=broker.id)
    (found,) = reply.results
    raise_for(found.error_code, f"the settings of broker {broker.id}", found.error_message)
    return BrokerSettings(
        {
            each.name: Setting(
                None if each.is_sensitive else each.value,
                SOURCES.get(each.config_source, "unknown"),
                each.config_source == 5,
                each.read_only,
            )
            for each in sorted(found.configs, key=lambda each: str(each.name))
        }
    )


@operations.get("/moves", "List replicas on the move", query=PAGE, answer=MovePage)
async def list_moves(call: Call) -> MovePage:
    reply = await call.caller.cluster.call(ListPartitionReassignmentsRequest(topics=None))
    raise_for(reply.error_code, "the moves", reply.error_message)
    found = [
        Move(topic.name, each.partition_index, list(each.replicas), list(each.adding_replicas), list(each.removing_replicas))
        for topic in reply.topics
        for each in topic.partitions
    ]
    return MovePage(*page(found, call.query, lambda each: f"{each.topic} {each.partition:010}"))


@operations.post("/moves", "Move a partition's replicas", body=NewMove, status=202)
async def begin_move(call: Call) -> None:
    """The brokers copy the partition in their own time; GET /moves shows what is still on its way."""
    wanted: NewMove = call.body
    await _reassign(call, wanted.topic, wanted.partition, tuple(wanted.replicas))


@operations.delete("/moves/{topic}/{partition}", "Call a move off")
async def cancel_move(call: Call) -> None:
    await _reassign(call, call.path("topic"), call.number("partition"), None)


async def _reassign(call: Call, topic: str, partition: int, replicas: tuple[int, ...] | None) -> None:
    move = ReassignablePartition(partition_index=partition, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name=topic, partitions=(move,)),))
    reply = await call.caller.cluster.call_controller(request)
    raise_for(reply.error_code, "the move", reply.error_message)
    for answered in reply.responses:
        for each in answered.partitions:
            raise_for(each.error_code, f"partition {each.partition_index} of topic '{answered.name}'", each.error_message)
