"""Acts on settings: of topics, groups and brokers, and on the levels of loggers.

A setting of a broker that nobody knows could be a secret: as in DescribeConfigs, it is named, and its value is not told.
"""

from collections.abc import Iterable, Iterator, Mapping

from headrace.broker.administration import logger_levels
from headrace.broker.administration.config_changes import ConfigResourceType
from headrace.broker.audit.acts.act import Act, ActsOf, Surroundings, outcome
from headrace.broker.network.dispatch import RequestContext
from headrace.model.broker_settings import BROKER_SETTINGS
from headrace.model.identity import broker_id_of
from headrace.model.settings import Kind
from headrace.security.audit.events import Activity, Resource, ValueChange
from headrace.security.audit.redaction import HIDDEN
from headrace.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from headrace.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

ALL_BROKERS = "all"
Key = tuple[int, str]


def alter_configs(
    around: Surroundings, request: AlterConfigsRequest | IncrementalAlterConfigsRequest, context: RequestContext
) -> ActsOf | None:
    if request.validate_only:
        return None
    before = {key: _settings_of(around, *key) for key in map(_key, request.resources)}
    named = {_key(resource): [config.name for config in resource.configs] for resource in request.resources}
    replaces_all = isinstance(request, AlterConfigsRequest)

    def acts_of(response: AlterConfigsResponse | IncrementalAlterConfigsResponse) -> Iterator[Act]:
        for result in response.responses:
            key = result.resource_type, result.resource_name
            after = _settings_of(around, *key)
            names = [*named.get(key, ()), *(before.get(key, {}).keys() | after.keys() if replaces_all else ())]
            yield Act(
                activity=Activity.UPDATE,
                resources=(_resource(*key),),
                error=outcome(result.error_code),
                detail=result.error_message or "",
                changes=tuple(_changes(result.resource_type, dict.fromkeys(names), before.get(key, {}), after)),
            )

    return acts_of


def _key(resource: object) -> Key:
    return resource.resource_type, resource.resource_name  # type: ignore[attr-defined]


def _resource(resource_type: int, name: str) -> Resource:
    kind = ConfigResourceType(resource_type).name if resource_type in set(ConfigResourceType) else f"type {resource_type}"
    of_brokers = resource_type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
    return Resource(kind, name or (ALL_BROKERS if of_brokers else name))


def _settings_of(around: Surroundings, resource_type: int, name: str) -> Mapping[str, str]:
    image = around.image()
    match resource_type:
        case ConfigResourceType.TOPIC:
            topic = image.topics.get(name)
            return dict(topic.configs) if topic is not None else {}
        case ConfigResourceType.GROUP:
            return dict(image.group_configs.get(name, {}))
        case ConfigResourceType.CLIENT_METRICS:
            return dict(image.client_metrics.get(name, {}))
        case ConfigResourceType.BROKER if not name:
            return dict(image.default_broker_configs)
        case ConfigResourceType.BROKER if (broker_id := broker_id_of(name)) is not None:
            return dict(image.broker_configs.get(broker_id, {}))
        case ConfigResourceType.BROKER_LOGGER:
            return dict(logger_levels.levels())
        case _:
            return {}


def _changes(
    resource_type: int, names: Iterable[str], before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[ValueChange]:
    for name in names:
        old, new = before.get(name), after.get(name)
        if resource_type == ConfigResourceType.BROKER and not _may_be_shown(name):
            old, new = old and HIDDEN, new and HIDDEN
        yield ValueChange(name, old, new)


def _may_be_shown(name: str) -> bool:
    setting = BROKER_SETTINGS.by_name.get(name)
    return setting is not None and setting.kind != Kind.PASSWORD
