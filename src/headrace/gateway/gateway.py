"""A gateway, put together: what it serves, for whom, and its start and its end.

It knows the wire and an address, and nothing of a broker's inside, so it serves any cluster that speaks the protocol.  Every act
is the caller's own, never the gateway's; what the gateway does for itself, which is to keep subscriptions and to know of other
gateways, it does with its own credentials.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from aiohttp import web

from headrace.client.brokers.connection import greet
from headrace.client.errors import InvalidArgument, SecurityFailed
from headrace.client.security.tls import protocol_of
from headrace.gateway.administration import (
    access,
    cluster,
    dead_letters,
    groups,
    queues,
    schedules,
    telemetry,
    topics,
    transactions,
)
from headrace.gateway.administration.schemas import Schemas
from headrace.gateway.api import site
from headrace.gateway.api.endpoint import endpoint
from headrace.gateway.api.idempotency import Memory
from headrace.gateway.api.operations import Operation, Operations
from headrace.gateway.brokers.cluster import CLIENT_ID
from headrace.gateway.callers.caller import Caller
from headrace.gateway.callers.callers import Callers
from headrace.gateway.callers.credentials import Credentials, Doorkeeper, sends_passwords_in_the_clear
from headrace.gateway.callers.rates import Rates
from headrace.gateway.confluent import consumers_v2, produce_v3
from headrace.gateway.confluent.consumers_v2 import Instances
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.forwarding import Forwarder
from headrace.gateway.live import events, websocket
from headrace.gateway.metrics import Figures, MetricsListener, counting
from headrace.gateway.records import consume, delays, members, produce
from headrace.gateway.records.by_schema import BySchema
from headrace.gateway.records.members import Members
from headrace.gateway.serving.headers import Manners, errors_as_problems
from headrace.gateway.serving.hosts import Hosts
from headrace.gateway.serving.server import Server
from headrace.gateway.serving.tasks import Tasks
from headrace.gateway.webhooks import operations as webhooks
from headrace.gateway.webhooks.engine import Engine
from headrace.gateway.webhooks.guard import Guard
from headrace.gateway.webhooks.posting import Poster
from headrace.gateway.webhooks.sealing import Seal

if TYPE_CHECKING:
    from headrace.gateway.api.call import Call
    from headrace.gateway.settings import GatewaySettings

logger = logging.getLogger(__name__)

ANSWERED_S: Final = 1.0


def all_operations() -> Iterator[Operations]:
    """What there is, in the order in which it is shown."""
    yield produce.operations
    yield delays.operations
    yield consume.operations
    yield members.operations
    yield events.operations
    yield websocket.operations
    yield webhooks.operations
    yield topics.operations
    yield groups.operations
    yield queues.operations
    yield transactions.operations
    yield schedules.operations
    yield cluster.operations
    yield telemetry.operations
    yield access.operations
    yield dead_letters.operations
    yield produce_v3.operations
    yield consumers_v2.operations
    yield site.operations


class Addition(Protocol):
    """Something that is served beside the gateway's own operations, such as the console."""

    @property
    def operations(self) -> Sequence[Operation]: ...

    def add_to(self, application: web.Application) -> None: ...

    def start(self) -> None: ...

    async def close(self) -> None: ...


