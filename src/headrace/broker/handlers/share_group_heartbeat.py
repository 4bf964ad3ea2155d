"""ShareGroupHeartbeat: all that a member of a share group says and hears (KIP-932)."""

from dataclasses import replace

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.sharing.beginning import ShareBeginnings
from headrace.coordination.group.shard import GroupShard
from headrace.coordination.group.share.requests import ShareHeartbeat
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)


async def handle(
    request: ShareGroupHeartbeatRequest, context: RequestContext, groups: GroupShards, beginnings: ShareBeginnings
) -> ShareGroupHeartbeatResponse:
    names = request.subscribed_topic_names
    try:
        for name in names or ():
            context.require(Operation.DESCRIBE, ResourceType.TOPIC, name)
        beat = ShareHeartbeat(
            group_id=request.group_id,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            rack_id=request.rack_id,
            topic_names=None if names is None else frozenset(names),
            client_id=context.client_id or "",
            client_host=context.client_host,
        )
        reply = await groups.ask(request.group_id, GroupShard.share_heartbeat, beat)
        if reply.begin and await beginnings.begin(request.group_id, reply.begin):
            # What has begun meanwhile need not wait for the member's next heartbeat.
            again = replace(beat, member_epoch=reply.member_epoch)
            reply = await groups.ask(request.group_id, GroupShard.share_heartbeat, again)
    except RequestError as error:
        return ShareGroupHeartbeatResponse(
            error_code=error.code, error_message=error.message, member_epoch=0, heartbeat_interval_ms=0
        )
    assignment = None
    if reply.assignment is not None:
        assignment = Assignment(
            topic_partitions=tuple(
                TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
                for topic_id, partitions in reply.assignment.items()
            )
        )
    return ShareGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=assignment,
    )
