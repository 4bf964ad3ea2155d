"""DeleteShareGroupState: the state of share-partitions is forgotten."""

from headrace.broker.coordinators.share_state.coordinator import ShareStateShards, name_of
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.share.entries import ShareKey
from headrace.coordination.share.state_shard import ShareStateShard
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)


async def handle(
    request: DeleteShareGroupStateRequest, context: RequestContext, states: ShareStateShards
) -> DeleteShareGroupStateResponse:
    results = []
    for topic in request.topics:
        answers = [
            await _answer(states, ShareKey(request.group_id, topic.topic_id, each.partition), each) for each in topic.partitions
        ]
        results.append(DeleteStateResult(topic_id=topic.topic_id, partitions=tuple(answers)))
    return DeleteShareGroupStateResponse(results=tuple(results))


async def _answer(states: ShareStateShards, key: ShareKey, asked: PartitionData) -> PartitionResult:
    try:
        await states.ask(name_of(key), ShareStateShard.delete, key)
    except RequestError as error:
        return PartitionResult(partition=key.partition, error_code=error.code, error_message=error.message)
    return PartitionResult(partition=key.partition, error_code=ErrorCode.NONE)
