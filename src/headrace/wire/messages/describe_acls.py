"""DescribeAcls: who may do what."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, int8, int16, int32, string

DESCRIBE_ACLS = Api(key=29, versions=range(4), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsRequest:
    """A filter.  v1 adds prefixed names; v2 is the first flexible version; v3 adds user resources."""

    api: ClassVar[Api] = DESCRIBE_ACLS
    resource_type_filter: Annotated[int, int8]
    resource_name_filter: Annotated[str | None, string]
    pattern_type_filter: Annotated[int, int8, Since(1)] = 3
    principal_filter: Annotated[str | None, string]
    host_filter: Annotated[str | None, string]
    operation: Annotated[int, int8]
    permission_type: Annotated[int, int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclDescription:
    """One rule."""

    principal: Annotated[str, string]
    host: Annotated[str, string]
    operation: Annotated[int, int8]
    permission_type: Annotated[int, int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsResource:
    """A resource and its rules."""

    resource_type: Annotated[int, int8]
    resource_name: Annotated[str, string]
    pattern_type: Annotated[int, int8, Since(1)] = 3
    acls: Annotated[tuple[AclDescription, ...], array(AclDescription)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsResponse:
    """The rules that match."""

    api: ClassVar[Api] = DESCRIBE_ACLS
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    resources: Annotated[tuple[DescribeAclsResource, ...], array(DescribeAclsResource)]
