"""A computer in the simulation: what runs on it stops with it, stands still with it, and reads its clock.

Each life of a computer is a new Machine with the old name: what an earlier life left behind does not run.  Code runs on a machine
when its context says so; tasks and callbacks inherit the context of whoever started them.
"""

import contextvars
from collections.abc import Callable
from typing import Any

BLOCKING_S = (0.0001, 0.002)

Deferred = tuple[Callable[..., object], tuple[Any, ...], contextvars.Context]


class PowerFailure(BaseException):
    """The machine went dark in the middle of whatever it was doing.  Nothing that runs on it may catch this and go on."""


class Machine:
    """One life of a computer."""

    def __init__(self, name: str, *, clock_rate: float = 1.0, wall_skew_ms: int = 0) -> None:
        self.name = name
        self.is_crashed = False
        self.is_paused = False
        # Seconds its clocks count in one second of the world, and how far its wall clock is off.
        self.clock_rate = clock_rate
        self.wall_skew_ms = wall_skew_ms
        # How long one piece of blocking work takes here.
        self.blocking_seconds = BLOCKING_S
        # What was due while it stood still.
        self.deferred: list[Deferred] = []
        self._context = contextvars.Context()
        self._context.run(current_machine.set, self)

    def context(self) -> contextvars.Context:
        """A context in which code runs on this machine."""
        return self._context.copy()

    def local_time(self, world: float) -> float:
        return world * self.clock_rate

    def world_time(self, local: float) -> float:
        return local / self.clock_rate

    def __repr__(self) -> str:
        return f"<{self.name}{' (crashed)' if self.is_crashed else ''}>"


current_machine: contextvars.ContextVar[Machine | None] = contextvars.ContextVar("current_machine", default=None)
OUTSIDE = contextvars.Context()
"""The context of what happens on no machine: the metadata store, the cables, the hand that pulls the plug."""


def required_machine() -> Machine:
    machine = current_machine.get()
    assert machine is not None, "this must run on a machine"
    return machine
