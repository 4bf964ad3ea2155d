"""The principals that are served just now: a bounded pool, which lets go of whoever was idle for longest.

A principal's clients are let go of after a while even when they are in steady use, so that who may no longer sign in is refused
before long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from headrace.gateway.callers.caller import Caller
from headrace.gateway.callers.credentials import Credentials, Doorkeeper
from headrace.gateway.serving.problems import Problem
from headrace.gateway.serving.tasks import Tasks
from headrace.gateway.settings import Limits

LOOK_S: Final = 5.0


class Callers:
    """Callers by their credentials."""

    def __init__(self, doorkeeper: Doorkeeper, bootstrap: str, limits: Limits, tasks: Tasks, now: Callable[[], float]) -> None:
        self.doorkeeper = doorkeeper
        self._bootstrap = bootstrap
        self._limits = limits
        self._tasks = tasks
        self._now = now
        self._known: dict[str, Caller] = {}
        self._leaving: set[Caller] = set()
        self._nobody: Caller | None = None
        self.credentials_of_session: Callable[[web.Request], Credentials | None] = lambda request: None

    def __len__(self) -> int:
        return len(self._known) + len(self._leaving)

    def __iter__(self) -> Iterator[Caller]:
        return iter([*self._known.values(), *self._leaving])

    @asynccontextmanager
    async def of(self, request: web.Request, needed: bool = True) -> AsyncIterator[Caller]:
        """The caller of a request, for as long as the request lasts."""
        if not needed:
            self._nobody = self._nobody or Caller(Credentials("", "nobody", {}), self._bootstrap, self._now())
            yield self._nobody
            return
        async with self.borrow(self._credentials(request)) as caller:
            yield caller

    def _credentials(self, request: web.Request) -> Credentials:
        """What the request carries itself counts more than the session that it belongs to."""
        given = request.headers.get("Authorization")
        if given is None and (kept := self.credentials_of_session(request)) is not None:
            return kept
        transport = request.transport
        return self.doorkeeper.of(given, None if transport is None else transport.get_extra_info("peercert"))

    @asynccontextmanager
    async def borrow(self, credentials: Credentials) -> AsyncIterator[Caller]:
        """Somebody by credentials.  Raises SecurityFailed where the brokers do not let them in."""
        caller = self._find(credentials)
        caller.in_use += 1
        try:
            try:
                await caller.let_in()
            except Exception:
                self._part_with(caller)
                raise
            yield caller
        finally:
            caller.in_use -= 1
            caller.used_at = self._now()
            if caller in self._leaving and not caller.in_use:
                self._close_soon(caller)

    def _find(self, credentials: Credentials) -> Caller:
        known = self._known.get(credentials.key)
        if known is not None and self._now() - known.made_at > self._limits.caller_age_seconds:
            self._part_with(known)
            known = None
        if known is None:
            self._make_room()
            known = self._known[credentials.key] = Caller(credentials, self._bootstrap, self._now())
        return known

    def _make_room(self) -> None:
        if len(self) < self._limits.callers_max:
            return
        idle = [caller for caller in self._known.values() if not caller.in_use]
        if not idle:
            raise Problem(
                503,
                "too_many_callers",
                "This gateway serves as many principals as it may.",
                "Try again, or ask another gateway.",
                headers={"Retry-After": "1"},
            )
        self._part_with(min(idle, key=lambda caller: caller.used_at))

    def _part_with(self, caller: Caller) -> None:
        if self._known.get(caller.key) is caller:
            del self._known[caller.key]
            self._leaving.add(caller)
            if not caller.in_use:
                self._close_soon(caller)

    def _close_soon(self, caller: Caller) -> None:
        self._tasks.spawn(self._close(caller), "close a caller's clients")

    async def _close(self, caller: Caller) -> None:
        """Among those who leave until it has: a gateway that stops meanwhile ends this, and closes it itself."""
        await caller.close()
        self._leaving.discard(caller)

    async def forget_idle(self) -> None:
        """Let go of whoever has not been here for a while, again and again."""
        while True:
            await asyncio.sleep(LOOK_S)
            oldest = self._now() - self._limits.caller_idle_seconds
            for caller in [each for each in self._known.values() if not each.in_use and each.used_at < oldest]:
                self._part_with(caller)

    async def close(self) -> None:
        everybody = [*self._known.values(), *self._leaving, *([self._nobody] if self._nobody else [])]
        self._known.clear()
        self._leaving.clear()
        await asyncio.gather(*(caller.close() for caller in everybody))
