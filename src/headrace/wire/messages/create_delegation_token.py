"""CreateDelegationToken: a token to sign in with in a user's name."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, binary, int16, int32, int64, string

CREATE_DELEGATION_TOKEN = Api(key=38, versions=range(4), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableRenewers:
    """Somebody who may renew the token."""

    principal_type: Annotated[str, string]
    principal_name: Annotated[str, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelegationTokenRequest:
    """Asks for a token.  v2 is the first flexible version; v3 may ask in another's name."""

    api: ClassVar[Api] = CREATE_DELEGATION_TOKEN
    owner_principal_type: Annotated[str | None, string, Since(3)] = None
    owner_principal_name: Annotated[str | None, string, Since(3)] = None
    renewers: Annotated[tuple[CreatableRenewers, ...], array(CreatableRenewers)]
    max_lifetime_ms: Annotated[int, int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelegationTokenResponse:
    """The token."""

    api: ClassVar[Api] = CREATE_DELEGATION_TOKEN
    error_code: Annotated[int, int16]
    principal_type: Annotated[str, string]
    principal_name: Annotated[str, string]
    token_requester_principal_type: Annotated[str, string, Since(3)] = ""
    token_requester_principal_name: Annotated[str, string, Since(3)] = ""
    issue_timestamp_ms: Annotated[int, int64]
    expiry_timestamp_ms: Annotated[int, int64]
    max_timestamp_ms: Annotated[int, int64]
    token_id: Annotated[str, string]
    hmac: Annotated[bytes, binary]
    throttle_time_ms: Annotated[int, int32] = 0
