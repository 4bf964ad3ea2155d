"""InitializeShareGroupState: share coordinators begin to keep the state of share-partitions."""

from headrace.broker.coordinators.share_state.coordinator import ShareStateShards, name_of
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.share.entries import ShareKey
from headrace.coordination.share.state_shard import InitializeState, ShareStateShard
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)


async def handle(
    request: InitializeShareGroupStateRequest, context: RequestContext, states: ShareStateShards
) -> InitializeShareGroupStateResponse:
    results = []
    for topic in request.topics:
        answers = [
            await _answer(states, ShareKey(request.group_id, topic.topic_id, each.partition), each) for each in topic.partitions
        ]
        results.append(InitializeStateResult(topic_id=topic.topic_id, partitions=tuple(answers)))
    return InitializeShareGroupStateResponse(results=tuple(results))


async def _answer(states: ShareStateShards, key: ShareKey, asked: PartitionData) -> PartitionResult:
    begun = InitializeState(key=key, state_epoch=asked.state_epoch, start_offset=asked.start_offset)
    try:
        await states.ask(name_of(key), ShareStateShard.initialize, begun)
    except RequestError as error:
        return PartitionResult(partition=key.partition, error_code=error.code, error_message=error.message)
    return PartitionResult(partition=key.partition, error_code=ErrorCode.NONE)
