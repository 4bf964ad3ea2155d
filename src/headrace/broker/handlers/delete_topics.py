"""DeleteTopics: by name or by id; the name is free again when the reply is sent."""

from typing import TYPE_CHECKING
from uuid import UUID

from headrace.broker.dispatch import RequestContext
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_TOPIC_ID
from headrace.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

if TYPE_CHECKING:
    from headrace.broker.app import Broker


async def handle(broker: "Broker", request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    wanted = request.topics or tuple(DeleteTopicState(name=name, topic_id=NO_TOPIC_ID) for name in request.topic_names)
    return DeleteTopicsResponse(responses=tuple([await _delete(broker, topic) for topic in wanted]))


async def _delete(broker: "Broker", wanted: DeleteTopicState) -> DeletableTopicResult:
    name, topic_id = wanted.name, wanted.topic_id
    try:
        name, topic_id = _find(broker, wanted)
        if not broker.config["delete.topic.enable"]:
            raise RequestError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false on this broker.")
        await broker.cluster.delete_topic(name)
        await broker.replicas.settled()
    except RequestError as error:
        return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=ErrorCode.NONE)


def _find(broker: "Broker", wanted: DeleteTopicState) -> tuple[str, UUID]:
    if wanted.name is None:
        topic = broker.image.topics_by_id.get(wanted.topic_id)
        if topic is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, "There is no topic with this id.")
    elif wanted.topic_id != NO_TOPIC_ID:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Give a topic's name or its id, not both.")
    else:
        topic = broker.image.topics.get(wanted.name)
        if topic is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{wanted.name}' does not exist.")
    return topic.name, topic.topic_id
