"""Opening the topic of the schemas when it does not answer."""

import asyncio
import threading
from typing import Any, cast

import pytest

from headrace.client.errors import BrokerTimeout
from headrace.registry.log import schema_log
from headrace.registry.log.connection import Connection
from headrace.registry.log.schema_log import SchemaLog


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
