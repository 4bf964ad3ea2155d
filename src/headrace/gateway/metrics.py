"""What a gateway counts, and tells to Prometheus: requests by route, deliveries of webhooks, and what the schema registry holds.

Plain numbers, made larger where somebody has them anyway; the rest is looked at when somebody asks.  Told at an address of their
own (`--metrics`), or on the broker's page where the gateway runs beside it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.typedefs import Middleware

from headrace.gateway.serving.server import listen_address
from headrace.metrics.families import counter, gauge, histogram
from headrace.metrics.histogram import LongSeconds, Seconds
from headrace.metrics.rendering import form_for, rendered
from headrace.metrics.scrape import Scrape

if TYPE_CHECKING:
    from headrace.gateway.gateway import Gateway
    from headrace.gateway.webhooks.posting import Outcome

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

REQUESTS = counter(
    "headrace_gateway_requests_total", "Requests answered, by method, route and status.", "method", "route", "status"
)
SECONDS = histogram(
    "headrace_gateway_request_seconds", "How long requests took until they were answered; streams are not among them.", "route"
)
IN_FLIGHT = gauge("headrace_gateway_requests_in_flight", "Requests under way, open streams among them.", "route")
CONNECTIONS = gauge("headrace_gateway_connections", "Open connections of callers.")
CALLERS = gauge("headrace_gateway_callers", "Principals for which there are clients at the brokers.")
MEMBERS = gauge("headrace_gateway_members", "Members of groups that this gateway keeps for callers.")
SUBSCRIPTIONS = gauge(
    "headrace_webhook_subscriptions", "Subscriptions that this gateway delivers, or rests with after a failure.", "state"
)
ATTEMPTS = counter(
    "headrace_webhook_attempts_total",
    "Deliveries that were tried: delivered (2xx), refused (4xx), failed (any other answer), unanswered.",
    "outcome",
)
ATTEMPT_SECONDS = histogram("headrace_webhook_attempt_seconds", "How long endpoints took to answer, or were waited for.")
DELIVERED = counter("headrace_webhook_delivered_records_total", "Records that were delivered.")
DEAD = counter("headrace_webhook_dead_records_total", "Records that went to a dead-letter topic after the last attempt.")
SUBJECTS = gauge("headrace_registry_subjects", "Subjects of the schema registry; told once somebody has used it here.")
VERSIONS = gauge("headrace_registry_versions", "Versions of schemas in all subjects, those deleted softly among them.")
SCHEMAS = gauge("headrace_registry_schemas", "Schemas that differ, each with an id.")
FAMILIES = (
    *(REQUESTS, SECONDS, IN_FLIGHT, CONNECTIONS, CALLERS, MEMBERS),
    *(SUBSCRIPTIONS, ATTEMPTS, ATTEMPT_SECONDS, DELIVERED, DEAD),
    *(SUBJECTS, VERSIONS, SCHEMAS),
)

OUTCOMES = ("delivered", "refused", "failed", "unanswered")
UNKNOWN = "unknown"  # the route of what is not there


class Figures:
    """What is counted.  Routes are those of the application: nobody makes more of them."""

    def __init__(self) -> None:
        self.requests: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        self.seconds: defaultdict[str, Seconds] = defaultdict(Seconds)
        self.in_flight: defaultdict[str, int] = defaultdict(int)
        self.attempts = dict.fromkeys(OUTCOMES, 0)
        self.attempt_seconds = LongSeconds()
        self.delivered = 0
        self.dead = 0

    def on_attempt(self, outcome: Outcome) -> None:
        """An endpoint has answered, or has not."""
        self.attempt_seconds.observe(outcome.duration_ms / 1000)
        if outcome.status is None:
            self.attempts["unanswered"] += 1
        elif outcome.is_delivered:
            self.attempts["delivered"] += 1
        else:
            self.attempts["refused" if 400 <= outcome.status < 500 else "failed"] += 1


def counting(figures: Figures) -> Middleware:
    """What every request passes first."""

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        route = UNKNOWN if resource is None else resource.canonical
        method = request.method if resource is not None else UNKNOWN
        began = time.monotonic()
        figures.in_flight[route] += 1
        status = 500
        try:
            response = await handler(request)
            status = response.status
            if isinstance(response, web.Response):
                figures.seconds[route].observe(time.monotonic() - began)
            return response
        except web.HTTPException as error:
            status = error.status
            raise
        finally:
            figures.in_flight[route] -= 1
            figures.requests[method, route, status] += 1

    return count


def tell(gateway: Gateway, scrape: Scrape) -> None:
    """Add all that there is to say.  It may be called from another thread than the gateway's."""
    figures = gateway.figures
    scrape.rows(REQUESTS).extend(
        ((method, route, status), (count,)) for (method, route, status), count in list(figures.requests.items())
    )
    scrape.rows(SECONDS).extend(((route,), (found.taken(),)) for route, found in list(figures.seconds.items()))
    scrape.rows(IN_FLIGHT).extend(((route,), (count,)) for route, count in list(figures.in_flight.items()))
    scrape.add(CONNECTIONS, gateway.server.connections)
    scrape.add(CALLERS, len(gateway.callers))
    scrape.add(MEMBERS, len(gateway.members))
    running = list(gateway.engine.delivering.values())
    resting = sum(each.failure is not None for each in running)
    scrape.rows(SUBSCRIPTIONS).extend([(("delivering",), (len(running) - resting,)), (("resting",), (resting,))])
    scrape.rows(ATTEMPTS).extend(((outcome,), (count,)) for outcome, count in figures.attempts.items())
    scrape.add(ATTEMPT_SECONDS, figures.attempt_seconds.taken())
    scrape.add(DELIVERED, figures.delivered)
    scrape.add(DEAD, figures.dead)
    if (counts := gateway.schemas.counts()) is not None:
        for family, count in zip((SUBJECTS, VERSIONS, SCHEMAS), counts, strict=True):
            scrape.add(family, count)


class MetricsListener:
    """Serves the page at an address of its own, where it asks for no credentials and tells no names."""

    def __init__(self, gateway: Gateway, listen: str | None) -> None:
        self._gateway = gateway
        self._listen = listen
        application = web.Application()
        application.router.add_get("/metrics", self._page)
        self._runner = web.AppRunner(application, access_log=None)
        self.port = 0

    async def start(self) -> None:
        """Raises OSError where the address cannot be used."""
        if self._listen is None:
            return
        await self._runner.setup()
        site = web.TCPSite(self._runner, *listen_address(self._listen))
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        await self._runner.cleanup()

    async def _page(self, request: web.Request) -> web.Response:
        form, scrape = form_for(request.headers.get("Accept", "")), Scrape()
        tell(self._gateway, scrape)
        return web.Response(body=b"".join(rendered(scrape, form)), headers={"Content-Type": form.value})
