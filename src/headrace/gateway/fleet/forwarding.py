"""A request that another gateway has to answer, passed on to it as it came, with the caller's own credentials."""

from __future__ import annotations

from typing import Final

import aiohttp
from aiohttp import web

from headrace.gateway.serving.problems import Problem

MARK: Final = "Headrace-Forwarded"
PASSED_ON: Final = ("Authorization", "Content-Type", "Accept", "If-Match", "If-None-Match", "Idempotency-Key")
GIVEN_BACK: Final = ("Content-Type", "ETag", "Headrace-Next", "Retry-After", "Location", "WWW-Authenticate")
SECONDS_MAX: Final = 90.0


class Forwarder:
    """Connections to other gateways."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def forward(self, request: web.Request, body: bytes, url: str | None) -> web.Response:
        """What the other one answers.  Raises a Problem where it does not, or where this was passed on already."""
        if url is None or MARK in request.headers:
            raise taken_over()
        if "Authorization" not in request.headers and request.transport and request.transport.get_extra_info("peercert"):
            raise Problem(
                421,
                "ask_the_owner",
                "Another gateway has to answer this, and a client certificate cannot be passed on.",
                f"Ask {url}.",
            )
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers} | {MARK: "1"}
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=SECONDS_MAX, connect=3)
            self._session = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)
        try:
            target = url.rstrip("/") + request.raw_path
            async with self._session.request(request.method, target, data=body or None, headers=headers) as answer:
                back = {name: answer.headers[name] for name in GIVEN_BACK if name in answer.headers}
                return web.Response(status=answer.status, body=await answer.read(), headers=back)
        except (aiohttp.ClientError, OSError, TimeoutError):
            raise taken_over() from None


def taken_over() -> Problem:
    return Problem(
        503,
        "taken_over",
        "The gateway that had this is being taken over from.",
        "Try again in a few seconds.",
        headers={"Retry-After": "2"},
    )
