"""For your tests: a real broker in this process, and what makes it fail."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.model.errors import ErrorCode
    from headrace.testing.broker import Broker
    from headrace.testing.clock import AdjustableClock
    from headrace.testing.faults import Api, Fault, Faults

__all__ = ["AdjustableClock", "Api", "Broker", "ErrorCode", "Fault", "Faults"]

# Loaded when asked for: the other modules here are used without a broker.
_HOMES = {
    "AdjustableClock": "headrace.testing.clock",
    "Api": "headrace.testing.faults",
    "Broker": "headrace.testing.broker",
    "ErrorCode": "headrace.model.errors",
    "Fault": "headrace.testing.faults",
    "Faults": "headrace.testing.faults",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
