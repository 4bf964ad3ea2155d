"""Opening the topic of the schemas when it does not answer."""

import asyncio
import threading
from typing import Any, cast

import pytest

from headrace.client.errors import BrokerTimeout
from headrace.registry.log import schema_log
from headrace.registry.log.connection import Connection
from headrace.registry.log.schema_log import SchemaLog
from headrace.registry.rules.decision import Decision


class Away:
    """A cluster that nobody can read."""

    topic = "_schemas"

    def consumer(self, start: Any) -> Any:
        raise BrokerTimeout("nobody is there")


def test_opening_ends_in_time_and_leaves_nobody_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_log, "ensure_topic", lambda _: None)
    monkeypatch.setattr(schema_log, "OPEN_TIMEOUT_S", 0.05)

    async def opened() -> None:
        async with asyncio.timeout(10):
            await SchemaLog(cast(Connection, Away())).__aenter__()

    with pytest.raises(TimeoutError):
        asyncio.run(opened())

    for each in threading.enumerate():
        if each.name == "headrace-registry-tail":
            each.join(5)
            assert not each.is_alive()


def test_a_schema_that_takes_long_to_look_at_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def is_writer(self: SchemaLog) -> bool:
        return True

    monkeypatch.setattr(SchemaLog, "_become_writer", is_writer)
    looked_at = threading.Event()

    def slow(catalog: Any) -> Decision[str]:
        assert looked_at.wait(30)
        return Decision((), "slow")

    async def both() -> tuple[str, str]:
        log = SchemaLog(cast(Connection, Away()))
        waiting = asyncio.create_task(log.change(slow))
        await asyncio.sleep(0)
        async with asyncio.timeout(20):
            quick = await log.change(lambda catalog: Decision((), "quick"))
        looked_at.set()
        return quick, await waiting

    assert asyncio.run(both()) == ("quick", "slow")
