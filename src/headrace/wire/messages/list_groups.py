"""ListGroups: the groups that this broker coordinates."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, int16, int32, string

LIST_GROUPS = Api(key=16, versions=range(6), flexible_from=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsRequest:
    """Asks for groups.  v3 is the first flexible version; v4 filters by state, v5 by type."""

    api: ClassVar[Api] = LIST_GROUPS
    states_filter: Annotated[tuple[str, ...], array(string), Since(4)] = ()
    types_filter: Annotated[tuple[str, ...], array(string), Since(5)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group."""

    group_id: Annotated[str, string]
    protocol_type: Annotated[str, string]
    group_state: Annotated[str, string, Since(4)] = ""
    group_type: Annotated[str, string, Since(5)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse:
    """The groups.  v1 adds the throttle time, v4 states, v5 types."""

    api: ClassVar[Api] = LIST_GROUPS
    throttle_time_ms: Annotated[int, int32, Since(1)] = 0
    error_code: Annotated[int, int16]
    groups: Annotated[tuple[ListedGroup, ...], array(ListedGroup)]
