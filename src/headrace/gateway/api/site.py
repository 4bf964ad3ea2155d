"""OpenAPI, the page to try it, and whether the gateway is alive and ready."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Final

import orjson
from aiohttp import web

from headrace.client.errors import HeadraceError
from headrace.gateway.api.call import Call
from headrace.gateway.api.openapi import openapi
from headrace.gateway.api.operations import Operations
from headrace.gateway.api.shapes import described
from headrace.gateway.serving.problems import no_broker, sentence

if TYPE_CHECKING:
    from headrace.gateway.gateway import Gateway

operations = Operations("gateway")
PAGE_FILES: Final = {"page.css": "text/css", "page.js": "text/javascript"}
READY_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Health:
    """How the gateway is."""

    status: Annotated[str, described("`alive` or `ready`.")]
    name: Annotated[str, described("The name of this gateway among others.")]
    connections: Annotated[int, described("Connections to it.")]
    callers: Annotated[int, described("Principals that it has clients for.")]
    coordinated: Annotated[bool, described("Whether it knows of other gateways, and delivers webhooks.")]


@operations.get("/live", "Whether the process answers", answer=Health, needs_caller=False)
async def live(call: Call) -> Health:
    return _health(call.gateway, "alive")


@operations.get("/ready", "Whether a broker answers it, too", answer=Health, needs_caller=False)
async def ready(call: Call) -> Health:
    """503 while no broker can be reached, or while it stops."""
    gateway = call.gateway
    if gateway.is_stopping:
        raise no_broker("This gateway stops.")
    try:
        async with asyncio.timeout(READY_SECONDS):
            await gateway.look_for_broker()
    except TimeoutError:
        raise no_broker("No broker answers in time.") from None
    except HeadraceError as error:
        raise no_broker(sentence(error)) from None
    return _health(gateway, "ready")


def _health(gateway: Gateway, status: str) -> Health:
    return Health(status, gateway.name, gateway.server.connections, len(gateway.callers), gateway.fleet.holds_lease)


def add_site(application: web.Application, gateway: Gateway) -> None:
    """The routes that are for people, and the description for programs."""
    document = orjson.dumps(openapi(gateway.operations))

    async def describe(request: web.Request) -> web.Response:
        return web.Response(body=document, content_type="application/json")

    async def home(request: web.Request) -> web.Response:
        raise web.HTTPFound("/try/")

    async def page(request: web.Request) -> web.Response:
        return web.Response(body=_file("index.html"), content_type="text/html", charset="utf-8")

    async def part(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in PAGE_FILES:
            raise web.HTTPNotFound
        return web.Response(body=_file(name), content_type=PAGE_FILES[name], charset="utf-8")

    application.router.add_get("/openapi.json", describe)
    application.router.add_get("/", home)
    application.router.add_get("/try", home)
    application.router.add_get("/try/", page)
    application.router.add_get("/try/{name}", part)


def _file(name: str) -> bytes:
    return (files("headrace.gateway.api") / "page" / name).read_bytes()
