"""From a frame to a handler: what becomes of requests that are given up."""

import asyncio
import gc
import time
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.metrics.figures import ConnectionFigures
from headrace.broker.network.dispatch import OPEN, Dispatcher, RequestContext, Route
from headrace.broker.network.pending_reply import PendingReply
from headrace.broker.network.request_tasks import RequestTasks
from headrace.broker.supervision.supervision import Supervisor
from headrace.testing.clock import AdjustableClock
from headrace.wire.messages.list_groups import ListGroupsRequest
from tests.support.raw import frame
from tests.unit.broker.handlers.requests import FakeConnection


class HeldConnection(FakeConnection):
    """Knows whether it ended, and why."""

    sign_in = None
    closed_because = ""
    figures = ConnectionFigures(time.monotonic)

    def hold_start(self) -> None:
        pass

    def on_kept(self, size: int) -> None:
        pass

    def close(self, reason: str) -> None:
        self.closed_because = reason


async def handle(request: Any, context: RequestContext) -> None:
    raise AssertionError("it was not to begin")


@pytest.mark.slow
@pytest.mark.parametrize("quotas_are_set", [False, True])
def test_a_request_that_is_given_up_before_it_began_leaves_nothing_unfinished(quotas_are_set: bool) -> None:
    connection: Any = HeldConnection()

    async def start_and_stop() -> None:
        clock = AdjustableClock()
        supervisor = Supervisor(clock)
        routes = {ListGroupsRequest.api.key: Route(range(5), ListGroupsRequest, handler=handle, waits=True)}
        throttling: Any = SimpleNamespace(quotas=SimpleNamespace(active=quotas_are_set))
        dispatcher = Dispatcher(routes, throttling, RequestTasks(supervisor), clock, OPEN, lambda request, context: None)
        dispatcher.start(frame(ListGroupsRequest(), 4)[4:], connection, PendingReply(connection))
        await supervisor.close()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asyncio.run(start_and_stop())
        gc.collect()

    assert connection.closed_because == "its request was given up"
    assert [str(warning.message) for warning in warned] == []
