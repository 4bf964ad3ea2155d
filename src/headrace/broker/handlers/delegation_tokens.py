"""Delegation tokens (Create-, Renew-, Expire- and DescribeDelegationToken): answered as disabled, as Kafka does where no secret
for them is set.  Nobody can sign in with one."""

from headrace.broker.network.dispatch import RequestContext
from headrace.model.errors import ErrorCode
from headrace.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from headrace.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from headrace.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from headrace.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

DISABLED = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
NEVER = -1


def create(request: CreateDelegationTokenRequest, context: RequestContext) -> CreateDelegationTokenResponse:
    who = context.principal
    return CreateDelegationTokenResponse(
        error_code=DISABLED,
        principal_type=request.owner_principal_type or who.kind,
        principal_name=request.owner_principal_name or who.name,
        token_requester_principal_type=who.kind,
        token_requester_principal_name=who.name,
        issue_timestamp_ms=NEVER,
        expiry_timestamp_ms=NEVER,
        max_timestamp_ms=NEVER,
        token_id="",
        hmac=b"",
    )


def renew(request: RenewDelegationTokenRequest, context: RequestContext) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=DISABLED, expiry_timestamp_ms=NEVER)


def expire(request: ExpireDelegationTokenRequest, context: RequestContext) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=DISABLED, expiry_timestamp_ms=NEVER)


def describe(request: DescribeDelegationTokenRequest, context: RequestContext) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=DISABLED, tokens=())
