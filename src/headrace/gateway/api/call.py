"""One request on its way to its handler: who asks, what the query says, and the body, all of them checked."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from headrace.gateway.api.operations import Operation, Parameter
from headrace.gateway.api.shapes import read
from headrace.gateway.serving.problems import Problem, bad_request

if TYPE_CHECKING:
    from headrace.gateway.callers.caller import Caller
    from headrace.gateway.gateway import Gateway


@dataclass(slots=True)
class Call:
    """What a handler is given."""

    gateway: Gateway
    request: web.Request
    caller: Caller
    query: dict[str, Any]
    body: Any = None
    raw_body: bytes = b""

    def path(self, name: str) -> str:
        return self.request.match_info[name]

    def number(self, name: str) -> int:
        """A whole number in the path."""
        text = self.request.match_info[name]
        if not text.isdecimal() or not text.isascii() or len(text) > 18:
            raise bad_request(f"The {name} in the path must be a whole number.")
        return int(text)


def read_query(operation: Operation, request: web.Request) -> dict[str, Any]:
    """The query string by what the operation declares; what it does not know is refused: it would be a misspelling."""
    declared = {parameter.name: parameter for parameter in operation.query}
    for name in request.query:
        if name not in declared:
            known = ", ".join(sorted(declared)) or "none"
            raise bad_request(f"The query has a parameter that is not known here; known: {known}.")
    return {name: _value(parameter, request.query.getall(name, [])) for name, parameter in declared.items()}


def _value(parameter: Parameter, given: list[str]) -> Any:
    if not given:
        if parameter.required:
            raise bad_request(f"The query lacks {parameter.name}.")
        return parameter.default
    if len(given) > 1:
        raise bad_request(f"The query has {parameter.name} more than once.")
    text = given[0]
    match parameter.kind:
        case "number":
            return _number(parameter, text)
        case "boolean":
            if text not in ("true", "false"):
                raise bad_request(f"{parameter.name} must be true or false.")
            return text == "true"
        case "choice" if text not in parameter.choices:
            raise bad_request(f"{parameter.name} must be one of {', '.join(parameter.choices)}.")
    if not text:
        raise bad_request(f"{parameter.name} must not be empty.")
    return text


def _number(parameter: Parameter, text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 19:
        raise bad_request(f"{parameter.name} must be a whole number.")
    number = int(text)
    if not parameter.minimum <= number <= parameter.maximum:
        raise bad_request(f"{parameter.name} must be from {parameter.minimum} to {parameter.maximum}.")
    return number


async def read_whole(request: web.Request, seconds: float) -> bytes:
    """A body that is not a stream."""
    try:
        async with asyncio.timeout(seconds):
            return await request.read()
    except TimeoutError:
        raise Problem(408, "body_too_slow", "The body did not come in time.", "Send it faster, or in parts.") from None
    except web.HTTPRequestEntityTooLarge:
        raise body_too_large() from None


def body_too_large() -> Problem:
    return Problem(413, "body_too_large", "The body is larger than this gateway takes.", "Send less at once, or stream NDJSON.")


def read_json(operation: Operation, request: web.Request, raw: bytes) -> Any:
    """The body as the operation's shape."""
    if request.content_type not in operation.body_media and request.body_exists:
        raise Problem(
            415,
            "media_type_not_taken",
            "The body has a media type that is not taken here.",
            f"Send Content-Type: {' or '.join(operation.body_media)}.",
        )
    if not raw and not operation.body_required:
        return None
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"The body is not JSON (line {error.lineno}, column {error.colno}).") from None
    return read(operation.body, value)
