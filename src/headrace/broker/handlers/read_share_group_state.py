"""ReadShareGroupState: a leader asks for the state of its share-partitions."""

from headrace.broker.coordinators.share_state.coordinator import ShareStateShards, name_of
from headrace.broker.coordinators.share_state.messages import read_answer_batches
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.share.entries import ShareKey
from headrace.coordination.share.state_shard import ReadState, ShareStateShard
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
)


async def handle(
    request: ReadShareGroupStateRequest, context: RequestContext, states: ShareStateShards
) -> ReadShareGroupStateResponse:
    results = []
    for topic in request.topics:
        answers = [
            await _answer(states, ShareKey(request.group_id, topic.topic_id, each.partition), each) for each in topic.partitions
        ]
        results.append(ReadStateResult(topic_id=topic.topic_id, partitions=tuple(answers)))
    return ReadShareGroupStateResponse(results=tuple(results))


async def _answer(states: ShareStateShards, key: ShareKey, asked: PartitionData) -> PartitionResult:
    try:
        state = await states.ask(name_of(key), ShareStateShard.read, ReadState(key=key, leader_epoch=asked.leader_epoch))
    except RequestError as error:
        return PartitionResult(
            partition=key.partition,
            error_code=error.code,
            error_message=error.message,
            state_epoch=0,
            start_offset=-1,
            state_batches=(),
        )
    return PartitionResult(
        partition=key.partition,
        error_code=ErrorCode.NONE,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=read_answer_batches(state),
    )
