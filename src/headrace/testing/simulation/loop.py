"""An event loop whose time is a number: it jumps to the next thing that is due, and everything random comes from one seed.

Everything runs in one thread.  Work for executors runs on the loop after a simulated delay; connections are made by the simulated
network.  Each callback belongs to the machine in whose name it was scheduled (a context variable, so that tasks inherit it); what
belongs to a machine that has crashed never runs.
"""

import asyncio
import contextvars
import random
import ssl
from asyncio import events
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from headrace.testing.simulation.network import SimulatedNetwork

Result = TypeVar("Result")


class Deadlock(Exception):
    """Nothing is due, and nothing ever will be."""


class Machine:
    """A computer that can crash.  Each life of it is a new object: what an earlier life left behind does not run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_crashed = False
        # How much slower than the world its clock runs, in seconds per second.
        self.clock_drift = 0.0
        # How long one piece of blocking work takes here.
        self.blocking_seconds = (0.0001, 0.002)

    def __repr__(self) -> str:
        return f"<{self.name}{' (crashed)' if self.is_crashed else ''}>"


current_machine: contextvars.ContextVar[Machine | None] = contextvars.ContextVar("current_machine", default=None)


class _NoSelector:
    """There are no real sockets: to wait is to move the clock."""

    def __init__(self, loop: "SimulatedLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Deadlock("every task waits and no timer is set")
        self._loop.advance(timeout)
        return []

    def close(self) -> None:
        return


class SimulatedLoop(asyncio.BaseEventLoop):
    """Run a scenario with `run(coroutine)`."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._selector = _NoSelector(self)
        self._now = 0.0
        # Due times are compared with this much slack; the default of a real loop would be its clock's resolution.
        self._clock_resolution = 1e-9
        self.random = random.Random(seed)
        self.network: SimulatedNetwork | None = None
        self.failures: list[dict[str, Any]] = []
        self.set_exception_handler(lambda loop, context: self.failures.append(context))

    # -- time

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        if seconds > 0:
            self._now += seconds

    def run(self, main: Coroutine[Any, Any, Result]) -> Result:
        """Run a scenario to its end and leave nothing behind."""
        try:
            return self.run_until_complete(main)
        finally:
            self._cancel_everything()
            self.close()

    def _cancel_everything(self) -> None:
        pending = asyncio.all_tasks(self)
        for task in pending:
            task.cancel()
        if pending:
            self.run_until_complete(asyncio.gather(*pending, return_exceptions=True))

    # -- callbacks belong to machines

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        return super().call_soon(*self._guarded(callback, args, context), context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.TimerHandle:
        return super().call_at(when, *self._guarded(callback, args, context), context=context)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        return self.call_soon(callback, *args, context=context)

    def _guarded(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> tuple[Any, ...]:
        machine = context.get(current_machine) if context is not None else current_machine.get()
        if machine is None:
            return (callback, *args)
        return (_run_unless_crashed, machine, callback, args)

    # -- blocking work

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, function: Callable[..., Result], *args: Any
    ) -> "asyncio.Future[Result]":
        machine = current_machine.get()
        low, high = machine.blocking_seconds if machine is not None else (0.0, 0.0)
        future: asyncio.Future[Result] = self.create_future()
        self.call_later(self.random.uniform(low, high), _run_into, future, function, args)
        return future

    # -- sockets

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        assert self.network is not None, "this simulation has no network"
        return self.network.listen(_required_machine(), protocol_factory, host, port)

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, ssl: ssl.SSLContext | None = None, **options: Any
    ) -> Any:
        assert self.network is not None, "this simulation has no network"
        return await self.network.connect(_required_machine(), protocol_factory, host, port)

    # -- what BaseEventLoop asks of its child

    def _process_events(self, event_list: list[Any]) -> None:
        return

    def _write_to_self(self) -> None:
        return


def _required_machine() -> Machine:
    machine = current_machine.get()
    assert machine is not None, "only a machine has a network"
    return machine


def _run_unless_crashed(machine: Machine, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
    if not machine.is_crashed:
        callback(*args)


def _run_into(future: "asyncio.Future[Any]", function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if future.cancelled():
        return
    try:
        result = function(*args)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
