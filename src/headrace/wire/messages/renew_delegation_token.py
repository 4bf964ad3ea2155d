"""RenewDelegationToken: a longer life for a token."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, binary, int16, int32, int64

RENEW_DELEGATION_TOKEN = Api(key=39, versions=range(3), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewDelegationTokenRequest:
    """Which token, and for how long.  v2 is the first flexible version."""

    api: ClassVar[Api] = RENEW_DELEGATION_TOKEN
    hmac: Annotated[bytes, binary]
    renew_period_ms: Annotated[int, int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewDelegationTokenResponse:
    """When it expires now."""

    api: ClassVar[Api] = RENEW_DELEGATION_TOKEN
    error_code: Annotated[int, int16]
    expiry_timestamp_ms: Annotated[int, int64]
    throttle_time_ms: Annotated[int, int32] = 0
