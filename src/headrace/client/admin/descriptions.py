"""What administration answers: topics, groups, settings and brokers as plain values."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from confluent_kafka.admin import ConfigSource

from headrace.model.identity import TopicPartition


@dataclass(frozen=True, slots=True)
class Node:
    """A broker and where it listens."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """`controller` is None while there is none."""

    id: str
    controller: int | None
    brokers: list[Node]


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """Broker numbers; `leader` and `leader_address` are None while there is none."""

    index: int
    leader: int | None
    replicas: list[int]
    in_sync: list[int]
    leader_address: str | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """`id` stays the same for as long as the topic is there; a new topic of the same name has another."""

    name: str
    id: UUID
    partitions: list[PartitionDescription]
    internal: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """`source` says who set it: "topic", "broker", "cluster" (all brokers), or "default"."""

    value: str | None
    is_default: bool
    read_only: bool = False
    source: str = "default"


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer in a group; `instance_id` only of a static one."""

    id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: list[TopicPartition]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as it is listed; a `simple` one has only committed offsets, and never had members."""

    name: str
    state: str
    protocol: str
    simple: bool


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members; `state` is that of the protocol in lower case: "stable", "empty", …"""

    name: str
    state: str
    protocol: str
    assignor: str
    coordinator: int | None
    members: list[Member]


def topic_of(described: Any) -> TopicDescription:
    partitions = [
        PartitionDescription(
            each.id,
            each.leader.id if _leads(each.leader) else None,
            [node.id for node in each.replicas],
            [node.id for node in each.isr],
            f"{each.leader.host}:{each.leader.port}" if _leads(each.leader) else None,
        )
        for each in described.partitions
    ]
    return TopicDescription(
        described.name,
        _uuid(str(described.topic_id)),
        sorted(partitions, key=lambda each: each.index),
        described.is_internal,
    )


def _leads(leader: Any) -> bool:
    return leader is not None and leader.id >= 0


def _uuid(text: str) -> UUID:
    """Kafka writes its ids in base 64 without the padding."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def group_of(described: Any) -> GroupDescription:
    return GroupDescription(
        name=described.group_id,
        state=_state(described),
        protocol=described.type.name.lower(),
        assignor=described.partition_assignor or "",
        coordinator=described.coordinator.id if described.coordinator else None,
        members=[_member(each) for each in described.members],
    )


def group_listing_of(listed: Any) -> GroupListing:
    return GroupListing(
        name=listed.group_id, state=_state(listed), protocol=listed.type.name.lower(), simple=listed.is_simple_consumer_group
    )


def _state(group: Any) -> str:
    return str(group.state.name).lower().replace("_", " ")


def setting_of(entry: Any) -> Setting:
    source = _SOURCES.get(ConfigSource(entry.source), "unknown")
    return Setting(entry.value, is_default=entry.is_default, read_only=entry.is_read_only, source=source)


_SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "cluster",
    ConfigSource.STATIC_BROKER_CONFIG: "broker",
    ConfigSource.DEFAULT_CONFIG: "default",
}


def _member(described: Any) -> Member:
    positions = described.assignment.topic_partitions if described.assignment else []
    return Member(
        id=described.member_id,
        client_id=described.client_id,
        host=described.host,
        instance_id=described.group_instance_id,
        partitions=sorted(TopicPartition(each.topic, each.partition) for each in positions),
    )
