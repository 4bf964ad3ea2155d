"""The console, put together: pages, sessions, what it watches, and what it answers.

It is added to a gateway, whose operations its pages call with the credentials of whoever looks at them.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from headrace.console.messages import operations as messages
from headrace.console.nouns import (
    brokers,
    groups,
    letters,
    overview,
    pipelines,
    security,
    session,
    topics,
    transactions,
)
from headrace.console.nouns.visible import Views
from headrace.console.reach import CONSOLE
from headrace.console.serving.gatekeeper import Gatekeeper
from headrace.console.serving.hiding import Hiding
from headrace.console.serving.oidc import Provider
from headrace.console.serving.pages import Pages
from headrace.console.serving.sessions import Sessions
from headrace.console.settings import ConsoleSettings
from headrace.console.watching.history import History
from headrace.console.watching.sampler import Sampler
from headrace.gateway.api.operations import Operation
from headrace.gateway.callers.credentials import Credentials

if TYPE_CHECKING:
    from headrace.gateway.callers.caller import Caller
    from headrace.gateway.gateway import Gateway

ROOMS = (session, overview, topics, messages, groups, brokers, transactions, letters, security, pipelines)


class Console:
    """Made with the gateway that it is added to."""

    def __init__(self, settings: ConsoleSettings, gateway: Gateway) -> None:
        self.settings = settings
        self._gateway = gateway
        self._forgotten = tempfile.TemporaryDirectory(prefix="headrace-console-") if settings.history is None else None
        kept = Path(self._forgotten.name) if self._forgotten is not None else settings.history
        assert kept is not None
        self.hiding = Hiding(settings.hide)
        self.sessions = Sessions(settings, time.monotonic)
        self.sampler = Sampler(lambda: gateway.own.cluster, History(kept), settings.sample_seconds)
        self.views = Views()
        self.provider = None if settings.oidc is None else Provider(settings.oidc)
        self._pages = Pages()
        self._watching: list[asyncio.Task[Any]] = []

    @property
    def operations(self) -> Sequence[Operation]:
        return [each for room in ROOMS for each in room.operations.each]

    def add_to(self, application: web.Application) -> None:
        application[CONSOLE] = self
        gatekeeper = Gatekeeper(self.sessions, self.hiding, read_only=self.settings.read_only)
        application.middlewares.append(gatekeeper.guard)
        self._gateway.callers.credentials_of_session = self._credentials_of
        self._pages.add_to(application)

    def _credentials_of(self, request: web.Request) -> Credentials | None:
        session = self.sessions.of(request)
        return None if session is None else session.credentials

    def start(self) -> None:
        keep = self._gateway.tasks.keep
        self._watching = [
            keep(self.sampler.run, "watch the cluster for the console"),
            keep(self.sessions.end_those_over, "end the console's sessions"),
        ]

    async def close(self) -> None:
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        if self._forgotten is not None:
            self._forgotten.cleanup()

    def is_own_principal(self, caller: Caller) -> bool:
        """Whether the brokers see the console itself and this caller as the same one: nobody signs in."""
        own = self._gateway.callers.doorkeeper
        return caller.key == "anonymous" and len(own.way()) == len(own.properties)
