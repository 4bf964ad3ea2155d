"""IncrementalAlterConfigs: sets, deletes, appends to and subtracts from single settings of a resource."""

from collections.abc import Mapping
from functools import partial

from headrace.broker.administration import logger_levels
from headrace.broker.administration.config_changes import ConfigChanges, ConfigResourceType, require_right, require_this_broker
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.telemetry.subscriptions import CLIENT_METRICS_SETTINGS
from headrace.model.access.acls import Operation
from headrace.model.broker_settings import BROKER_SETTINGS
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.group_settings import GROUP_SETTINGS
from headrace.model.settings import Kind, Setting, SettingError
from headrace.model.topic_settings import TOPIC_SETTINGS
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET, DELETE, APPEND, SUBTRACT = range(4)
TABLES = {
    ConfigResourceType.TOPIC: TOPIC_SETTINGS,
    ConfigResourceType.BROKER: BROKER_SETTINGS,
    ConfigResourceType.GROUP: GROUP_SETTINGS,
    ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS_SETTINGS,
}


async def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext, configs: ConfigChanges, broker_id: int
) -> IncrementalAlterConfigsResponse:
    responses = []
    for resource in request.resources:
        code, message = ErrorCode.NONE, None
        try:
            require_right(context, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)
            _check_named_once(resource)
            await _alter(configs, broker_id, resource, validate_only=request.validate_only)
        except RequestError as error:
            code, message = error.code, error.message
        responses.append(
            AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=resource.resource_type, resource_name=resource.resource_name
            )
        )
    return IncrementalAlterConfigsResponse(responses=tuple(responses))


def _check_named_once(resource: AlterConfigsResource) -> None:
    names = [config.name for config in resource.configs]
    if len(set(names)) != len(names):
        raise RequestError(ErrorCode.INVALID_REQUEST, "A setting is used twice in the request.")


async def _alter(configs: ConfigChanges, broker_id: int, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        require_this_broker(broker_id, resource.resource_name)
        _alter_loggers(resource, validate_only=validate_only)
    else:
        change = partial(_changed, resource)
        await configs.alter(resource.resource_type, resource.resource_name, change, validate_only=validate_only)


def _alter_loggers(resource: AlterConfigsResource, *, validate_only: bool) -> None:
    """A level is set or deleted, nothing else; a wrong one among many changes none."""
    for config in resource.configs:
        if config.config_operation == SET:
            logger_levels.require_level(config.name, config.value)
        elif config.config_operation == DELETE:
            logger_levels.require_removable(config.name)
        else:
            raise RequestError(ErrorCode.INVALID_REQUEST, "The level of a logger can be set and deleted, nothing else.")
    if validate_only:
        return
    for config in resource.configs:
        if config.config_operation == DELETE:
            logger_levels.remove_level(config.name)
        else:
            assert config.value is not None
            logger_levels.set_level(config.name, config.value)


def _changed(resource: AlterConfigsResource, before: Mapping[str, str]) -> Mapping[str, str]:
    after = dict(before)
    for config in resource.configs:
        if config.config_operation == DELETE:
            # What is not known cannot be set either: deleting it changes nothing.
            after.pop(config.name, None)
            continue
        _apply(_setting(resource, config), config, after)
    return after


def _setting(resource: AlterConfigsResource, config: AlterableConfig) -> Setting:
    try:
        return TABLES[ConfigResourceType(resource.resource_type)][config.name]
    except SettingError as error:
        if resource.resource_type == ConfigResourceType.BROKER and config.config_operation == SET:
            # Whether it may be stored is decided with the rest.
            return Setting(name=config.name, kind=Kind.STRING, default=None, doc="")
        of_clients = resource.resource_type == ConfigResourceType.CLIENT_METRICS
        raise RequestError(ErrorCode.INVALID_REQUEST if of_clients else ErrorCode.INVALID_CONFIG, f"{error}.") from None


def _apply(setting: Setting, config: AlterableConfig, texts: dict[str, str]) -> None:
    if config.value is None:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"The setting {config.name} has no value.")
    if config.config_operation == SET:
        texts[config.name] = config.value
        return
    if setting.kind != Kind.LIST or config.config_operation not in (APPEND, SUBTRACT):
        raise RequestError(ErrorCode.INVALID_CONFIG, f"{config.name} is not a list: it can be set and deleted, nothing else.")
    current = texts.get(config.name, setting.format(setting.default) or "")
    items = [item for item in current.split(",") if item]
    given = [item.strip() for item in config.value.split(",") if item.strip()]
    if config.config_operation == APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    texts[config.name] = ",".join(items)
