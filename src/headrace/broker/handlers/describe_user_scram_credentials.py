"""DescribeUserScramCredentials: no user has SCRAM credentials here, and whoever asks is told so."""

from collections import Counter

from headrace.broker.network.dispatch import RequestContext
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(request: DescribeUserScramCredentialsRequest, context: RequestContext) -> DescribeUserScramCredentialsResponse:
    asked = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        error_code=ErrorCode.NONE, results=tuple(_refusal(name, count) for name, count in asked.items())
    )


def _refusal(name: str, count: int) -> DescribeUserScramCredentialsResult:
    error = RequestError(ErrorCode.RESOURCE_NOT_FOUND, f"The user {name} has no SCRAM credentials.")
    if count > 1:
        error = RequestError(ErrorCode.DUPLICATE_RESOURCE, f"The user {name} is used twice in the request.")
    return DescribeUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.message, credential_infos=())
