"""Brokers: what each leads and holds, its disks, replicas on the move with their progress, and elections."""

from __future__ import annotations

import asyncio
from typing import Any

from headrace.client.admin.wire_admin import raise_for
from headrace.client.brokers.cluster import Cluster
from headrace.console.nouns.rights import cluster_rights
from headrace.console.nouns.visible import view_of
from headrace.gateway.administration.cluster import list_moves
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations
from headrace.model.errors import ErrorCode
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headrace.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.messages.metadata import MetadataRequest

operations = Operations("console brokers")


@operations.get("/console/api/brokers", "The brokers", listed=False)
async def list_brokers(call: Call) -> dict[str, Any]:
    view, fenced, moves, misled = await asyncio.gather(
        view_of(call), _fenced(call.caller.cluster), _moves(call), _not_preferred(call.caller.cluster)
    )
    snapshot = view.snapshot
    brokers = [
        {
            "id": broker.id,
            "address": f"{broker.host}:{broker.port}",
            "rack": broker.rack,
            "is_controller": broker.id == snapshot.controller,
            "state": "fenced" if broker.id in fenced else "up",
            "leads": broker.leads,
            "replicas": broker.replicas,
            "out_of_sync": broker.out_of_sync,
            "disks": [
                {"directory": disk.directory, "total": disk.total, "free": disk.free, "failed": disk.is_failed}
                for disk in broker.disks
            ],
        }
        for broker in snapshot.brokers.values()
    ]
    gone = [
        {"id": number, "state": "down", "why": "Partitions have copies there, and it is not up."} for number in misled["gone"]
    ]
    return {
        "cluster": snapshot.cluster_id,
        "brokers": [*brokers, *gone],
        "moves": moves,
        "elections": misled["elections"],
        "rights": await cluster_rights(call.caller.cluster),
    }


async def _fenced(cluster: Cluster) -> set[int]:
    reply = await cluster.call(DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True))
    return {each.broker_id for each in reply.brokers if each.is_fenced}


async def _not_preferred(cluster: Cluster) -> dict[str, Any]:
    """Partitions that the first of their replicas does not lead although it could, and brokers that are not up."""
    told = await cluster.call(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    up = {each.node_id for each in told.brokers}
    elections, gone = [], set()
    for topic in told.topics:
        for each in topic.partitions:
            gone |= {number for number in each.replica_nodes if number not in up}
            if each.replica_nodes and each.leader_id != each.replica_nodes[0] and each.replica_nodes[0] in each.isr_nodes:
                elections.append(
                    {"topic": topic.name, "partition": each.partition_index, "from": each.leader_id, "to": each.replica_nodes[0]}
                )
    return {"elections": elections[:1000], "gone": sorted(gone)}


async def _moves(call: Call) -> list[dict[str, Any]]:
    """Each with how many bytes the newcomers have of what the leader has."""
    try:
        found = (await list_moves(call)).moves
    except Exception:  # who may not ask is shown none
        return []
    rows = []
    for move in found[:200]:
        size = await _size(
            call.caller.cluster, move.topic, move.partition, [each for each in move.replicas if each not in move.adding]
        )
        copied = await _size(call.caller.cluster, move.topic, move.partition, move.adding)
        rows.append(
            {
                "topic": move.topic,
                "partition": move.partition,
                "replicas": move.replicas,
                "adding": move.adding,
                "removing": move.removing,
                "bytes": size,
                "copied": copied,
            }
        )
    return rows


async def _size(cluster: Cluster, topic: str, partition: int, brokers: list[int]) -> int:
    request = DescribeLogDirsRequest(topics=(DescribableLogDirTopic(topic=topic, partitions=(partition,)),))
    replies = await asyncio.gather(*(cluster.call(request, broker=each) for each in brokers), return_exceptions=True)
    sizes = [
        each.partition_size
        for reply in replies
        if not isinstance(reply, BaseException)
        for result in reply.results
        for told in result.topics
        for each in told.partitions
    ]
    return max(sizes, default=0)


@operations.post("/console/api/elections", "Have preferred replicas lead", listed=False)
async def elect(call: Call) -> dict[str, Any]:
    """Those that the page showed: the first replica of each partition leads where it is in sync."""
    wanted = (await _not_preferred(call.caller.cluster))["elections"]
    by_topic: dict[str, list[int]] = {}
    for each in wanted:
        by_topic.setdefault(each["topic"], []).append(each["partition"])
    if not by_topic:
        return {"elected": 0}
    partitions = tuple(TopicPartitions(topic=name, partitions=tuple(each)) for name, each in by_topic.items())
    reply = await call.caller.cluster.call_controller(ElectLeadersRequest(election_type=0, topic_partitions=partitions))
    raise_for(reply.error_code, "the election")
    results = [each for topic in reply.replica_election_results for each in topic.partition_result]
    for each in results:
        if each.error_code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
            raise_for(each.error_code, f"partition {each.partition_id}", each.error_message)
    return {"elected": len(results)}
