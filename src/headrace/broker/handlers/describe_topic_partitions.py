"""DescribeTopicPartitions: topics page by page, so that no reply grows with the cluster."""

from headrace.broker.network.dispatch import RequestContext
from headrace.controller.image import CurrentImage, Topic
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_BROKER, NO_TOPIC_ID
from headrace.model.names import INTERNAL_TOPICS, why_not_a_topic_name
from headrace.security.authorization.guard import NOT_ASKED
from headrace.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

PARTITIONS_MAX = 2000


def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext, image: CurrentImage
) -> DescribeTopicPartitionsResponse:
    names = sorted(
        {topic.name for topic in request.topics} or context.listed(Operation.DESCRIBE, ResourceType.TOPIC, image().topics)
    )
    left = max(1, min(request.response_partition_limit, PARTITIONS_MAX))
    first = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        first = max(0, request.cursor.partition_index) if names[:1] == [request.cursor.topic_name] else 0
    results: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if left == 0:
            return DescribeTopicPartitionsResponse(topics=tuple(results), next_cursor=Cursor(topic_name=name, partition_index=0))
        if not context.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            results.append(_refusal(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        topic = image().topics.get(name)
        if topic is None:
            results.append(_missing(name, context))
            continue
        until = min(topic.partition_count, first + left)
        results.append(_describe(image, topic, range(first, until), context))
        left -= until - first
        if until < topic.partition_count:
            return DescribeTopicPartitionsResponse(
                topics=tuple(results), next_cursor=Cursor(topic_name=name, partition_index=until)
            )
        first = 0
    return DescribeTopicPartitionsResponse(topics=tuple(results))


def _missing(name: str, context: RequestContext) -> DescribeTopicPartitionsResponseTopic:
    wrong = why_not_a_topic_name(name) is not None
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if wrong else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _refusal(name, code, context.authorized_operations(ResourceType.TOPIC, name))


def _refusal(name: str, code: ErrorCode, operations: int = NOT_ASKED) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_id=NO_TOPIC_ID, partitions=(), topic_authorized_operations=operations
    )


def _describe(image: CurrentImage, topic: Topic, indexes: range, context: RequestContext) -> DescribeTopicPartitionsResponseTopic:
    alive = image().brokers
    states = ((index, topic.partitions[index]) for index in indexes)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(
            DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.NONE if state.leader in alive else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=state.leader if state.leader in alive else NO_BROKER,
                leader_epoch=state.leader_epoch,
                replica_nodes=state.replicas,
                isr_nodes=state.isr,
                eligible_leader_replicas=state.elr,
                last_known_elr=(state.last_known_leader,) if state.last_known_leader != NO_BROKER else (),
                offline_replicas=tuple(replica for replica in state.replicas if replica not in alive),
            )
            for index, state in states
        ),
        topic_authorized_operations=context.authorized_operations(ResourceType.TOPIC, topic.name),
    )
