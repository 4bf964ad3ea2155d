"""For your tests: a real broker in this process, and what makes it fail."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.testing.broker import Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: the other modules here are used without a broker.
    if name == "Broker":
        from headrace.testing.broker import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
