"""Callers that are let go of: each is closed, whatever else ends."""

import asyncio
from typing import Any

import pytest

from headrace.gateway.callers.caller import Caller
from headrace.gateway.callers.callers import Callers
from headrace.gateway.callers.credentials import Credentials
from headrace.gateway.serving.tasks import Tasks
from headrace.gateway.settings import Limits


def test_a_caller_whose_closing_is_cut_short_is_closed_when_the_gateway_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    async def let_in(caller: Caller) -> None:
        """The brokers do."""

    async def close(caller: Caller) -> None:
        closed.append(caller.name)

    async def story() -> None:
        tasks = Tasks()
        doorkeeper: Any = None
        callers = Callers(doorkeeper, "127.0.0.1:1", Limits(caller_age_seconds=-1), tasks, lambda: 0.0)
        async with callers.borrow(Credentials("ann", "ann", {})):
            pass
        async with callers.borrow(Credentials("ann", "ann", {})):  # she is known for too long, and comes anew
            await tasks.close()
            assert closed == []
            assert len(callers) == 2
        await callers.close()

    monkeypatch.setattr(Caller, "let_in", let_in)
    monkeypatch.setattr(Caller, "close", close)
    asyncio.run(story())

    assert closed == ["ann", "ann"]
