"""UnregisterBroker: forgets a broker that will not come back."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, int16, int32, string

UNREGISTER_BROKER = Api(key=64, versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRequest:
    """Which broker."""

    api: ClassVar[Api] = UNREGISTER_BROKER
    broker_id: Annotated[int, int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerResponse:
    """Whether it is forgotten."""

    api: ClassVar[Api] = UNREGISTER_BROKER
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
