"""DeleteTopics: by name or by id; the name is free again when the reply is sent, whichever broker is asked next."""

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import RequestContext
from headrace.broker.network.throttling import Mutations
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_TOPIC_ID
from headrace.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

if TYPE_CHECKING:
    from headrace.broker.app import Broker

STRICT_FROM = 5  # versions from here on know THROTTLING_QUOTA_EXCEEDED


async def handle(broker: "Broker", request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    wanted = request.topics or tuple(DeleteTopicState(name=name, topic_id=NO_TOPIC_ID) for name in request.topic_names)
    mutations = broker.throttling.mutations(context, strict_from=STRICT_FROM)
    return mutations.with_wait(
        DeleteTopicsResponse(responses=tuple([await _delete(broker, topic, mutations) for topic in wanted]))
    )


async def _delete(broker: "Broker", wanted: DeleteTopicState, mutations: Mutations) -> DeletableTopicResult:
    try:
        if wanted.name is not None and wanted.topic_id != NO_TOPIC_ID:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Give a topic's name or its id, not both.")
        if not broker.config["delete.topic.enable"]:
            raise RequestError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false on this broker.")
        topic = await broker.topics.delete(wanted.name, wanted.topic_id, lambda topic: mutations.charge(topic.partition_count))
    except RequestError as error:
        return DeletableTopicResult(
            name=wanted.name, topic_id=wanted.topic_id, error_code=error.code, error_message=error.message
        )
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.NONE)
