"""JoinGroup: parked until the group has rebalanced."""

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.group.requests import Caller, Join, JoinReply
from headrace.coordination.group.shard import GroupShard
from headrace.host.entropy import Entropy
from headrace.model.errors import RequestError
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

FIRST_VERSION_WITH_ID_FIRST = 4
FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT = 9
FIRST_VERSION_WITH_NULL_PROTOCOL = 7


async def handle(request: JoinGroupRequest, context: RequestContext, groups: GroupShards, entropy: Entropy) -> JoinGroupResponse:
    try:
        reply = await groups.ask(request.group_id, GroupShard.join, _join(entropy, request, context))
    except RequestError as error:
        reply = JoinReply(error=error.code, member_id=request.member_id)
    return _response(reply, context.api_version)


def _join(entropy: Entropy, request: JoinGroupRequest, context: RequestContext) -> Join:
    return Join(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        session_timeout_ms=request.session_timeout_ms,
        # The oldest clients have one time-out for both.
        rebalance_timeout_ms=request.rebalance_timeout_ms if context.api_version >= 1 else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        caller=caller(entropy, context),
        asks_for_id_first=context.api_version >= FIRST_VERSION_WITH_ID_FIRST,
        can_skip_assignment=context.api_version >= FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT,
    )


def caller(entropy: Entropy, context: RequestContext) -> Caller:
    """Who asks, as the coordinator keeps it; hosts look as Kafka writes them."""
    return Caller(client_id=context.client_id or "", client_host=f"/{context.client_host}", fresh_id=str(entropy.uuid()))


def _response(reply: JoinReply, version: int) -> JoinGroupResponse:
    protocol = reply.protocol
    if protocol is None and version < FIRST_VERSION_WITH_NULL_PROTOCOL:
        protocol = ""
    return JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=protocol,
        leader=reply.leader or "",
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=tuple(
            JoinGroupResponseMember(member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata)
            for member in reply.members
        ),
    )
