"""How many connections there may be, and how long each may take to say what it wants.

aiohttp limits the size of a request line and of headers; how many clients there are, and how slowly they write, is limited here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

import orjson
from aiohttp import web

from headrace.gateway.serving.problems import MEDIA_TYPE, Problem
from headrace.gateway.settings import Limits

TOO_MANY: Final = Problem(
    503, "too_many_connections", "This gateway has as many connections as it may.", "Try again, or ask another gateway."
)


class Refusal(asyncio.Protocol):
    """A connection too many: told so, and closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        writing = cast(asyncio.Transport, transport)  # uvloop's are, and do not say so
        body = orjson.dumps(TOO_MANY.document())
        head = (
            f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
            "Retry-After: 1\r\nConnection: close\r\n\r\n"
        )
        writing.write(head.encode() + body)
        writing.close()


class Connections:
    """Makes the protocols of new connections, and ends those that dawdle."""

    def __init__(self, server: web.Server, limits: Limits) -> None:
        self._server = server
        self._limits = limits
        self._deadlines: dict[Any, asyncio.TimerHandle] = {}

    def __call__(self) -> asyncio.Protocol:
        if len(self._server.connections) >= self._limits.connections_max:
            return Refusal()
        protocol = self._server()
        self._arm(protocol, self._limits.header_seconds)
        return protocol

    @web.middleware
    async def watch(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        """A request has come whole; when it is answered, the wait for the next one begins."""
        protocol = request.protocol
        if (timer := self._deadlines.pop(protocol, None)) is not None:
            timer.cancel()
        try:
            response: web.StreamResponse = await handler(request)
            return response
        finally:
            self._arm(protocol, self._limits.idle_seconds + self._limits.header_seconds)

    def _arm(self, protocol: Any, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._deadlines[protocol] = loop.call_later(seconds, self._end, protocol)

    def _end(self, protocol: Any) -> None:
        self._deadlines.pop(protocol, None)
        if protocol.transport is not None:
            protocol.transport.close()
