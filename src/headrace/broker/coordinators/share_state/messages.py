"""What share coordinators are asked and answer, as messages between brokers: one share-partition each."""

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.coordination.share.delivery import RecordState, StateBatch
from headrace.coordination.share.entries import ShareKey, ShareState
from headrace.coordination.share.state_shard import InitializeState, ReadState, WriteState
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages import (
    delete_share_group_state as deleting,
)
from headrace.wire.messages import (
    initialize_share_group_state as initializing,
)
from headrace.wire.messages import (
    read_share_group_state as reading,
)
from headrace.wire.messages import (
    read_share_group_state_summary as summarizing,
)
from headrace.wire.messages import (
    write_share_group_state as writing,
)

STATES = frozenset(RecordState)


def initialize(request: InitializeState) -> initializing.InitializeShareGroupStateRequest:
    key = request.key
    partition = initializing.PartitionData(
        partition=key.partition, state_epoch=request.state_epoch, start_offset=request.start_offset
    )
    topic = initializing.InitializeStateData(topic_id=key.topic_id, partitions=(partition,))
    return initializing.InitializeShareGroupStateRequest(group_id=key.group_id, topics=(topic,))


def read(request: ReadState) -> reading.ReadShareGroupStateRequest:
    key = request.key
    partition = reading.PartitionData(partition=key.partition, leader_epoch=request.leader_epoch)
    topic = reading.ReadStateData(topic_id=key.topic_id, partitions=(partition,))
    return reading.ReadShareGroupStateRequest(group_id=key.group_id, topics=(topic,))


def write(request: WriteState) -> writing.WriteShareGroupStateRequest:
    key = request.key
    partition = writing.PartitionData(
        partition=key.partition,
        state_epoch=request.state_epoch,
        leader_epoch=request.leader_epoch,
        start_offset=request.start_offset,
        delivery_complete_count=request.done,
        state_batches=tuple(_batches_on_wire(writing.StateBatch, request.batches)),
    )
    topic = writing.WriteStateData(topic_id=key.topic_id, partitions=(partition,))
    return writing.WriteShareGroupStateRequest(group_id=key.group_id, topics=(topic,))


def delete(key: ShareKey) -> deleting.DeleteShareGroupStateRequest:
    topic = deleting.DeleteStateData(topic_id=key.topic_id, partitions=(deleting.PartitionData(partition=key.partition),))
    return deleting.DeleteShareGroupStateRequest(group_id=key.group_id, topics=(topic,))


def summary(key: ShareKey) -> summarizing.ReadShareGroupStateSummaryRequest:
    partition = summarizing.PartitionData(partition=key.partition, leader_epoch=-1)
    topic = summarizing.ReadStateSummaryData(topic_id=key.topic_id, partitions=(partition,))
    return summarizing.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=(topic,))


def state_read(answer: reading.PartitionResult, request: ReadState) -> ShareState:
    return ShareState(
        snapshot_epoch=0,
        state_epoch=answer.state_epoch,
        leader_epoch=request.leader_epoch,
        start_offset=answer.start_offset,
        batches=batches(answer.state_batches),
    )


def summary_read(answer: summarizing.PartitionResult) -> ShareState | None:
    if answer.state_epoch < 0:
        return None
    return ShareState(
        snapshot_epoch=0,
        state_epoch=answer.state_epoch,
        leader_epoch=answer.leader_epoch,
        start_offset=answer.start_offset,
        done=answer.delivery_complete_count,
    )


def batches(on_wire: Sequence[Any]) -> tuple[StateBatch, ...]:
    """Raises RequestError where they cannot be."""
    if any(each.delivery_state not in STATES or not 0 <= each.first_offset <= each.last_offset for each in on_wire):
        raise RequestError(ErrorCode.INVALID_REQUEST, "A state batch needs a known state and offsets that do not descend.")
    return tuple(
        StateBatch(each.first_offset, each.last_offset + 1, RecordState(each.delivery_state), each.delivery_count)
        for each in on_wire
    )


def read_answer_batches(state: ShareState) -> tuple[reading.StateBatch, ...]:
    return tuple(_batches_on_wire(reading.StateBatch, state.batches))


def _batches_on_wire(kind: Any, states: Iterable[StateBatch]) -> Iterable[Any]:
    return (
        kind(
            first_offset=batch.first,
            last_offset=batch.end - 1,
            delivery_state=batch.state,
            delivery_count=batch.delivery_count,
        )
        for batch in states
    )
