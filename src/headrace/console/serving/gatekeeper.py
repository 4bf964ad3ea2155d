"""What every request passes: the session that it belongs to, the proof that its page is ours, read-only mode, and hiding.

A cookie alone changes nothing: browsers send it whoever asks them to.  So a request with a session that changes something needs
the session's proof in a header, which only a page of this origin can have read.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final

from aiohttp import web

from headrace.console.serving.hiding import Hiding
from headrace.console.serving.sessions import Session, Sessions
from headrace.gateway.serving.problems import Problem

PROOF: Final = "X-Headrace-Console"
SAFE: Final = ("GET", "HEAD", "OPTIONS")
OWN_SESSION: Final = "/console/api/session"
# What opens a socket by GET may write on it.
SOCKET: Final = "/ws"
# Schedules have what they write in them.
READS_ANY_TOPIC: Final = (
    "/ws",
    "/groups/{group}/members",
    "/consumers/",
    "/subscriptions",
    "/dead-letters/{topic}",
    "/schedules",
)
READS_ONE_TOPIC: Final = ("/topics/{topic}/records", "/topics/{topic}/events")


class Gatekeeper:
    """A middleware of the gateway's application."""

    def __init__(self, sessions: Sessions, hiding: Hiding, *, read_only: bool) -> None:
        self._sessions = sessions
        self._hiding = hiding
        self._read_only = read_only

    @web.middleware
    async def guard(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        session = self._sessions.of(request)
        problem = self._refusal(request, session)
        if problem is not None:
            return problem.response()
        # Only what looks may be cut short: a change that has begun is answered.
        watched = nullcontext() if session is None or request.method not in SAFE else session.watched()
        with watched:
            response: web.StreamResponse = await handler(request)
        return response

    def _refusal(self, request: web.Request, session: Session | None) -> Problem | None:
        is_own = request.path == OWN_SESSION
        changes = request.method not in SAFE or request.path == SOCKET
        if changes and session is not None and "Authorization" not in request.headers and not is_own:
            given = request.headers.get(PROOF, "")
            if not hmac.compare_digest(given.encode(), session.proof.encode()):
                return Problem(
                    403, "not_from_the_console", "This request does not come from a page of the console.", "Load the page again."
                )
        if is_own and request.method not in SAFE and PROOF not in request.headers:
            return Problem(403, "not_from_the_console", f"The header {PROOF} is missing.", "Sign in at /console/.")
        if self._read_only and changes and not is_own:
            return Problem(403, "read_only", "This console is read-only.", "Use another one, or the command that the page shows.")
        return self._hidden(request)

    def _hidden(self, request: web.Request) -> Problem | None:
        """The console's own paths show what is left; the gateway's would show all."""
        if not self._hiding:
            return None
        resource = request.match_info.route.resource
        path = "" if resource is None else resource.canonical
        topic = request.match_info.get("topic", "")
        is_hidden = path.startswith(READS_ANY_TOPIC) and not path.endswith("/redrives")
        if is_hidden or (path in READS_ONE_TOPIC and request.method in SAFE and self._hiding.concerns(topic)):
            return Problem(
                403, "payload_hidden", "A rule of this console hides these payloads.", "Read the topic with a client instead."
            )
        return None
