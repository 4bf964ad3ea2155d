"""The schema registry at the root of the gateway's port, where its clients look: opened when somebody asks for it first.

The brokers' rights hold here: whoever may read the topic of the schemas may look at them, and whoever may write it may change
them.  What is written there is written by the gateway, since the registry has one writer at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, cast

from aiohttp import web

from headrace.client.errors import SecurityFailed
from headrace.gateway.serving.problems import Problem, problem_of
from headrace.model.access.acls import Operation
from headrace.registry.application import POSTED_READS, ROUTES
from headrace.registry.formats.schema import Schema
from headrace.registry.http.answers import errors_as_json
from headrace.registry.http.requests import LOG
from headrace.registry.log.connection import TOPIC, Connection
from headrace.registry.log.schema_log import SchemaLog
from headrace.registry.rules.errors import RegistryError
from headrace.registry.rules.reading import read_version
from headrace.registry.rules.subjects import DEFAULT_CONTEXT
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from headrace.gateway.callers.caller import Caller
    from headrace.gateway.gateway import Gateway

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
KNOWN_S: Final = 5.0
KNOWN_MAX: Final = 10_000


class Schemas:
    """Stands for the registry's log before that is open: handlers find it where they look for the log."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        settings = gateway.settings
        self._connection = Connection(bootstrap=settings.bootstrap, librdkafka=settings.properties)
        self._log: SchemaLog | None = None
        self._opening = asyncio.Lock()
        self._rights: dict[str, tuple[int, float]] = {}

    @property
    def catalog(self) -> Any:
        return self._opened.catalog

    def counts(self) -> tuple[int, int, int] | None:
        """How many subjects, versions and schemas there are; None before somebody has asked for any."""
        return None if self._log is None else self._log.catalog.counts()

    async def catch_up(self) -> None:
        await self._opened.catch_up()

    async def change(self, decide: Callable[[Any], Any]) -> Any:
        return await self._opened.change(decide)

    @property
    def _opened(self) -> SchemaLog:
        assert self._log is not None, "it is opened before any handler is called"
        return self._log

    def add_to(self, application: web.Application) -> None:
        application[LOG] = cast(SchemaLog, self)
        for method, path, handler in ROUTES:
            wanted = Operation.READ if method == "GET" or handler in POSTED_READS else Operation.WRITE
            application.router.add_route(method, path, self._guarded(handler, wanted))

    def _guarded(self, handler: Handler, wanted: Operation) -> Handler:
        async def allowed(request: web.Request) -> web.StreamResponse:
            try:
                async with self._gateway.callers.of(request) as caller:
                    self._gateway.rates.take(caller.name)
                    await self._open()
                    await self._require(caller, wanted)
                    return await handler(request)
            except (Problem, SecurityFailed) as error:
                problem = problem_of(error)
                raise RegistryError(problem.status * 100 + 1, problem.detail) from None

        async def answer(request: web.Request) -> web.StreamResponse:
            response = await errors_as_json(request, allowed)
            if response.status == 401:
                response.headers.setdefault("WWW-Authenticate", 'Basic realm="headrace"')
            return response

        return answer

    async def by_id(self, caller: Caller, number: int) -> Schema | None:
        """A schema for who reads records; None where there is none.  Opens nothing where no schema was ever registered."""
        if self._log is None and not await self._is_there(caller):
            return None
        await self._open()
        await self._require(caller, Operation.READ)
        found = self._opened.catalog.by_id(DEFAULT_CONTEXT, number)
        if found is None:
            await self.catch_up()
            found = self._opened.catalog.by_id(DEFAULT_CONTEXT, number)
        return None if found is None else await asyncio.to_thread(read_version, self._opened.catalog, found)

    async def _is_there(self, caller: Caller) -> bool:
        request = MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),), allow_auto_topic_creation=False)
        (found,) = (await caller.cluster.call(request)).topics
        return not found.error_code

    async def usable_by(self, caller: Caller, wanted: Operation) -> None:
        """Open it, and raise a Problem where the caller has no right to it."""
        try:
            await self._open()
            await self._require(caller, wanted)
        except RegistryError as error:
            raise Problem(error.status, "schemas_refused", str(error), "Ask for the right, or sign in.") from None

    async def _open(self) -> None:
        async with self._opening:
            if self._log is None:
                log = SchemaLog(self._connection)
                await log.__aenter__()
                self._log = log

    async def close(self) -> None:
        if self._log is not None:
            await self._log.__aexit__(None, None, None)

    async def _require(self, caller: Caller, wanted: Operation) -> None:
        rights, until = self._rights.get(caller.key, (0, 0.0))
        if time.monotonic() >= until:
            rights = await self._ask_rights(caller)
            if len(self._rights) >= KNOWN_MAX:
                self._rights.clear()
            self._rights[caller.key] = (rights, time.monotonic() + KNOWN_S)
        if not rights >> wanted & 1:
            raise RegistryError(40301, f"You may not {wanted.name.lower()} the topic {TOPIC}, which has the schemas.")

    async def _ask_rights(self, caller: Caller) -> int:
        """As bits, by the numbers of operations; none where the topic is not to be seen."""
        request = MetadataRequest(
            topics=(MetadataRequestTopic(name=TOPIC),), allow_auto_topic_creation=False, include_topic_authorized_operations=True
        )
        (found,) = (await caller.cluster.call(request)).topics
        return 0 if found.error_code else int(found.topic_authorized_operations)
