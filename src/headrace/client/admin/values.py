"""What administration answers: topics, groups, settings and brokers as plain values."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from headrace.model.identity import TopicPartition


@dataclass(frozen=True, slots=True)
class Node:
    """A broker and where it listens."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    id: str
    controller: int | None
    brokers: list[Node]


@dataclass(frozen=True, slots=True)
class Partition:
    """Broker numbers; `leader` is None while there is none."""

    index: int
    leader: int | None
    replicas: list[int]
    in_sync: list[int]


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: UUID
    partitions: list[Partition]
    internal: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    value: str | None
    is_default: bool
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: list[TopicPartition]


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    state: str
    protocol: str
    assignor: str
    coordinator: int | None
    members: list[Member]


def topic_of(described: Any) -> Topic:
    partitions = [
        Partition(
            each.id,
            each.leader.id if each.leader is not None and each.leader.id >= 0 else None,
            [node.id for node in each.replicas],
            [node.id for node in each.isr],
        )
        for each in described.partitions
    ]
    return Topic(
        described.name,
        _uuid(str(described.topic_id)),
        sorted(partitions, key=lambda each: each.index),
        described.is_internal,
    )


def _uuid(text: str) -> UUID:
    """Kafka writes its ids in base 64 without the padding."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def group_of(described: Any) -> Group:
    return Group(
        name=described.group_id,
        state=described.state.name.lower().replace("_", " "),
        protocol=described.type.name.lower(),
        assignor=described.partition_assignor or "",
        coordinator=described.coordinator.id if described.coordinator else None,
        members=[_member(each) for each in described.members],
    )


def _member(described: Any) -> Member:
    positions = described.assignment.topic_partitions if described.assignment else []
    return Member(
        id=described.member_id,
        client_id=described.client_id,
        host=described.host,
        instance_id=described.group_instance_id,
        partitions=sorted(TopicPartition(each.topic, each.partition) for each in positions),
    )
