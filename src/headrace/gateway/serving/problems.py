"""Every error as problem+json (RFC 9457): a code for programs, the reason, and what to do.

Whose fault it is decides the status: the caller's are 4xx, a broker that does not answer is 503, and what nobody expected is 500
without a word of what happened inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from aiohttp import web

from headrace.client.errors import (
    BrokerError,
    BrokerTimeout,
    DeliveryFailed,
    EncodeFailed,
    GroupNotFound,
    HeadraceError,
    InvalidArgument,
    SecurityFailed,
    TopicExists,
    TopicNotFound,
)
from headrace.model.errors import ErrorCode

MEDIA_TYPE: Final = "application/problem+json"
CHALLENGES: Final = 'Basic realm="headrace", charset="UTF-8"'


class Problem(Exception):
    """What a caller is told instead of an answer."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        advice: str,
        *,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.advice = advice
        self.headers = dict(headers or {})
        self.more = dict(more or {})

    def document(self) -> dict[str, Any]:
        return {
            "type": f"urn:headrace:problem:{self.code}",
            "title": self.code.replace("_", " "),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "advice": self.advice,
            **self.more,
        }

    def response(self) -> web.Response:
        return web.Response(status=self.status, body=orjson.dumps(self.document()), content_type=MEDIA_TYPE, headers=self.headers)


def bad_request(detail: str, advice: str = "Correct the request as /openapi.json describes it.") -> Problem:
    return Problem(400, "invalid_request", detail, advice)


def not_found(code: str, detail: str, advice: str) -> Problem:
    return Problem(404, code, detail, advice)


def unauthorized(detail: str) -> Problem:
    return Problem(
        401,
        "not_signed_in",
        detail,
        "Send the credentials of a user of the cluster: Authorization: Basic, or Bearer.",
        headers={"WWW-Authenticate": CHALLENGES},
    )


def problem_of(error: Exception) -> Problem:
    """What the SDK raised, for a caller of ours."""
    match error:
        case Problem():
            return error
        case SecurityFailed():
            return unauthorized(sentence(error))
        case TopicNotFound():
            return Problem(404, "topic_not_found", sentence(error), "GET /topics lists the topics there are.")
        case GroupNotFound():
            return Problem(404, "group_not_found", sentence(error), "GET /groups lists the groups there are.")
        case TopicExists():
            return Problem(409, "topic_exists", sentence(error), "Choose another name, or use the topic that is there.")
        case BrokerError():
            return _broker_problem(error.code, sentence(error), retriable=error.retriable)
        case DeliveryFailed() if not isinstance(error, BrokerTimeout):
            return _delivery_problem(error)
        case BrokerTimeout():
            return no_broker(sentence(error))
        case InvalidArgument() | EncodeFailed():
            return bad_request(sentence(error))
        case HeadraceError():
            return Problem(409, "wrong_state", sentence(error), "Look at what was done before, and try again.")
        case _:
            return Problem(500, "internal", "The gateway failed.", "Try again; the gateway's log says what happened.")


def no_broker(detail: str) -> Problem:
    return Problem(503, "no_broker", detail, "Try again; look at the brokers when it persists.", headers={"Retry-After": "1"})


def sentence(error: Exception) -> str:
    text = str(error).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."


_FORBIDDEN: Final = frozenset(code for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED"))
_STATUS: Final[Mapping[int, tuple[int, str]]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (404, "GET /topics lists the topics there are."),
    ErrorCode.UNKNOWN_TOPIC_ID: (404, "GET /topics lists the topics there are."),
    ErrorCode.GROUP_ID_NOT_FOUND: (404, "GET /groups lists the groups there are."),
    ErrorCode.RESOURCE_NOT_FOUND: (404, "List what there is, and name one of it."),
    ErrorCode.TOPIC_ALREADY_EXISTS: (409, "Choose another name, or use the topic that is there."),
    ErrorCode.NON_EMPTY_GROUP: (409, "Stop the members of the group first."),
    ErrorCode.UNKNOWN_MEMBER_ID: (409, "The group has members: stop them first."),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (409, "Stop the members of the group first."),
    ErrorCode.REASSIGNMENT_IN_PROGRESS: (409, "Wait until the moves under way have ended: GET /moves."),
    ErrorCode.OFFSET_OUT_OF_RANGE: (416, "GET /topics/{topic}/partitions shows the first and the next offset."),
    ErrorCode.MESSAGE_TOO_LARGE: (413, "Send smaller records, or raise max.message.bytes of the topic."),
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: (429, "Wait, and try again more slowly."),
    ErrorCode.POLICY_VIOLATION: (409, "Ask the operator of the cluster which limit holds."),
    ErrorCode.UNSUPPORTED_VERSION: (501, "The brokers do not know this; newer ones may."),
    ErrorCode.SECURITY_DISABLED: (501, "Switch the authorizer of the cluster on."),
}


def _broker_problem(code: int, detail: str, *, retriable: bool) -> Problem:
    known = ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
    name = known.name.lower()
    if known in _FORBIDDEN:
        return Problem(403, name, detail, "Ask for the right, or sign in as somebody who has it.")
    if known in _STATUS:
        status, advice = _STATUS[known]
        return Problem(status, name, detail, advice)
    if retriable or code < 0:
        return Problem(503, name, detail, "Try again in a moment.", headers={"Retry-After": "1"})
    return Problem(400, name, detail, "Correct the request as the reason says.")


def _delivery_problem(error: DeliveryFailed) -> Problem:
    """librdkafka names errors in its own way; those of rights and of size are the protocol's."""
    for known in (*_FORBIDDEN, ErrorCode.POLICY_VIOLATION):
        if error.name == known.name:
            return _broker_problem(known, sentence(error), retriable=False)
    if error.name in ("MSG_SIZE_TOO_LARGE", "_MSG_SIZE_TOO_LARGE"):
        return _broker_problem(ErrorCode.MESSAGE_TOO_LARGE, sentence(error), retriable=False)
    if error.name in ("_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION"):
        return _broker_problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, sentence(error), retriable=False)
    if error.name == "INVALID_RECORD":
        return Problem(422, "invalid_record", sentence(error), "Send what the topic's schema demands.")
    return Problem(503 if error.retriable else 409, "not_written", sentence(error), "Look at the reason, and send it again.")
