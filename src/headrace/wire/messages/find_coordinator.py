"""FindCoordinator: which broker looks after a group, a transactional id or a share partition."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, Until, array, int8, int16, int32, string

FIND_COORDINATOR = Api(key=10, versions=range(7), flexible_from=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorRequest:
    """Asks for the coordinator of a key.

    v1 adds the kind of key (0 group, 1 transaction, 2 share), v3 is the first flexible version, v4 asks for many keys at
    once, v6 adds the share kind.
    """

    api: ClassVar[Api] = FIND_COORDINATOR
    key: Annotated[str, string, Until(3)] = ""
    key_type: Annotated[int, int8, Since(1)] = 0
    coordinator_keys: Annotated[tuple[str, ...], array(string), Since(4)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """The broker that looks after one key."""

    key: Annotated[str, string]
    node_id: Annotated[int, int32]
    host: Annotated[str, string]
    port: Annotated[int, int32]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponse:
    """The broker to talk to; from v4 on one answer for each key."""

    api: ClassVar[Api] = FIND_COORDINATOR
    throttle_time_ms: Annotated[int, int32, Since(1)] = 0
    error_code: Annotated[int, int16, Until(3)] = 0
    error_message: Annotated[str | None, string, Since(1), Until(3)] = None
    node_id: Annotated[int, int32, Until(3)] = 0
    host: Annotated[str, string, Until(3)] = ""
    port: Annotated[int, int32, Until(3)] = 0
    coordinators: Annotated[tuple[Coordinator, ...], array(Coordinator), Since(4)] = ()
