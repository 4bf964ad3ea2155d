"""AlterConfigs: replaces all settings of a resource.  Clients should use IncrementalAlterConfigs."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, boolean, int8, int16, int32, string

ALTER_CONFIGS = Api(key=33, versions=range(3), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterableConfig:
    """A setting and its value."""

    name: Annotated[str, string]
    value: Annotated[str | None, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResource:
    """A resource and all its settings."""

    resource_type: Annotated[int, int8]
    resource_name: Annotated[str, string]
    configs: Annotated[tuple[AlterableConfig, ...], array(AlterableConfig)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsRequest:
    """All settings that a resource shall have; others return to their defaults.  v2 is the first flexible version."""

    api: ClassVar[Api] = ALTER_CONFIGS
    resources: Annotated[tuple[AlterConfigsResource, ...], array(AlterConfigsResource)]
    validate_only: Annotated[bool, boolean]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResourceResponse:
    """What became of one resource."""

    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    resource_type: Annotated[int, int8]
    resource_name: Annotated[str, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResponse:
    """For each resource, whether it was done."""

    api: ClassVar[Api] = ALTER_CONFIGS
    throttle_time_ms: Annotated[int, int32] = 0
    responses: Annotated[tuple[AlterConfigsResourceResponse, ...], array(AlterConfigsResourceResponse)]
