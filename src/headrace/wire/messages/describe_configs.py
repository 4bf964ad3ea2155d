"""DescribeConfigs: settings of topics, brokers, groups and more, and where each value comes from."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, Until, array, boolean, int8, int16, int32, string

DESCRIBE_CONFIGS = Api(key=32, versions=range(5), flexible_from=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResource:
    """What to describe; null keys mean all of them."""

    resource_type: Annotated[int, int8]
    resource_name: Annotated[str, string]
    configuration_keys: Annotated[tuple[str, ...] | None, array(string)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsRequest:
    """Asks for all settings of resources, or for those named.

    v1 may ask for synonyms, v3 for documentation; v4 is the first flexible version.
    """

    api: ClassVar[Api] = DESCRIBE_CONFIGS
    resources: Annotated[tuple[DescribeConfigsResource, ...], array(DescribeConfigsResource)]
    include_synonyms: Annotated[bool, boolean, Since(1)] = False
    include_documentation: Annotated[bool, boolean, Since(3)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsSynonym:
    """Another place that gives the setting a value, in order of precedence."""

    name: Annotated[str, string]
    value: Annotated[str | None, string]
    source: Annotated[int, int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResourceResult:
    """One setting."""

    name: Annotated[str, string]
    value: Annotated[str | None, string]
    read_only: Annotated[bool, boolean]
    is_default: Annotated[bool, boolean, Until(0)] = False
    config_source: Annotated[int, int8, Since(1)] = -1
    is_sensitive: Annotated[bool, boolean]
    synonyms: Annotated[tuple[DescribeConfigsSynonym, ...], array(DescribeConfigsSynonym), Since(1)] = ()
    config_type: Annotated[int, int8, Since(3)] = 0
    documentation: Annotated[str | None, string, Since(3)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResult:
    """The settings of one resource."""

    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    resource_type: Annotated[int, int8]
    resource_name: Annotated[str, string]
    configs: Annotated[tuple[DescribeConfigsResourceResult, ...], array(DescribeConfigsResourceResult)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResponse:
    """The settings.  v1 tells their source and synonyms, v3 their type and documentation."""

    api: ClassVar[Api] = DESCRIBE_CONFIGS
    throttle_time_ms: Annotated[int, int32] = 0
    results: Annotated[tuple[DescribeConfigsResult, ...], array(DescribeConfigsResult)]
