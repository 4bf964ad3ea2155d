"""DescribeDelegationToken: which tokens there are."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, binary, int16, int32, int64, string

DESCRIBE_DELEGATION_TOKEN = Api(key=41, versions=range(4), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDelegationTokenOwner:
    """Somebody whose tokens are asked for."""

    principal_type: Annotated[str, string]
    principal_name: Annotated[str, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDelegationTokenRequest:
    """Asks for tokens by their owners; null means all.  v2 is the first flexible version."""

    api: ClassVar[Api] = DESCRIBE_DELEGATION_TOKEN
    owners: Annotated[tuple[DescribeDelegationTokenOwner, ...] | None, array(DescribeDelegationTokenOwner)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedDelegationTokenRenewer:
    """Somebody who may renew a token."""

    principal_type: Annotated[str, string]
    principal_name: Annotated[str, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedDelegationToken:
    """One token."""

    principal_type: Annotated[str, string]
    principal_name: Annotated[str, string]
    token_requester_principal_type: Annotated[str, string, Since(3)] = ""
    token_requester_principal_name: Annotated[str, string, Since(3)] = ""
    issue_timestamp: Annotated[int, int64]
    expiry_timestamp: Annotated[int, int64]
    max_timestamp: Annotated[int, int64]
    token_id: Annotated[str, string]
    hmac: Annotated[bytes, binary]
    renewers: Annotated[tuple[DescribedDelegationTokenRenewer, ...], array(DescribedDelegationTokenRenewer)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDelegationTokenResponse:
    """The tokens.  v3 adds who asked for them."""

    api: ClassVar[Api] = DESCRIBE_DELEGATION_TOKEN
    error_code: Annotated[int, int16]
    tokens: Annotated[tuple[DescribedDelegationToken, ...], array(DescribedDelegationToken)]
    throttle_time_ms: Annotated[int, int32] = 0
