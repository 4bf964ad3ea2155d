"""DescribeUserScramCredentials: who has SCRAM credentials, and how they were made (KIP-554)."""

from collections import Counter

from headrace.broker.network.dispatch import RequestContext
from headrace.controller.image import CurrentImage
from headrace.model.access.principals import NAME_CHARACTERS_MAX
from headrace.model.errors import ErrorCode
from headrace.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext, image: CurrentImage
) -> DescribeUserScramCredentialsResponse:
    known: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), credential in sorted(image().scram_credentials.items()):
        known.setdefault(user, []).append(CredentialInfo(mechanism=mechanism, iterations=credential.iterations))
    # As Kafka: no users stand for all of them.
    asked = Counter(user.name for user in request.users or ()) or dict.fromkeys(known, 1)
    return DescribeUserScramCredentialsResponse(
        error_code=ErrorCode.NONE,
        results=tuple(_described(name, count, known.get(name, [])) for name, count in asked.items()),
    )


def _described(name: str, count: int, credentials: list[CredentialInfo]) -> DescribeUserScramCredentialsResult:
    code, message = ErrorCode.NONE, None
    # A name may be as long as the message may be altogether.
    shown = name[:NAME_CHARACTERS_MAX]
    if count > 1:
        code, message = ErrorCode.DUPLICATE_RESOURCE, f"The user {shown} is used twice in the request."
    elif not credentials:
        code, message = ErrorCode.RESOURCE_NOT_FOUND, f"The user {shown} has no SCRAM credentials."
    infos = () if code else tuple(credentials)
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message, credential_infos=infos)
