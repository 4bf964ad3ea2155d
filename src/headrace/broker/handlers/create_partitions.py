"""CreatePartitions: more partitions for topics that have fewer; each topic is answered by itself."""

from collections import Counter

from headrace.broker.administration.partition_limits import refused_by_size
from headrace.broker.administration.topics import Topics
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.network.throttling import Throttling
from headrace.controller.image import CurrentImage
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

STRICT_FROM = 3  # versions from here on know THROTTLING_QUOTA_EXCEEDED


async def handle(
    request: CreatePartitionsRequest, context: RequestContext, image: CurrentImage, topics: Topics, throttling: Throttling
) -> CreatePartitionsResponse:
    names = Counter(topic.name for topic in request.topics)
    mutations = throttling.mutations(context, strict_from=STRICT_FROM)
    results = []
    too_many = refused_by_size(_new_partitions(image, topic) for topic in request.topics)
    for topic in {topic.name: topic for topic in request.topics}.values():
        code, message = ErrorCode.NONE, None
        try:
            context.require(Operation.ALTER, ResourceType.TOPIC, topic.name)
            if too_many is not None:
                raise too_many
            if names[topic.name] > 1:
                raise RequestError(ErrorCode.INVALID_REQUEST, "The topic is used twice in the request.")
            if mutations.are_limited:
                await topics.grow(topic.name, topic.count, _assignments(topic), validate_only=True)
                mutations.charge(_new_partitions(image, topic))
            await topics.grow(topic.name, topic.count, _assignments(topic), validate_only=request.validate_only)
        except RequestError as error:
            code, message = error.code, error.message
        results.append(CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message))
    return mutations.with_wait(CreatePartitionsResponse(results=tuple(results)))


def _new_partitions(image: CurrentImage, topic: CreatePartitionsTopic) -> int:
    known = image().topics.get(topic.name)
    return topic.count - known.partition_count if known is not None else 0


def _assignments(topic: CreatePartitionsTopic) -> list[tuple[int, ...]] | None:
    return None if topic.assignments is None else [tuple(given.broker_ids) for given in topic.assignments]
