"""DeleteTopics: by name or by id; the name is free again when the reply is sent, whichever broker is asked next."""

from headrace.broker.administration.topics import Topics
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.network.throttling import Mutations, Throttling
from headrace.controller.image import Topic
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_TOPIC_ID
from headrace.model.live_config import LiveConfig
from headrace.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

STRICT_FROM = 5  # versions from here on know THROTTLING_QUOTA_EXCEEDED


async def handle(
    request: DeleteTopicsRequest, context: RequestContext, topics: Topics, throttling: Throttling, config: LiveConfig
) -> DeleteTopicsResponse:
    wanted = request.topics or tuple(DeleteTopicState(name=name, topic_id=NO_TOPIC_ID) for name in request.topic_names)
    mutations = throttling.mutations(context, strict_from=STRICT_FROM)
    return mutations.with_wait(
        DeleteTopicsResponse(responses=tuple([await _delete(topics, config, topic, mutations, context) for topic in wanted]))
    )


async def _delete(
    topics: Topics, config: LiveConfig, wanted: DeleteTopicState, mutations: Mutations, context: RequestContext
) -> DeletableTopicResult:
    def admit(topic: Topic) -> None:
        if wanted.name is None:
            _require(context, topic.name)
        mutations.charge(topic.partition_count)

    try:
        if wanted.name is not None:
            _require(context, wanted.name)
        if wanted.name is not None and wanted.topic_id != NO_TOPIC_ID:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Give a topic's name or its id, not both.")
        if not config.now["delete.topic.enable"]:
            raise RequestError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false on this broker.")
        topic = await topics.delete(wanted.name, wanted.topic_id, admit)
    except RequestError as error:
        return DeletableTopicResult(
            name=wanted.name, topic_id=wanted.topic_id, error_code=error.code, error_message=error.message
        )
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.NONE)


def _require(context: RequestContext, name: str) -> None:
    if not context.may(Operation.DELETE, ResourceType.CLUSTER):
        context.require(Operation.DESCRIBE, ResourceType.TOPIC, name)
        context.require(Operation.DELETE, ResourceType.TOPIC, name)
