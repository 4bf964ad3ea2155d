"""DescribeConfigs: settings with their source, default, type, synonyms and documentation; levels of loggers."""

from collections.abc import Callable

from headrace.broker.administration import logger_levels
from headrace.broker.administration.config_changes import ConfigResourceType, require_broker, require_right, require_this_broker
from headrace.broker.administration.settings_view import (
    BrokerSources,
    Source,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.image import ClusterImage, CurrentImage
from headrace.declaring import dataclass
from headrace.model.access.acls import Operation
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

# Not settings: what the broker says of itself and of its cluster, for whoever asks by these names.  The protocol has no better
# place for it.
DEGRADED = "headrace.degraded"
UNCLEAN_ELECTIONS = "headrace.unclean.elections"


def handle(
    request: DescribeConfigsRequest,
    context: RequestContext,
    image: CurrentImage,
    sources: Callable[[], BrokerSources],
    reasons: Callable[[], tuple[str, ...]],
    broker_id: int,
) -> DescribeConfigsResponse:
    description = _Description(request, context, image(), sources(), reasons, broker_id)
    return DescribeConfigsResponse(results=tuple(map(description.answer, request.resources)))


@dataclass(frozen=True, slots=True)
class _Description:
    """What one request is told."""

    request: DescribeConfigsRequest
    context: RequestContext
    image: ClusterImage
    sources: BrokerSources
    reasons: Callable[[], tuple[str, ...]]
    broker_id: int

    def answer(self, resource: DescribeConfigsResource) -> DescribeConfigsResult:
        code, message = ErrorCode.NONE, None
        configs: tuple[DescribeConfigsResourceResult, ...] = ()
        try:
            require_right(self.context, Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name)
            configs = self._describe(resource)
        except RequestError as error:
            code, message = error.code, error.message
        return DescribeConfigsResult(
            error_code=code,
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=configs,
        )

    def _describe(self, resource: DescribeConfigsResource) -> tuple[DescribeConfigsResourceResult, ...]:
        # No keys mean all of them, be the list empty or null.
        keys, sources = resource.configuration_keys or None, self.sources
        synonyms, documentation = self.request.include_synonyms, self.request.include_documentation
        match resource.resource_type:
            case ConfigResourceType.TOPIC:
                topic = self.image.topics.get(resource.resource_name)
                if topic is None:
                    raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{resource.resource_name}' does not exist.")
                return describe_topic(topic.configs, sources, keys, synonyms=synonyms, documentation=documentation)
            case ConfigResourceType.BROKER:
                require_broker(self.broker_id, resource.resource_name)
                if keys == (DEGRADED,):
                    return (_read_only(DEGRADED, "; ".join(self.reasons())),)
                if keys == (UNCLEAN_ELECTIONS,):
                    return (_read_only(UNCLEAN_ELECTIONS, self.image.unclean_elections.to_value().decode()),)
                if resource.resource_name == "":
                    return describe_all_brokers(sources, keys, synonyms=synonyms, documentation=documentation)
                return describe_broker(sources, keys, synonyms=synonyms, documentation=documentation)
            case ConfigResourceType.BROKER_LOGGER:
                require_this_broker(self.broker_id, resource.resource_name)
                return tuple(_level(name, level) for name, level in logger_levels.levels() if keys is None or name in keys)
            case ConfigResourceType.GROUP:
                if not resource.resource_name:
                    raise RequestError(ErrorCode.INVALID_REQUEST, "There are no default settings of all groups; name a group.")
                configs = self.image.group_configs.get(resource.resource_name, {})
                return describe_group(configs, sources, keys, synonyms=synonyms, documentation=documentation)
            case ConfigResourceType.CLIENT_METRICS:
                if not resource.resource_name:
                    raise RequestError(ErrorCode.INVALID_REQUEST, "A subscription has to have a name.")
                texts = self.image.client_metrics.get(resource.resource_name, {})
                return describe_client_metrics(texts, sources, keys, synonyms=synonyms, documentation=documentation)
            case _:
                raise RequestError(ErrorCode.INVALID_REQUEST, f"Resource type {resource.resource_type} has no settings.")


def _read_only(name: str, value: str) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(name=name, value=value, read_only=True, is_sensitive=False)


def _level(name: str, level: str) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name, value=level, read_only=False, config_source=Source.LOGGER, is_sensitive=False, documentation=None
    )
