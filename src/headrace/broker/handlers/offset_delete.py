"""OffsetDelete: forgets offsets of topics that the group does not read any more."""

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.group.requests import DeleteOffsets
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from headrace.broker.app import Broker


async def handle(broker: "Broker", request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    wanted = tuple(
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if broker.image.partition(topic.name, partition.partition_index) is not None
    )
    try:
        errors = await broker.groups.delete_offsets(DeleteOffsets(group_id=request.group_id, partitions=wanted))
    except RequestError as error:
        return OffsetDeleteResponse(error_code=error.code, topics=())
    codes = dict(zip(wanted, errors, strict=True))
    topics = tuple(
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetDeleteResponsePartition(
                    partition_index=partition.partition_index,
                    error_code=codes.get((topic.name, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                )
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)
