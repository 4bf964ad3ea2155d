"""OffsetForLeaderEpoch: where an epoch ended, so that others find where their logs part from ours (KIP-101, KIP-320)."""

from headrace.broker.network.dispatch import RequestContext
from headrace.broker.partitions.replicas import Replicas
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(request: OffsetForLeaderEpochRequest, context: RequestContext, replicas: Replicas) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_answer(replicas, topic.topic, wanted, context) for wanted in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _answer(replicas: Replicas, topic: str, wanted: OffsetForLeaderPartition, context: RequestContext) -> EpochEndOffset:
    try:
        if not context.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
            context.require(Operation.DESCRIBE, ResourceType.TOPIC, topic)
        partition = replicas.find(topic, wanted.partition)
        partition.require_leader(wanted.current_leader_epoch)
    except RequestError as error:
        return EpochEndOffset(error_code=error.code, partition=wanted.partition)
    if wanted.leader_epoch == partition.leader_epoch:
        epoch, end = partition.leader_epoch, partition.log.end_offset
    else:
        epoch, end = partition.log.epochs.end_offset_for(wanted.leader_epoch)
    return EpochEndOffset(error_code=ErrorCode.NONE, partition=wanted.partition, leader_epoch=epoch, end_offset=end)
