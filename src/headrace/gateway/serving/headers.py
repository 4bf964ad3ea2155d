"""Headers of every answer: what browsers may make of it, and which other origins may ask (none, unless named)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from headrace.gateway.serving.problems import Problem

ALWAYS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
ASKED: Final = "Authorization, Content-Type, If-Match, If-None-Match, Idempotency-Key, Last-Event-ID"
SAFE: Final = ("GET", "HEAD", "OPTIONS")
METHODS: Final = "GET, POST, PUT, PATCH, DELETE"


class Manners:
    """`origins` are those whose pages may call this gateway."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        self._origins = frozenset(origins)

    async def on_prepare(self, request: web.Request, response: web.StreamResponse) -> None:
        for name, value in ALWAYS.items():
            response.headers.setdefault(name, value)
        # aiohttp has put its own version and Python's there by now.
        response.headers["Server"] = "headrace"
        if (origin := self._allowed(request)) is not None:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = "ETag, Retry-After, Link"
            response.headers["Vary"] = "Origin"

    def _allowed(self, request: web.Request) -> str | None:
        origin = request.headers.get("Origin")
        return origin if origin in self._origins else None

    def _is_of_another_page(self, request: web.Request) -> bool:
        """Whether a browser sends this for a page from elsewhere.  Of a text or a form it asks nobody before, and what hides
        the answer from the page comes after the change."""
        origin = request.headers.get("Origin")
        if origin is None or origin in self._origins:
            return False
        if (site := request.headers.get("Sec-Fetch-Site")) is not None:
            return site not in ("same-origin", "none")
        return origin.partition("://")[2] != request.headers.get("Host")

    @web.middleware
    async def answer_preflights(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            if self._allowed(request) is None:
                return Problem(
                    403, "origin_not_allowed", "Pages of this origin may not call here.", "Name it with --cors-origin."
                ).response()
            headers = {
                "Access-Control-Allow-Methods": METHODS,
                "Access-Control-Allow-Headers": ASKED,
                "Access-Control-Max-Age": "600",
            }
            return web.Response(status=204, headers=headers)
        if request.method not in SAFE and self._is_of_another_page(request):
            return Problem(
                403, "origin_not_allowed", "Pages of this origin may not call here.", "Name it with --cors-origin."
            ).response()
        response: web.StreamResponse = await handler(request)
        return response


@web.middleware
async def errors_as_problems(request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
    """What aiohttp itself refuses, in the same form as everything else."""
    try:
        response: web.StreamResponse = await handler(request)
        return response
    except web.HTTPRedirection:
        raise
    except web.HTTPNotFound:
        return Problem(404, "not_found", "There is nothing at this path.", "GET /openapi.json lists what there is.").response()
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        return Problem(
            405, "method_not_allowed", "This path does not take this method.", f"It takes {allowed}.", headers={"Allow": allowed}
        ).response()
    except web.HTTPRequestEntityTooLarge:
        return Problem(413, "body_too_large", "The body is larger than this gateway takes.", "Send less at once.").response()
    except web.HTTPException as error:
        return Problem(error.status, "refused", f"{error.reason}.", "Correct the request.").response()
