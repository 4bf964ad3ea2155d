"""What a handler is told of who asks, without a connection."""

import time
from typing import Any

from headrace.broker.metrics.figures import ConnectionFigures
from headrace.broker.network.dispatch import RequestContext
from headrace.model.access.principals import ANONYMOUS, Principal, Subject


class FakeConnection:
    """Came in by the usual listener, and remembers for how long it was held back."""

    listener = "PLAINTEXT"
    client_host = "127.0.0.1"
    client_port = 50_000
    software = "a client 1.0"
    when_lost: Any = None

    def __init__(self, principal: Principal = ANONYMOUS) -> None:
        self.subject = Subject(principal, address=self.client_host)
        self.rests: list[float] = []
        self.figures = ConnectionFigures(time.monotonic)

    @property
    def principal(self) -> Principal:
        return self.subject.principal

    def hold_back(self, seconds: float) -> None:
        self.rests.append(seconds)


def context_of(request: Any, version: int, connection: FakeConnection | None = None) -> RequestContext:
    """A client asks in this version."""
    came_by: Any = connection or FakeConnection()
    return RequestContext(request.api.key, version, correlation_id=1, client_id="client", connection=came_by)
