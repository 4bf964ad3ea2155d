"""AlterPartition: a leader asks for another in-sync set.

A leader of ours writes to the store itself; this serves one that cannot, or that was told to ask the controller.  The answer is
the same, since both go through the same check and the same compare-and-swap.
"""

from collections.abc import Callable

from headrace.broker.network.dispatch import RequestContext
from headrace.controller.election import ElectionRules
from headrace.controller.entries import ConditionalWrite, PartitionState
from headrace.controller.insync import InSyncChange, change_in_sync
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.topic_settings import LogConfig
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    PartitionData,
    TopicData,
)

TOPIC_IDS_FROM = 2


async def handle(
    request: AlterPartitionRequest, context: RequestContext, cluster: ClusterMetadata, config_of: Callable[[str], LogConfig]
) -> AlterPartitionResponse:
    member = cluster.image.brokers.get(request.broker_id)
    if member is None or member.epoch != request.broker_epoch:
        return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=())
    results = []
    for topic in request.topics:
        answers = [await _change(cluster, config_of, request, topic, wanted, context.api_version) for wanted in topic.partitions]
        results.append(
            AlterPartitionResponseTopicData(topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=tuple(answers))
        )
    return AlterPartitionResponse(error_code=ErrorCode.NONE, topics=tuple(results))


async def _change(
    cluster: ClusterMetadata,
    config_of: Callable[[str], LogConfig],
    request: AlterPartitionRequest,
    topic: TopicData,
    wanted: PartitionData,
    version: int,
) -> AlterPartitionResponsePartitionData:
    try:
        after, write = _decide(cluster, config_of, request, topic, wanted, version)
        if not await cluster.commit(write):
            raise RequestError(ErrorCode.INVALID_UPDATE_VERSION)
    except RequestError as error:
        return _answer(wanted.partition_index, error.code, PartitionState(replicas=()))
    code = ErrorCode.NONE if after.leader == request.broker_id else ErrorCode.NEW_LEADER_ELECTED
    return _answer(wanted.partition_index, code, after)


def _decide(
    cluster: ClusterMetadata,
    config_of: Callable[[str], LogConfig],
    request: AlterPartitionRequest,
    topic: TopicData,
    wanted: PartitionData,
    version: int,
) -> tuple[PartitionState, ConditionalWrite]:
    image = cluster.image
    known = image.topics_by_id.get(topic.topic_id) if version >= TOPIC_IDS_FROM else image.topics.get(topic.topic_name)
    if known is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID if version >= TOPIC_IDS_FROM else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    epochs = {member.broker_id: member.broker_epoch for member in wanted.new_isr_with_epochs}
    change = InSyncChange(
        topic_id=known.topic_id,
        index=wanted.partition_index,
        leader=request.broker_id,
        broker_epoch=request.broker_epoch,
        leader_epoch=wanted.leader_epoch,
        partition_epoch=wanted.partition_epoch,
        isr=epochs or dict.fromkeys(wanted.new_isr, -1),
        recovering=wanted.leader_recovery_state == 1,
    )
    return change_in_sync(image, change, ElectionRules.of(config_of(known.name)))


def _answer(index: int, code: ErrorCode, state: PartitionState) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        error_code=code,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        leader_recovery_state=int(state.recovering),
        partition_epoch=state.partition_epoch,
    )
