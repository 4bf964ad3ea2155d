"""ConsumerGroupHeartbeat: all that a member of the consumer protocol says and hears (KIP-848)."""

from functools import partial

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.handlers.join_group import caller
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.group.requests import ConsumerHeartbeat, sees_everything
from headrace.coordination.group.shard import GroupShard
from headrace.host.entropy import Entropy
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

FIRST_VERSION_WITH_IDS_OF_CLIENTS = 1


async def handle(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, groups: GroupShards, entropy: Entropy
) -> ConsumerGroupHeartbeatResponse:
    try:
        if context.api_version >= FIRST_VERSION_WITH_IDS_OF_CLIENTS and not request.member_id:
            raise RequestError(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
        for name in request.subscribed_topic_names or ():
            context.require(Operation.DESCRIBE, ResourceType.TOPIC, name)
        beat = _heartbeat(entropy, request, context)
        reply = await groups.ask(request.group_id, GroupShard.consumer_heartbeat, beat)
    except RequestError as error:
        return ConsumerGroupHeartbeatResponse(
            error_code=error.code, error_message=error.message, member_epoch=0, heartbeat_interval_ms=0
        )
    assignment = None
    if reply.assignment is not None:
        assigned = tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
            for topic_id, partitions in reply.assignment.items()
        )
        assignment = Assignment(topic_partitions=assigned)
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=assignment,
    )


def _heartbeat(entropy: Entropy, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> ConsumerHeartbeat:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=None if names is None else frozenset(names),
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=None if owned is None else {each.topic_id: frozenset(each.partitions) for each in owned},
        caller=caller(entropy, context),
        may_see=sees_everything if context.guard.authorizer is None else partial(_may_see, context),
    )


def _may_see(context: RequestContext, topic: str) -> bool:
    """What a pattern does not find was not asked for, and is no denial."""
    return bool(context.listed(Operation.DESCRIBE, ResourceType.TOPIC, (topic,)))
