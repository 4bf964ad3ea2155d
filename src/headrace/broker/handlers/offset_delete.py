"""OffsetDelete: forgets offsets of topics that the group does not read any more."""

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.image import CurrentImage
from headrace.coordination.group.requests import DeleteOffsets
from headrace.coordination.group.shard import GroupShard
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import TopicPartition
from headrace.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(
    request: OffsetDeleteRequest, context: RequestContext, image: CurrentImage, groups: GroupShards
) -> OffsetDeleteResponse:
    denied = {topic.name for topic in request.topics if not context.may(Operation.READ, ResourceType.TOPIC, topic.name)}
    wanted = tuple(
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if topic.name not in denied and image().partition(topic.name, partition.partition_index) is not None
    )
    try:
        delete = DeleteOffsets(group_id=request.group_id, partitions=wanted)
        errors = await groups.ask(request.group_id, GroupShard.delete_offsets, delete)
    except RequestError as error:
        return OffsetDeleteResponse(error_code=error.code, topics=())
    codes = dict(zip(wanted, errors, strict=True))
    topics = tuple(
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetDeleteResponsePartition(
                    partition_index=partition.partition_index,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    if topic.name in denied
                    else codes.get(TopicPartition(topic.name, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                )
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)
