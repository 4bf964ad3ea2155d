"""DeleteShareGroupOffsets: has a share group without members forget whole topics."""

import asyncio

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.coordinators.share_state.client import ShareStateClient
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.group.shard import GroupShard
from headrace.coordination.group.share.requests import ForgetTopics
from headrace.coordination.share.entries import ShareKey
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_TOPIC_ID
from headrace.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


async def handle(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext, groups: GroupShards, client: ShareStateClient
) -> DeleteShareGroupOffsetsResponse:
    try:
        begun = await groups.look(request.group_id, GroupShard.topics_of_share_group, request.group_id)
        if begun is None:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {request.group_id} not found.")
        # Nobody may work on it meanwhile: a group with members is refused here, before anything is forgotten.
        await groups.ask(request.group_id, GroupShard.next_state_epoch, request.group_id)
    except RequestError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message, responses=())
    ids = {topic.name: topic_id for topic_id, topic in begun.items()}
    answers = []
    for asked in request.topics:
        name = asked.topic_name
        code, message = ErrorCode.NONE, None
        try:
            context.require(Operation.READ, ResourceType.TOPIC, name)
            if name not in ids:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The group has not worked on this topic.")
            partitions = begun[ids[name]].partitions
            await asyncio.gather(*(client.delete(ShareKey(request.group_id, ids[name], index)) for index in partitions))
            forget = ForgetTopics(group_id=request.group_id, topic_ids=frozenset({ids[name]}))
            await groups.ask(request.group_id, GroupShard.forget_share_topics, forget)
        except RequestError as error:
            code, message = error.code, error.message
        answers.append(
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name, topic_id=ids.get(name, NO_TOPIC_ID), error_code=code, error_message=message
            )
        )
    return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=tuple(answers))
