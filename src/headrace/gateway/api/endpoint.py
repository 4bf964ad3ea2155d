"""From a request to its handler and back: the caller, the checks, `If-Match`, the idempotency key, and the answer's bytes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson
from aiohttp import web

from headrace.client.errors import HeadraceError
from headrace.gateway.api.call import Call, read_json, read_query, read_whole
from headrace.gateway.api.idempotency import Attempt, Memory
from headrace.gateway.api.operations import Operation, Reply
from headrace.gateway.serving.problems import Problem, problem_of

if TYPE_CHECKING:
    from headrace.gateway.gateway import Gateway

logger = logging.getLogger(__name__)

Endpoint = Callable[[web.Request], Awaitable[web.StreamResponse]]
IDEMPOTENCY_KEY_CHARACTERS_MAX: Final = 255


def endpoint(gateway: Gateway, operation: Operation, current: Operation | None, memory: Memory) -> Endpoint:
    """What aiohttp calls.  `current` shows the thing that the operation changes, for `If-Match`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            async with gateway.callers.of(request, operation.needs_caller) as caller:
                if operation.needs_caller:  # else nobody's rate would be everybody's
                    gateway.rates.take(caller.name)
                call = Call(gateway, request, caller, read_query(operation, request))
                if operation.body is not None and not operation.streams_in:
                    call.raw_body = await read_whole(request, gateway.settings.limits.body_seconds)
                    call.body = read_json(operation, request, call.raw_body)
                return await _answer(call, operation, current, memory)
        except (Problem, HeadraceError) as error:
            return problem_of(error).response()
        except (asyncio.CancelledError, ConnectionResetError, web.HTTPException):
            raise
        except Exception as error:
            logger.exception("%s %s failed", operation.method, operation.path)
            return problem_of(error).response()

    return answer


async def _answer(call: Call, operation: Operation, current: Operation | None, memory: Memory) -> web.StreamResponse:
    key = call.request.headers.get("Idempotency-Key")
    if operation.is_change and key is not None and not operation.streams_in:
        if not 0 < len(key) <= IDEMPOTENCY_KEY_CHARACTERS_MAX:
            raise Problem(400, "invalid_request", "The Idempotency-Key is empty or too long.", "Use a UUID.")
        async with memory.attempt(call.caller.name, key, _fingerprint(call)) as attempt:
            if attempt.answer is not None:
                return _response(*attempt.answer, {"Idempotency-Replayed": "true"})
            return await _change(call, operation, current, attempt)
    return await _change(call, operation, current, None)


async def _change(call: Call, operation: Operation, current: Operation | None, attempt: Attempt | None) -> web.StreamResponse:
    wanted = call.request.headers.get("If-Match")
    if operation.is_change and wanted is not None:
        await _require_match(call, current, wanted)
    found = await _in_time(call, operation)
    if isinstance(found, web.StreamResponse):
        return found
    reply = found if isinstance(found, Reply) else Reply(found)
    body = b"" if reply.body is None else orjson.dumps(reply.body, option=orjson.OPT_NON_STR_KEYS)
    status = reply.status or (operation.status if body or operation.status != 200 else 204)
    if attempt is not None:
        attempt.answer = (status, body)
    headers = dict(reply.headers)
    if not operation.is_change and body:
        headers["ETag"] = _tag(body)
        if _matches(call.request.headers.get("If-None-Match", ""), headers["ETag"]):
            return web.Response(status=304, headers=headers)
    return _response(status, body, headers)


async def _in_time(call: Call, operation: Operation) -> Any:
    if operation.streams_in or operation.answer_media != "application/json":
        return await operation.handler(call)
    try:
        async with asyncio.timeout(call.gateway.settings.limits.request_seconds):
            return await operation.handler(call)
    except TimeoutError:
        raise Problem(504, "took_too_long", "The brokers did not answer in time.", "Ask for less, or try again.") from None


async def _require_match(call: Call, current: Operation | None, wanted: str) -> None:
    if current is None:
        raise Problem(400, "if_match_not_taken", "Nothing here has an ETag.", "Send an Idempotency-Key instead.")
    query = {parameter.name: parameter.default for parameter in current.query}
    try:
        found = await current.handler(Call(call.gateway, call.request, call.caller, query))
    except (Problem, HeadraceError) as error:
        if problem_of(error).status != 404:
            raise
        raise _changed() from None
    body = found.body if isinstance(found, Reply) else found
    if not _matches(wanted, _tag(orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS))):
        raise _changed()


def _changed() -> Problem:
    return Problem(412, "changed_meanwhile", "It is not what If-Match names any more.", "GET it again, and repeat the change.")


def _tag(body: bytes) -> str:
    return f'"{base64.urlsafe_b64encode(hashlib.sha256(body).digest()[:15]).decode()}"'


def _matches(header: str, tag: str) -> bool:
    return any(each.strip().removeprefix("W/") in (tag, "*") for each in header.split(",") if each.strip())


def _fingerprint(call: Call) -> bytes:
    request = call.request
    return hashlib.sha256(b"\0".join([request.method.encode(), request.path_qs.encode(), call.raw_body])).digest()


def _response(status: int, body: bytes, headers: Mapping[str, str]) -> web.Response:
    if not body:
        return web.Response(status=status, headers=headers)
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)
