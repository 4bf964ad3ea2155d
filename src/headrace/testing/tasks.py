"""Tasks for parts of a broker that run without one in a test."""

from collections.abc import Callable, Coroutine
from typing import Any

from headrace.broker.supervision.supervision import Rule, Service, Supervisor
from headrace.host.clock import SystemClock


def keep(kind: str, function: Callable[[], Coroutine[Any, Any, None]]) -> Service:
    """Satisfies the metadata's Keep."""
    return Supervisor(SystemClock()).start(kind, function, Rule.RESTART)
