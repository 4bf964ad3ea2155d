"""DescribeQuorum: who decides about the cluster, and how far each broker's view of the metadata has got.

There is no quorum of controllers here.  The metadata is in the store, which has a quorum of its own where it is etcd, and every
broker may become the controller.  So each member of the cluster is told as a voter, the controller as their leader, and the
store's revision as the end of the log.  How far another broker is, it tells itself: ApiVersions carries its view's revision.
"""

import asyncio

from headrace.broker.cluster.peers import Peers, PeerUnreachable
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.entries import BrokerRegistration
from headrace.controller.image import CurrentImage
from headrace.host.clock import Clock
from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_BROKER
from headrace.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.messages.describe_quorum import (
    DescribeQuorumListener,
    DescribeQuorumNode,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartition,
    DescribeQuorumResponseTopic,
    ReplicaState,
)

CLUSTER_METADATA = "__cluster_metadata"
API_VERSIONS_VERSION = 4
PEER_SECONDS_MAX = 2.0
UNKNOWN = -1


async def handle(
    request: DescribeQuorumRequest, context: RequestContext, image: CurrentImage, peers: Peers, clock: Clock, broker_id: int
) -> DescribeQuorumResponse:
    if not _asks_for_metadata(request):
        return _refusal(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if image().controller_id == NO_BROKER:
        return _refusal(request, ErrorCode.LEADER_NOT_AVAILABLE)
    members = {**image().members, **image().brokers}
    voters = tuple(await asyncio.gather(*(_state_of(image, peers, clock, broker_id, member) for member in sorted(members))))
    answer = DescribeQuorumResponsePartition(
        partition_index=0,
        error_code=ErrorCode.NONE,
        leader_id=image().controller_id,
        leader_epoch=image().controller_epoch,
        # What the brokers have seen is in the store, and what is in the store is decided.
        high_watermark=max(voter.log_end_offset for voter in voters),
        current_voters=voters,
    )
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        topics=(DescribeQuorumResponseTopic(topic_name=CLUSTER_METADATA, partitions=(answer,)),),
        nodes=tuple(_node(broker_id, member) for broker_id, member in sorted(members.items())),
    )


def _asks_for_metadata(request: DescribeQuorumRequest) -> bool:
    return [(topic.topic_name, [part.partition_index for part in topic.partitions]) for topic in request.topics] == [
        (CLUSTER_METADATA, [0])
    ]


def _refusal(request: DescribeQuorumRequest, code: ErrorCode) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        topics=tuple(
            DescribeQuorumResponseTopic(
                topic_name=topic.topic_name,
                partitions=tuple(
                    DescribeQuorumResponsePartition(partition_index=part.partition_index, error_code=code)
                    for part in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


async def _state_of(image: CurrentImage, peers: Peers, clock: Clock, own_id: int, broker_id: int) -> ReplicaState:
    """What a broker has seen of the metadata; unknown of one that is away."""
    if broker_id == own_id:
        return _state(image, clock, broker_id, image().revision)
    request = ApiVersionsRequest(client_software_name="headrace", client_software_version="1")
    try:
        reply: ApiVersionsResponse = await peers.call(
            broker_id, request, API_VERSIONS_VERSION, timeout=PEER_SECONDS_MAX, purpose="quorum"
        )
    except PeerUnreachable:
        return ReplicaState(replica_id=broker_id, log_end_offset=UNKNOWN)
    return _state(image, clock, broker_id, reply.finalized_features_epoch)


def _state(image: CurrentImage, clock: Clock, broker_id: int, revision: int) -> ReplicaState:
    now_ms = clock.wall_ms()
    caught_up = revision >= image().revision
    return ReplicaState(
        replica_id=broker_id,
        log_end_offset=revision,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms if caught_up else UNKNOWN,
    )


def _node(broker_id: int, member: BrokerRegistration) -> DescribeQuorumNode:
    return DescribeQuorumNode(
        node_id=broker_id,
        listeners=tuple(
            DescribeQuorumListener(name=name, host=endpoint.host, port=endpoint.port)
            for name, endpoint in member.endpoints.items()
        ),
    )
