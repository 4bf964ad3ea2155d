"""ListConfigResources: what there is that has settings (KIP-1142).  In its first version it asks for client metrics alone."""

from collections.abc import Iterable

from headrace.broker.administration.config_changes import ConfigResourceType
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.image import CurrentImage
from headrace.model.errors import ErrorCode
from headrace.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

FIRST_VERSION_WITH_TYPES = 1


def handle(request: ListConfigResourcesRequest, context: RequestContext, image: CurrentImage) -> ListConfigResourcesResponse:
    asked: Iterable[int] = (ConfigResourceType.CLIENT_METRICS,)
    if context.api_version >= FIRST_VERSION_WITH_TYPES:
        asked = dict.fromkeys(request.resource_types) or ConfigResourceType
    if not set(asked) <= set(ConfigResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=())
    return ListConfigResourcesResponse(
        error_code=ErrorCode.NONE,
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in asked
            for name in _names(image, ConfigResourceType(kind))
        ),
    )


def _names(image: CurrentImage, kind: ConfigResourceType) -> list[str]:
    match kind:
        case ConfigResourceType.TOPIC:
            return list(image().topics)
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            return [str(broker_id) for broker_id in sorted(image().brokers)]
        case ConfigResourceType.GROUP:
            return sorted(image().group_configs)
        case ConfigResourceType.CLIENT_METRICS:
            return sorted(image().client_metrics)
