"""CreateAcls: new rules of who may do what."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, int8, int16, int32, string

CREATE_ACLS = Api(key=30, versions=range(4), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCreation:
    """A rule to make."""

    resource_type: Annotated[int, int8]
    resource_name: Annotated[str, string]
    resource_pattern_type: Annotated[int, int8, Since(1)] = 3
    principal: Annotated[str, string]
    host: Annotated[str, string]
    operation: Annotated[int, int8]
    permission_type: Annotated[int, int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsRequest:
    """The rules.  v1 adds prefixed names; v2 is the first flexible version; v3 adds user resources."""

    api: ClassVar[Api] = CREATE_ACLS
    creations: Annotated[tuple[AclCreation, ...], array(AclCreation)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCreationResult:
    """What became of one rule."""

    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsResponse:
    """For each rule, whether it was made."""

    api: ClassVar[Api] = CREATE_ACLS
    throttle_time_ms: Annotated[int, int32] = 0
    results: Annotated[tuple[AclCreationResult, ...], array(AclCreationResult)]
