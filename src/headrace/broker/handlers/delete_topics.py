"""DeleteTopics: by name or by id; the name is free again when the reply is sent, whichever broker is asked next."""

from headrace.broker.administration.topics import Topics
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.network.throttling import Mutations, Throttling
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
        DeleteTopicsResponse(responses=tuple([await _delete(topics, config, topic, mutations) for topic in wanted]))
    )


async def _delete(topics: Topics, config: LiveConfig, wanted: DeleteTopicState, mutations: Mutations) -> DeletableTopicResult:
    try:
        if wanted.name is not None and wanted.topic_id != NO_TOPIC_ID:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Give a topic's name or its id, not both.")
        if not config.now["delete.topic.enable"]:
            raise RequestError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false on this broker.")
        topic = await topics.delete(wanted.name, wanted.topic_id, lambda topic: mutations.charge(topic.partition_count))
    except RequestError as error:
        return DeletableTopicResult(
            name=wanted.name, topic_id=wanted.topic_id, error_code=error.code, error_message=error.message
        )
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.NONE)
