"""CreatePartitions: more partitions for topics that have fewer; each topic is answered by itself."""

from collections import Counter
from typing import TYPE_CHECKING

from headrace.broker.dispatch import RequestContext
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from headrace.broker.app import Broker


async def handle(broker: "Broker", request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    names = Counter(topic.name for topic in request.topics)
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        code, message = ErrorCode.NONE, None
        try:
            if names[topic.name] > 1:
                raise RequestError(ErrorCode.INVALID_REQUEST, "The topic stands twice in the request.")
            await broker.topics.grow(topic.name, topic.count, _assignments(topic), validate_only=request.validate_only)
        except RequestError as error:
            code, message = error.code, error.message
        results.append(CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message))
    return CreatePartitionsResponse(results=tuple(results))


def _assignments(topic: CreatePartitionsTopic) -> list[tuple[int, ...]] | None:
    return None if topic.assignments is None else [tuple(given.broker_ids) for given in topic.assignments]
