"""SaslAuthenticate: one token of a SASL exchange."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, binary, int16, int64, string

SASL_AUTHENTICATE = Api(key=36, versions=range(3), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateRequest:
    """The client's token.  v2 is the first flexible version."""

    api: ClassVar[Api] = SASL_AUTHENTICATE
    auth_bytes: Annotated[bytes, binary]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateResponse:
    """The broker's token.  v1 adds how long the session lasts."""

    api: ClassVar[Api] = SASL_AUTHENTICATE
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    auth_bytes: Annotated[bytes, binary]
    session_lifetime_ms: Annotated[int, int64, Since(1)] = 0
