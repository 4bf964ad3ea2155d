"""The form of answers and errors that clients of Confluent's REST proxy know."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson
from aiohttp import web

from headrace.client.errors import HeadraceError
from headrace.gateway.api.call import Call, read_whole
from headrace.gateway.serving.problems import Problem, bad_request, problem_of

V2: Final = "application/vnd.kafka.v2+json"
CODES: Final = {"topic_not_found": 40401, "member_not_found": 40403, "not_signed_in": 40101, "member_exists": 40902}

Handler = Callable[[Call], Awaitable[web.StreamResponse]]


def answered(body: Any, media_type: str = V2, status: int = 200) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(body), content_type=media_type)


def error_document(problem: Problem, *, v3: bool = False) -> dict[str, Any]:
    """v2 has codes of five digits for what it knows, v3 the status."""
    code = problem.status if v3 else CODES.get(problem.code, problem.status * 100 + 1)
    return {"error_code": code, "message": f"{problem.detail} {problem.advice}"}


def in_their_form(handler: Handler, *, v3: bool = False) -> Handler:
    """Errors as their clients read them."""

    @functools.wraps(handler)
    async def answer(call: Call) -> web.StreamResponse:
        try:
            return await handler(call)
        except (Problem, HeadraceError) as error:
            problem = problem_of(error)
            response = answered(error_document(problem, v3=v3), "application/json" if v3 else V2, problem.status)
            response.headers.update(problem.headers)
            return response

    return answer


async def body_of(call: Call) -> dict[str, Any]:
    """A JSON object; an empty body is an empty one."""
    raw = await read_whole(call.request, call.gateway.settings.limits.body_seconds)
    if not raw.strip():
        return {}
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise bad_request("The body is not JSON.") from None
    if not isinstance(found, dict):
        raise bad_request("The body must be an object.")
    return found
