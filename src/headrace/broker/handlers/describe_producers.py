"""DescribeProducers: the producers that the leader of a partition remembers, and their open transactions."""

from headrace.broker.network.dispatch import RequestContext
from headrace.broker.partitions.replicas import Replicas
from headrace.log.producers.producer_state import ProducerState
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.names import why_not_a_topic_name
from headrace.wire.messages import describe_producers as wire


def handle(request: wire.DescribeProducersRequest, context: RequestContext, replicas: Replicas) -> wire.DescribeProducersResponse:
    return wire.DescribeProducersResponse(
        topics=tuple(
            wire.TopicResponse(
                name=topic.name,
                partitions=tuple(_describe(replicas, topic.name, index, context) for index in topic.partition_indexes),
            )
            for topic in request.topics
        )
    )


def _describe(replicas: Replicas, topic: str, index: int, context: RequestContext) -> wire.PartitionResponse:
    try:
        context.require(Operation.READ, ResourceType.TOPIC, topic)
        if (wrong := why_not_a_topic_name(topic)) is not None:
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
        partition = replicas.find(topic, index)
        partition.require_leader()
    except RequestError as error:
        return wire.PartitionResponse(
            partition_index=index, error_code=error.code, error_message=error.message, active_producers=()
        )
    return wire.PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE,
        active_producers=tuple(map(_producer, partition.log.producers)),
    )


def _producer(state: ProducerState) -> wire.ProducerState:
    return wire.ProducerState(
        producer_id=state.producer_id,
        producer_epoch=state.epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=state.transaction_first_offset,
    )
