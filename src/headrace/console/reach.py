"""From a request to the console that serves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from headrace.console.console import Console
    from headrace.gateway.api.call import Call

CONSOLE: Final = web.AppKey("headrace.console", object)


def console_of(call: Call) -> Console:
    from headrace.console.console import Console

    found = call.request.app[CONSOLE]
    assert isinstance(found, Console)
    return found