class Gateway:
    """Start it on a loop; stop it there.  `additions` are made with the gateway that they are added to."""

    def __init__(self, settings: GatewaySettings, additions: Sequence[Callable[[Gateway], Addition]] = ()) -> None:
        self.settings = settings
        self.name = settings.name or secrets.token_hex(4)
        self.tasks = Tasks()
        doorkeeper = Doorkeeper(
            {**settings.properties, "bootstrap.servers": settings.bootstrap}, settings.sasl_mechanism, settings.identities
        )
        self.callers = Callers(doorkeeper, settings.bootstrap, settings.limits, self.tasks, time.monotonic)
        self.rates = Rates(settings.limits.requests_per_second, time.monotonic)
        self.operations: list[Operation] = [each for room in all_operations() for each in room.each]
        self.stopping = asyncio.Event()
        self._looking = asyncio.Lock()
        self._answered_until = 0.0
        own = Credentials("the gateway's own", self.name, settings.properties)
        self.own = Caller(own, settings.bootstrap, time.monotonic())
        self.seal = Seal(settings.secret_key_file)
        self.fleet = Fleet(self.name, self.own, self.tasks, lambda: settings.advertise or self.server.url, self.seal)
        self.members = Members(self.fleet, settings.limits.members_max, settings.limits.member_idle_seconds)
        self.instances = Instances()
        self._forwarder = Forwarder()
        self.guard = _guard(settings)
        self.figures = Figures()
        self.poster = Poster(self.guard)
        self.engine = Engine(self.fleet, self.callers, self.poster, self.seal, settings.limits.caller_age_seconds, self.figures)
        self.schemas = Schemas(self)
        self.by_schema = BySchema(self.schemas)
        self._additions = [make(self) for make in additions]
        self.operations += [each for addition in self._additions for each in addition.operations]
        self.server = Server(self._application(), settings)
        self.metrics = MetricsListener(self, settings.metrics)

    @property
    def is_stopping(self) -> bool:
        return self.stopping.is_set()

    def _application(self) -> web.Application:
        manners = Manners(self.settings.cors_origins)
        application = web.Application(
            middlewares=[counting(self.figures), *self._checks_of_names(), manners.answer_preflights, errors_as_problems],
            client_max_size=self.settings.limits.body_bytes_max,
        )
        application.on_response_prepare.append(manners.on_prepare)
        memory = Memory(time.monotonic)
        shown_at = {operation.path: operation for operation in self.operations if operation.method == "GET"}
        for operation in self.operations:
            current = shown_at.get(operation.path)
            application.router.add_route(operation.method, operation.path, endpoint(self, operation, current, memory))
        self.schemas.add_to(application)
        site.add_site(application, self)
        for addition in self._additions:
            addition.add_to(application)
        return application

    def _checks_of_names(self) -> list[Any]:
        settings = self.settings
        if settings.tls is not None or "sasl" in protocol_of(settings.properties):
            return []
        return [Hosts([*settings.allowed_hosts, settings.advertise, settings.listen]).check]

    def allows_origin(self, origin: str, host: str) -> bool:
        """Whether a page of this origin may open a WebSocket here: browsers ask nobody before they do."""
        return origin in self.settings.cors_origins or origin.partition("://")[2] == host

    async def start(self) -> None:
        """Return when requests are served.  Raises OSError where the address cannot be used."""
        if self.settings.tls is None and sends_passwords_in_the_clear(self.settings.properties):
            logger.warning("passwords travel without TLS, from callers and to brokers")
        await self.server.start()
        await self.metrics.start()
        self.tasks.keep(self.callers.forget_idle, "let go of idle callers")
        self.tasks.keep(self.server.renew_certificates, "look for new certificates")
        self.tasks.keep(self.members.forget_idle, "let go of idle members")
        self.fleet.start()
        self.tasks.keep(self.engine.run, "deliver webhooks")
        for addition in self._additions:
            addition.start()

    async def stop(self) -> None:
        """End what is under way, and let go of everything."""
        self.stopping.set()
        for caller in self.callers:
            caller.cluster.tails.wake()
        await self.server.close()
        for addition in self._additions:
            await addition.close()
        await self.metrics.close()
        await self.members.close()
        await self.schemas.close()
        await self.engine.close()
        await self.fleet.stop()
        await self.tasks.close()
        await self._forwarder.close()
        await self.poster.close()
        await self.callers.close()
        await self.own.close()

    async def forward(self, call: Call, owner: str) -> web.Response:
        """Have another gateway answer."""
        return await self._forwarder.forward(call.request, call.raw_body, self.fleet.living().get(owner))

    async def look_for_broker(self) -> None:
        """Return when one answers, or did a moment ago; whoever asks meanwhile waits for the same answer.  Health has no limit of
        requests, and costs the brokers no more for that."""
        async with self._looking:
            if time.monotonic() >= self._answered_until:
                with suppress(SecurityFailed):  # somebody is there, and wants to know who asks
                    await greet(self.settings.bootstrap, self.callers.doorkeeper.way(), client_id=CLIENT_ID)
                self._answered_until = time.monotonic() + ANSWERED_S


def _guard(settings: GatewaySettings) -> Guard:
    try:
        return Guard(settings.webhook_networks, plain_http=settings.webhook_http)
    except ValueError as error:
        raise InvalidArgument(f"a network that webhooks may go to is none: {error}") from None


async def serve(
    settings: GatewaySettings,
    on_ready: Callable[[Gateway], None],
    stopping: asyncio.Event,
    additions: Sequence[Callable[[Gateway], Addition]] = (),
) -> None:
    """Serve until `stopping` is set."""
    gateway = Gateway(settings, additions)
    try:
        await gateway.start()
        on_ready(gateway)
        await stopping.wait()
    finally:
        await gateway.stop()
