"""DeleteAcls: removes rules of who may do what."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, int8, int16, int32, string

DELETE_ACLS = Api(key=31, versions=range(4), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsFilter:
    """Which rules to remove; null matches any."""

    resource_type_filter: Annotated[int, int8]
    resource_name_filter: Annotated[str | None, string]
    pattern_type_filter: Annotated[int, int8, Since(1)] = 3
    principal_filter: Annotated[str | None, string]
    host_filter: Annotated[str | None, string]
    operation: Annotated[int, int8]
    permission_type: Annotated[int, int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsRequest:
    """Filters.  v1 adds prefixed names; v2 is the first flexible version; v3 adds user resources."""

    api: ClassVar[Api] = DELETE_ACLS
    filters: Annotated[tuple[DeleteAclsFilter, ...], array(DeleteAclsFilter)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsMatchingAcl:
    """A rule that was removed."""

    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    resource_type: Annotated[int, int8]
    resource_name: Annotated[str, string]
    pattern_type: Annotated[int, int8, Since(1)] = 3
    principal: Annotated[str, string]
    host: Annotated[str, string]
    operation: Annotated[int, int8]
    permission_type: Annotated[int, int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsFilterResult:
    """What one filter removed."""

    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    matching_acls: Annotated[tuple[DeleteAclsMatchingAcl, ...], array(DeleteAclsMatchingAcl)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsResponse:
    """For each filter, the rules that it removed."""

    api: ClassVar[Api] = DELETE_ACLS
    throttle_time_ms: Annotated[int, int32] = 0
    filter_results: Annotated[tuple[DeleteAclsFilterResult, ...], array(DeleteAclsFilterResult)]
