"""Under which names a gateway may be called, where callers need no credentials.

A page from anywhere may have its own name point to a gateway's address (DNS rebinding): the browser then takes the gateway for a
part of that page, and what the gateway lets anybody do, the page can do.  The name stands in the Host header.  With TLS the
certificate does not fit it; where callers sign in, the page has nothing to sign in with.  Without either, only names pass that
nobody can point elsewhere, and those that were named.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web

from headrace.gateway.serving.problems import Problem

# No registrar sells these, so no page is there (RFC 6761, RFC 6762, ICANN's resolution on .internal).
NEVER_PUBLIC: Final = (".localhost", ".local", ".internal", ".home.arpa")


class Hosts:
    """`named` are names, or URLs with them."""

    def __init__(self, named: Iterable[str | None]) -> None:
        self._named = frozenset(_name(each) for each in named if each)

    def allows(self, host: str) -> bool:
        """Whether this, as the Host header has it, can be trusted to be this gateway."""
        name = _name(host)
        if name in self._named or "." not in name or name.endswith(NEVER_PUBLIC):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    @web.middleware
    async def check(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        # Browsers always send it; what else leaves it out is no page.
        host = request.headers.get("Host")
        if host is not None and not self.allows(host):
            return Problem(
                421,
                "host_not_allowed",
                "This gateway, which anybody may call, is not known by this name.",
                "Call it by its address, or name it with --allowed-host.",
            ).response()
        response: web.StreamResponse = await handler(request)
        return response


def _name(host: str) -> str:
    """Without scheme, port and the dot of the root, in small letters; brackets of IPv6 addresses go, too."""
    try:
        found = urlsplit(host if "//" in host else f"//{host}").hostname
    except ValueError:
        return host
    return (found or "").rstrip(".").lower()
