"""IncrementalAlterConfigs: changes single settings of a resource."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, boolean, int8, int16, int32, string

INCREMENTAL_ALTER_CONFIGS = Api(key=44, versions=range(2), flexible_from=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterableConfig:
    """A change to one setting."""

    name: Annotated[str, string]
    config_operation: Annotated[int, int8]
    value: Annotated[str | None, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResource:
    """A resource and the changes to it."""

    resource_type: Annotated[int, int8]
    resource_name: Annotated[str, string]
    configs: Annotated[tuple[AlterableConfig, ...], array(AlterableConfig)]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsRequest:
    """Changes to settings, each one set (0), delete (1), append (2) or subtract (3).  v1 is the first flexible version."""

    api: ClassVar[Api] = INCREMENTAL_ALTER_CONFIGS
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
class IncrementalAlterConfigsResponse:
    """For each resource, whether it was done."""

    api: ClassVar[Api] = INCREMENTAL_ALTER_CONFIGS
    throttle_time_ms: Annotated[int, int32] = 0
    responses: Annotated[tuple[AlterConfigsResourceResponse, ...], array(AlterConfigsResourceResponse)]
