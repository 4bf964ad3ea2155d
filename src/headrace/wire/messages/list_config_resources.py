"""ListConfigResources: resources that have settings of their own."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, int8, int16, int32, string

LIST_CONFIG_RESOURCES = Api(key=74, versions=range(2), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConfigResourcesRequest:
    """Asks for resources: in v0 only for client metrics, from v1 on by type."""

    api: ClassVar[Api] = LIST_CONFIG_RESOURCES
    resource_types: Annotated[tuple[int, ...], array(int8), Since(1)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigResource:
    """A resource."""

    resource_name: Annotated[str, string]
    resource_type: Annotated[int, int8, Since(1)] = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConfigResourcesResponse:
    """The resources."""

    api: ClassVar[Api] = LIST_CONFIG_RESOURCES
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    config_resources: Annotated[tuple[ConfigResource, ...], array(ConfigResource)]
