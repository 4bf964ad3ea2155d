"""Who has signed in at the console: bounded, and over after a while.

A session's token is known to the browser alone; here is its hash.  The credentials are passed on to the brokers at every request,
as the gateway does with those that a request carries itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from headrace.console.settings import ConsoleSettings
from headrace.gateway.callers.credentials import Credentials

COOKIE: Final = "headrace_console"
LOOK_S: Final = 5.0


@dataclass(slots=True)
class Session:
    """`proof` is what a page sends with every change: another site cannot know it."""

    credentials: Credentials = field(repr=False)
    name: str
    how: str
    ends_at: float
    used_at: float
    proof: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    watching: set[asyncio.Task[Any]] = field(default_factory=set, repr=False)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """For a request that may go on and on: it ends with the session."""
        task = asyncio.current_task()
        assert task is not None
        self.watching.add(task)
        try:
            yield
        finally:
            self.watching.discard(task)

    def end(self) -> None:
        for task in self.watching:
            task.cancel()


class Sessions:
    """By the hash of their tokens, in the order of their last use."""

    def __init__(self, settings: ConsoleSettings, now: Callable[[], float]) -> None:
        self._settings = settings
        self._now = now
        self._known: dict[bytes, Session] = {}

    def __len__(self) -> int:
        return len(self._known)

    def open(
        self, credentials: Credentials, how: str, seconds: float | None = None, name: str | None = None
    ) -> tuple[str, Session]:
        """A new session and its token; the one that was idle for longest goes where there are too many.  `seconds` is for how
        long the credentials are good, where that is known."""
        self._forget_ended()
        while len(self._known) >= self._settings.sessions_max:
            self._known.pop(next(iter(self._known))).end()
        token = secrets.token_urlsafe(32)
        lasts = min(self._settings.session_seconds, seconds or self._settings.session_seconds)
        session = Session(credentials, name or credentials.name, how, self._now() + lasts, self._now())
        self._known[_key(token)] = session
        return token, session

    def of(self, request: web.Request) -> Session | None:
        """The session that a request belongs to."""
        token = request.cookies.get(COOKIE)
        return None if token is None else self.find(token)

    def find(self, token: str) -> Session | None:
        """The session of a token, unless it has ended."""
        session = self._known.pop(_key(token), None)
        if session is None:
            return None
        if self._has_ended(session):
            session.end()
            return None
        session.used_at = self._now()
        self._known[_key(token)] = session
        return session

    def close(self, token: str) -> None:
        if (session := self._known.pop(_key(token), None)) is not None:
            session.end()

    async def end_those_over(self) -> None:
        """Look, again and again, whose time is over: who only watches asks for nothing that could be refused."""
        while True:
            self._forget_ended()
            await asyncio.sleep(LOOK_S)

    def _has_ended(self, session: Session) -> bool:
        now = self._now()
        return now - session.used_at > self._settings.session_idle_seconds or now > session.ends_at

    def _forget_ended(self) -> None:
        for key in [key for key, session in self._known.items() if self._has_ended(session)]:
            self._known.pop(key).end()


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
