"""Topics as the pages show them: all in one list, and one with its partitions, copies, sizes and readers."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiohttp import web

from headrace.client.admin.wire_admin import raise_for
from headrace.client.brokers.cluster import EARLIEST, LATEST, Cluster
from headrace.client.errors import HeadraceError, TopicNotFound
from headrace.console.nouns.rights import rights_of
from headrace.console.nouns.visible import view_of
from headrace.console.reach import console_of
from headrace.console.serving.packing import packed
from headrace.console.watching.ends import ends_of
from headrace.console.watching.snapshot import is_own
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

operations = Operations("console topics")
COLUMNS: Final = (
    "name",
    "partitions",
    "replication",
    "internal",
    "troubled",
    "records",
    "rate",
    "bytes",
    "lag",
    "lag_group",
)


@operations.get("/console/api/topics", "All topics", listed=False)
async def list_topics(call: Call) -> web.Response:
    """Rows, with the names of their columns: ten thousand topics are one answer."""
    view = await view_of(call)
    rows = [
        (
            topic.name,
            topic.partitions,
            topic.replication,
            topic.internal,
            topic.leaderless or topic.under_replicated,
            topic.end - topic.first,
            round(view.rates.get(topic.name, 0.0), 2),
            topic.bytes,
            topic.lag,
            topic.lag_group,
        )
        for topic in view.snapshot.topics.values()
    ]
    return await packed(call.request, {"at": view.snapshot.at, "columns": COLUMNS, "rows": rows})


@operations.get("/console/api/topics/{topic}", "One topic", listed=False)
async def show_topic(call: Call) -> web.Response:
    name, cluster = call.path("topic"), call.caller.cluster
    told = await _metadata(cluster, name)
    leaders = {TopicPartition(name, each.partition_index): each.leader_id for each in told.partitions}
    replicas = sorted({number for each in told.partitions for number in each.replica_nodes})
    firsts, ends, sizes, view = await asyncio.gather(
        ends_of(cluster, leaders, EARLIEST),
        ends_of(cluster, leaders, LATEST),
        _sizes(cluster, name, sorted(place.partition for place in leaders), replicas),
        view_of(call),
    )
    partitions = [
        {
            "partition": each.partition_index,
            "leader": each.leader_id if each.leader_id >= 0 else None,
            "replicas": list(each.replica_nodes),
            "in_sync": list(each.isr_nodes),
            "offline": list(each.offline_replicas),
            "first": firsts.get(TopicPartition(name, each.partition_index)),
            "next": ends.get(TopicPartition(name, each.partition_index)),
            "bytes": sizes.get(each.partition_index),
        }
        for each in sorted(told.partitions, key=lambda each: each.partition_index)
    ]
    readers = [
        {"group": group.name, "kind": group.kind, "state": group.state, "lag": group.topics[name]}
        for group in view.snapshot.groups.values()
        if name in group.topics
    ]
    return await packed(
        call.request,
        {
            "name": name,
            "id": str(told.topic_id),
            "internal": is_own(told),
            "rate": view.rates.get(name),
            "rights": rights_of(told.topic_authorized_operations),
            "hidden": console_of(call).hiding.concerns(name),
            "brokers": sorted(view.snapshot.brokers),
            "partitions": partitions,
            "groups": sorted(readers, key=lambda each: -int(str(each["lag"]))),
        },
    )


async def _metadata(cluster: Cluster, name: str) -> Any:
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False, include_topic_authorized_operations=True
    )
    (found,) = (await cluster.call(request)).topics
    if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise TopicNotFound(f"there is no topic '{name}'", code=3, name="UNKNOWN_TOPIC_OR_PART")
    raise_for(found.error_code, f"topic '{name}'")
    return found


async def _sizes(cluster: Cluster, name: str, partitions: list[int], brokers: list[int]) -> dict[int, int]:
    """Of the largest copy of each partition; none where who asks may not know."""
    request = DescribeLogDirsRequest(topics=(DescribableLogDirTopic(topic=name, partitions=tuple(partitions)),))
    replies = await asyncio.gather(*(cluster.call(request, broker=each) for each in brokers), return_exceptions=True)
    sizes: dict[int, int] = {}
    for reply in replies:
        if isinstance(reply, HeadraceError):
            continue
        if isinstance(reply, BaseException):
            raise reply
        for result in reply.results:
            for topic in result.topics:
                for each in topic.partitions:
                    sizes[each.partition_index] = max(sizes.get(each.partition_index, 0), each.partition_size)
    return sizes
