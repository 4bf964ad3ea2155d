"""The ends of many partitions, asked of each leader once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from headrace.client.brokers.cluster import Cluster
from headrace.client.errors import HeadraceError
from headrace.model.identity import TopicPartition
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

ASKED_AT_ONCE_MAX: Final = 2000


async def ends_of(cluster: Cluster, leaders: Mapping[TopicPartition, int], at: int) -> dict[TopicPartition, int]:
    """The offset of each partition at EARLIEST, LATEST or a time; those whose leader does not answer are left out."""
    by_leader: dict[int, list[TopicPartition]] = {}
    for place, leader in leaders.items():
        if leader >= 0:
            by_leader.setdefault(leader, []).append(place)
    asked = [
        _ask(cluster, leader, places[first : first + ASKED_AT_ONCE_MAX], at)
        for leader, places in by_leader.items()
        for first in range(0, len(places), ASKED_AT_ONCE_MAX)
    ]
    found: dict[TopicPartition, int] = {}
    for some in await asyncio.gather(*asked):
        found.update(some)
    return found


async def _ask(cluster: Cluster, leader: int, places: list[TopicPartition], at: int) -> dict[TopicPartition, int]:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for place in places:
        by_topic.setdefault(place.topic, []).append(ListOffsetsPartition(partition_index=place.partition, timestamp=at))
    topics = tuple(ListOffsetsTopic(name=name, partitions=tuple(each)) for name, each in by_topic.items())
    try:
        reply = await cluster.call(ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics), broker=leader)
    except HeadraceError:
        return {}
    return {
        TopicPartition(topic.name, each.partition_index): each.offset
        for topic in reply.topics
        for each in topic.partitions
        if not each.error_code
    }
