"""DeleteGroups: removes empty groups and their offsets."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, int16, int32, string

DELETE_GROUPS = Api(key=42, versions=range(4), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsRequest:
    """The groups to remove.  v2 is the first flexible version."""

    api: ClassVar[Api] = DELETE_GROUPS
    groups_names: Annotated[tuple[str, ...], array(string)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableGroupResult:
    """What became of one group."""

    group_id: Annotated[str, string]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string, Since(3)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse:
    """For each group, whether it is gone.  v3 adds messages."""

    api: ClassVar[Api] = DELETE_GROUPS
    throttle_time_ms: Annotated[int, int32] = 0
    results: Annotated[tuple[DeletableGroupResult, ...], array(DeletableGroupResult)]
