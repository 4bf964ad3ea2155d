"""A cluster at one moment, as one principal sees it over the wire: brokers, topics, groups, and how far everything is."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.client.brokers.cluster import EARLIEST, LATEST, Cluster
from headrace.client.errors import HeadraceError
from headrace.console.watching.ends import ends_of
from headrace.console.watching.group_facts import Group, listed_groups, offsets_and_lags
from headrace.model.identity import TopicPartition
from headrace.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from headrace.wire.messages.metadata import MetadataRequest

GROUPS_AT_ONCE: Final = 16


@dataclass(slots=True)
class Disk:
    """A data directory; sizes are None where the broker does not tell them."""

    directory: str
    total: int | None
    free: int | None
    is_failed: bool


@dataclass(slots=True)
class BrokerFacts:
    """A broker that is up."""

    id: int
    host: str
    port: int
    rack: str | None
    leads: int = 0
    replicas: int = 0
    out_of_sync: int = 0
    disks: list[Disk] = field(default_factory=list)


@dataclass(slots=True)
class TopicFacts:
    """A topic; sums over its partitions."""

    name: str
    internal: bool
    partitions: int
    replication: int
    under_replicated: int
    leaderless: int
    first: int = 0
    end: int = 0
    bytes: int | None = None  # of one copy
    lag: int | None = None  # of the group that is furthest behind
    lag_group: str | None = None


@dataclass(slots=True)
class GroupFacts:
    """A group, and how far behind it is; None where nothing is committed."""

    name: str
    kind: str
    state: str
    lag: int | None = None
    topics: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Snapshot:
    """`at` is by the wall clock; `round_trip_seconds` is how long a broker took to answer for its metadata."""

    at: float
    cluster_id: str
    controller: int
    round_trip_seconds: float
    brokers: dict[int, BrokerFacts]
    topics: dict[str, TopicFacts]
    groups: dict[str, GroupFacts]
    has_disks: bool = False


async def take(cluster: Cluster, *, with_disks: bool = True) -> Snapshot:
    """Ask for all of it.  Raises the SDK's errors where no broker answers."""
    began = time.perf_counter()
    told = await cluster.call(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    round_trip = time.perf_counter() - began
    brokers = {each.node_id: BrokerFacts(each.node_id, each.host, each.port, each.rack) for each in told.brokers}
    topics, leaders = _topics(told, brokers)
    (firsts, ends), disks, groups = await asyncio.gather(
        _offsets(cluster, leaders), _disks(cluster, brokers) if with_disks else _nothing(), _groups(cluster, list(brokers))
    )
    for place, end in ends.items():
        topics[place.topic].end += end
        topics[place.topic].first += firsts.get(place, 0)
    for name, size in disks.items():
        if name in topics:
            topics[name].bytes = size
    lags = await _lags(cluster, groups, ends, topics)
    return Snapshot(
        time.time(), told.cluster_id or "", told.controller_id, round_trip, brokers, topics, lags, with_disks and bool(brokers)
    )


def _topics(told: Any, brokers: dict[int, BrokerFacts]) -> tuple[dict[str, TopicFacts], dict[TopicPartition, int]]:
    topics: dict[str, TopicFacts] = {}
    leaders: dict[TopicPartition, int] = {}
    for topic in told.topics:
        if topic.error_code or topic.name is None:
            continue
        facts = topics[topic.name] = TopicFacts(topic.name, is_own(topic), len(topic.partitions), 0, 0, 0)
        for each in topic.partitions:
            facts.replication = max(facts.replication, len(each.replica_nodes))
            facts.under_replicated += len(each.isr_nodes) < len(each.replica_nodes)
            facts.leaderless += each.leader_id < 0
            leaders[TopicPartition(topic.name, each.partition_index)] = each.leader_id
            _count(each, brokers)
    return topics, leaders


def is_own(topic: Any) -> bool:
    """Whether a topic is the cluster's own, which nobody made for their records."""
    return bool(topic.is_internal or topic.name.startswith("__"))


def _count(partition: Any, brokers: dict[int, BrokerFacts]) -> None:
    for number in partition.replica_nodes:
        if number in brokers:
            brokers[number].replicas += 1
            brokers[number].out_of_sync += number not in partition.isr_nodes
    if partition.leader_id in brokers:
        brokers[partition.leader_id].leads += 1


async def _offsets(
    cluster: Cluster, leaders: dict[TopicPartition, int]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    firsts, ends = await asyncio.gather(ends_of(cluster, leaders, EARLIEST), ends_of(cluster, leaders, LATEST))
    return firsts, ends


async def _nothing() -> dict[str, int]:
    return {}


async def _disks(cluster: Cluster, brokers: dict[int, BrokerFacts]) -> dict[str, int]:
    """Sizes of topics, of one copy each; the disks go into `brokers`."""
    sizes: dict[TopicPartition, int] = {}
    for number, reply in (await _log_dirs(cluster, list(brokers))).items():
        for found in reply.results:
            known = found.total_bytes >= 0
            brokers[number].disks.append(
                Disk(
                    found.log_dir,
                    found.total_bytes if known else None,
                    found.usable_bytes if known else None,
                    bool(found.error_code),
                )
            )
            for topic in found.topics:
                for each in topic.partitions:
                    place = TopicPartition(topic.name, each.partition_index)
                    sizes[place] = max(sizes.get(place, 0), each.partition_size)
    by_topic: dict[str, int] = {}
    for place, size in sizes.items():
        by_topic[place.topic] = by_topic.get(place.topic, 0) + size
    return by_topic


async def _log_dirs(cluster: Cluster, brokers: list[int]) -> dict[int, Any]:
    """Of those that tell them; who asks may lack the right to know."""
    asked = (cluster.call(DescribeLogDirsRequest(topics=None), broker=each) for each in brokers)
    replies = await asyncio.gather(*asked, return_exceptions=True)
    return {
        broker: reply
        for broker, reply in zip(brokers, replies, strict=True)
        if not isinstance(reply, BaseException) and not reply.error_code
    }


async def _groups(cluster: Cluster, brokers: list[int]) -> list[Group]:
    try:
        return await listed_groups(cluster, brokers)
    except HeadraceError:
        return []


async def _lags(
    cluster: Cluster, groups: list[Group], ends: dict[TopicPartition, int], topics: dict[str, TopicFacts]
) -> dict[str, GroupFacts]:
    room = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def one(group: Group) -> GroupFacts:
        async with room:
            found = await offsets_and_lags(cluster, group, ends)
        facts = GroupFacts(group.name, group.kind, group.state)
        for place, (_, lag) in found.items():
            if lag is not None:
                facts.topics[place.topic] = facts.topics.get(place.topic, 0) + lag
        facts.lag = sum(facts.topics.values()) if facts.topics else None
        return facts

    found = await asyncio.gather(*(one(group) for group in groups))
    for facts in found:
        for name, lag in facts.topics.items():
            topic = topics.get(name)
            if topic is not None and (topic.lag is None or lag > topic.lag):
                topic.lag, topic.lag_group = lag, facts.name
    return {facts.name: facts for facts in found}
