"""WriteShareGroupState: a leader has what became of records kept."""

from headrace.broker.coordinators.share_state.coordinator import ShareStateShards, name_of
from headrace.broker.coordinators.share_state.messages import batches
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.share.entries import ShareKey
from headrace.coordination.share.state_shard import ShareStateShard, WriteState
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)


async def handle(
    request: WriteShareGroupStateRequest, context: RequestContext, states: ShareStateShards
) -> WriteShareGroupStateResponse:
    results = []
    for topic in request.topics:
        answers = [
            await _answer(states, ShareKey(request.group_id, topic.topic_id, each.partition), each) for each in topic.partitions
        ]
        results.append(WriteStateResult(topic_id=topic.topic_id, partitions=tuple(answers)))
    return WriteShareGroupStateResponse(results=tuple(results))


async def _answer(states: ShareStateShards, key: ShareKey, asked: PartitionData) -> PartitionResult:
    try:
        news = WriteState(
            key=key,
            state_epoch=asked.state_epoch,
            leader_epoch=asked.leader_epoch,
            start_offset=asked.start_offset,
            done=asked.delivery_complete_count,
            batches=batches(asked.state_batches),
        )
        await states.ask(name_of(key), ShareStateShard.write, news)
    except RequestError as error:
        return PartitionResult(partition=key.partition, error_code=error.code, error_message=error.message)
    return PartitionResult(partition=key.partition, error_code=ErrorCode.NONE)
