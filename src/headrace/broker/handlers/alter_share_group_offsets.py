"""AlterShareGroupOffsets: moves where a share group without members goes on."""

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.coordinators.share_state.client import ShareStateClient
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.image import CurrentImage
from headrace.coordination.group.shard import GroupShard
from headrace.coordination.group.share.requests import ShareBegun
from headrace.coordination.share.entries import ShareKey
from headrace.coordination.share.state_shard import InitializeState
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_TOPIC_ID
from headrace.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


async def handle(
    request: AlterShareGroupOffsetsRequest,
    context: RequestContext,
    groups: GroupShards,
    client: ShareStateClient,
    image: CurrentImage,
) -> AlterShareGroupOffsetsResponse:
    try:
        state_epoch = await groups.ask(request.group_id, GroupShard.next_state_epoch, request.group_id)
        topics = [await _move(request.group_id, topic, state_epoch, context, client, image) for topic in request.topics]
        moved = {
            topic.topic_id: frozenset(each.partition_index for each in topic.partitions if not each.error_code)
            for topic in topics
            if topic.topic_id != NO_TOPIC_ID
        }
        await groups.ask(request.group_id, GroupShard.note_begun, ShareBegun(group_id=request.group_id, partitions=moved))
    except RequestError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message, responses=())
    return AlterShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=tuple(topics))


async def _move(
    group_id: str,
    asked: AlterShareGroupOffsetsRequestTopic,
    state_epoch: int,
    context: RequestContext,
    client: ShareStateClient,
    image: CurrentImage,
) -> AlterShareGroupOffsetsResponseTopic:
    topic = image().topics.get(asked.topic_name)
    answers = []
    for each in asked.partitions:
        code, message = ErrorCode.NONE, None
        try:
            context.require(Operation.READ, ResourceType.TOPIC, asked.topic_name)
            if topic is None or not 0 <= each.partition_index < topic.partition_count:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            key = ShareKey(group_id, topic.topic_id, each.partition_index)
            await client.initialize(InitializeState(key=key, state_epoch=state_epoch, start_offset=each.start_offset))
        except RequestError as error:
            code, message = error.code, error.message
        answers.append(
            AlterShareGroupOffsetsResponsePartition(partition_index=each.partition_index, error_code=code, error_message=message)
        )
    topic_id = NO_TOPIC_ID if topic is None else topic.topic_id
    return AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name, topic_id=topic_id, partitions=tuple(answers))
