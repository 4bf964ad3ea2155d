"""ReadShareGroupStateSummary: how far share-partitions are."""

from headrace.broker.coordinators.share_state.coordinator import ShareStateShards, name_of
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.share.entries import ShareKey, ShareState
from headrace.coordination.share.state_shard import ShareStateShard
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)


async def handle(
    request: ReadShareGroupStateSummaryRequest, context: RequestContext, states: ShareStateShards
) -> ReadShareGroupStateSummaryResponse:
    results = []
    for topic in request.topics:
        answers = [
            await _answer(states, ShareKey(request.group_id, topic.topic_id, each.partition), each) for each in topic.partitions
        ]
        results.append(ReadStateSummaryResult(topic_id=topic.topic_id, partitions=tuple(answers)))
    return ReadShareGroupStateSummaryResponse(results=tuple(results))


async def _answer(states: ShareStateShards, key: ShareKey, asked: PartitionData) -> PartitionResult:
    nothing = ShareState(snapshot_epoch=0, state_epoch=-1, leader_epoch=-1, start_offset=-1)
    code, message = ErrorCode.NONE, None
    try:
        state = await states.look(name_of(key), ShareStateShard.summary, key) or nothing
    except RequestError as error:
        state, code, message = nothing, error.code, error.message
    return PartitionResult(
        partition=key.partition,
        error_code=code,
        error_message=message,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.done,
    )
