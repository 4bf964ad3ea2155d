"""JSON in and out, as Confluent's registry speaks it: its content types, its errors, its query parameters."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import orjson
from aiohttp import web

from headrace.client.errors import HeadraceError
from headrace.registry.formats.schema import MissingLibrary
from headrace.registry.rules.errors import RegistryError, invalid_request, invalid_version

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
VERSION_MAX: Final = 2**31 - 1
LATEST: Final = -1
log = logging.getLogger("headrace.registry")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")


def answer(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type=CONTENT_TYPE)


def refusal(code: int, message: str) -> web.Response:
    status = code if code < 1000 else code // 100
    return answer({"error_code": code, "message": message}, status)


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every refusal has Confluent's shape; what is our fault is logged, and its reason is not told."""
    try:
        return await handler(request)
    except RegistryError as error:
        return refusal(error.code, error.message)
    except MissingLibrary as error:
        return refusal(501, str(error))
    except web.HTTPException as error:
        return refusal(error.status, error.reason)
    except HeadraceError as error:
        return refusal(50001, f"the cluster refused: {error}")
    except TimeoutError:
        return refusal(50002, "the cluster did not answer in time")
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return refusal(500, "the registry failed; its log says why")


async def body(request: web.Request) -> dict[str, Any]:
    try:
        given = orjson.loads(await request.read())
    except orjson.JSONDecodeError:
        raise RegistryError(400, "the body is not JSON") from None
    if not isinstance(given, dict):
        raise invalid_request("the body is not a JSON object")
    return given


def flag(request: web.Request, name: str) -> bool:
    return request.query.get(name, "").lower() == "true"


def version_number(text: str) -> int:
    """-1 for the latest."""
    if text == "latest":
        return LATEST
    try:
        number = int(text)
    except ValueError:
        raise invalid_version(text) from None
    if number != LATEST and not 1 <= number <= VERSION_MAX:
        raise invalid_version(text)
    return number


def page(request: web.Request, found: Sequence[T]) -> list[T]:
    """`offset` and `limit` of a list; a limit below 0 is none."""
    offset, limit = _number(request, "offset", 0), _number(request, "limit", -1)
    return list(found[offset:] if limit < 0 else found[offset : offset + limit])


def _number(request: web.Request, name: str, otherwise: int) -> int:
    text = request.query.get(name)
    try:
        return otherwise if text is None else int(text)
    except ValueError:
        raise RegistryError(404, f"{name}={text} is not a number") from None
