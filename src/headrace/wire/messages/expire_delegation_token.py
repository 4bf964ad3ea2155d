"""ExpireDelegationToken: an earlier end for a token."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, binary, int16, int32, int64

EXPIRE_DELEGATION_TOKEN = Api(key=40, versions=range(3), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireDelegationTokenRequest:
    """Which token, and for how long.  v2 is the first flexible version."""

    api: ClassVar[Api] = EXPIRE_DELEGATION_TOKEN
    hmac: Annotated[bytes, binary]
    expiry_time_period_ms: Annotated[int, int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireDelegationTokenResponse:
    """When it expires now."""

    api: ClassVar[Api] = EXPIRE_DELEGATION_TOKEN
    error_code: Annotated[int, int16]
    expiry_timestamp_ms: Annotated[int, int64]
    throttle_time_ms: Annotated[int, int32] = 0
