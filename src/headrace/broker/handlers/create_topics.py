"""CreateTopics: each topic is made or refused by itself; one bad setting fails its own topic only."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from headrace.broker.administration.partition_limits import refused_by_size
from headrace.broker.administration.settings_view import BrokerSources, topic_results
from headrace.broker.administration.topics import NewTopic, Topics
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.network.throttling import Throttling
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.live_config import LiveConfig
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

STRICT_FROM = 6  # versions from here on know THROTTLING_QUOTA_EXCEEDED


async def handle(
    request: CreateTopicsRequest,
    context: RequestContext,
    topics: Topics,
    sources: Callable[[], BrokerSources],
    throttling: Throttling,
    config: LiveConfig,
) -> CreateTopicsResponse:
    names = Counter(topic.name for topic in request.topics)
    mutations = throttling.mutations(context, strict_from=STRICT_FROM)
    results = []
    too_many = refused_by_size(_partition_count(config, topic) for topic in request.topics)
    for topic in {topic.name: topic for topic in request.topics}.values():
        try:
            if not context.may(Operation.CREATE, ResourceType.CLUSTER):
                context.require(Operation.CREATE, ResourceType.TOPIC, topic.name)
            if too_many is not None:
                raise too_many
            if names[topic.name] > 1:
                raise RequestError(ErrorCode.INVALID_REQUEST, "The topic is used twice in the request.")
            if mutations.are_limited:
                # What cannot be done is not counted, so that is found out first.
                await _create(topics, sources, topic, True)
                mutations.charge(_partition_count(config, topic))
            created = await _create(topics, sources, topic, request.validate_only)
            shows = context.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name)
            results.append(created if shows else _without_settings(created))
        except RequestError as error:
            results.append(CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message))
    return mutations.with_wait(CreateTopicsResponse(topics=tuple(results)))


async def _create(
    topics: Topics, sources: Callable[[], BrokerSources], topic: CreatableTopic, validate_only: bool
) -> CreatableTopicResult:
    wanted = NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=_assignments(topic),
        configs=_configs(topic),
    )
    spec, _ = await topics.create(wanted, validate_only=validate_only)
    assignments = spec.assignments
    return CreatableTopicResult(
        name=topic.name,
        topic_id=spec.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=spec.partition_count if assignments is None else len(assignments),
        replication_factor=spec.replication_factor if assignments is None else len(assignments[0]),
        configs=topic_results(sources(), spec.configs),
    )


def _without_settings(created: CreatableTopicResult) -> CreatableTopicResult:
    return replace(
        created,
        topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        num_partitions=-1,
        replication_factor=-1,
        configs=None,
    )


def _partition_count(config: LiveConfig, topic: CreatableTopic) -> int:
    count = len(topic.assignments) or topic.num_partitions
    return int(config.now["num.partitions"]) if count == -1 else count


def _assignments(topic: CreatableTopic) -> dict[int, tuple[int, ...]] | None:
    if not topic.assignments:
        return None
    assignments = {given.partition_index: tuple(given.broker_ids) for given in topic.assignments}
    if len(assignments) != len(topic.assignments):
        raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is used twice in the assignment.")
    return assignments


def _configs(topic: CreatableTopic) -> dict[str, str]:
    configs: dict[str, str] = {}
    for config in topic.configs:
        if config.value is None:
            raise RequestError(ErrorCode.INVALID_CONFIG, f"The setting {config.name} has no value.")
        configs[config.name] = config.value
    return configs
