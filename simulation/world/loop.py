"""An event loop whose time is a number: it jumps to the next thing that is due, and everything random comes from one seed.

Everything runs in one thread.  Work for executors runs on the loop after a simulated delay; connections are made by the simulated
network.  Each callback belongs to the machine in whose context it was scheduled.  What belongs to a machine that has crashed
never runs; what belongs to one that stands still runs when it goes on.  `time()` is the clock of the machine that asks.
A task, or work for an executor, that fails and is missed by nobody is among the `failures` of the run.
"""

import asyncio
import contextlib
import contextvars
import gc
import random
import ssl
from asyncio import events
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from simulation.rules.tally import Fault, Tally
from simulation.world.machine import BLOCKING_S, OUTSIDE, Machine, PowerFailure, current_machine, required_machine

if TYPE_CHECKING:
    from simulation.world.network import SimulatedNetwork

Result = TypeVar("Result")

# A scenario is over long before this.
SECONDS_MAX = 600.0
TIMER_SECONDS_MIN = 1e-6
# A coroutine that awaits in a `finally` has to be told more than once that it is over, and so has each that awaits another.
CLOSING_ATTEMPTS = 100
# Whoever waits for a task takes its failure at once; what nobody has taken by then, nobody was waiting for.
UNNOTICED_S = 1.0


class Deadlock(Exception):
    """Nothing will ever happen any more, or nothing that matters."""


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
        self.now = 0.0
        # Due times are compared with this much slack; the default of a real loop would be its clock's resolution.
        self._clock_resolution = 1e-9
        self.random = random.Random(seed)
        self.network: SimulatedNetwork | None = None
        self.failures: list[str] = []
        self.tally = Tally()
        # What failed and may yet be missed by somebody.
        self._unnoticed: dict[asyncio.Future[Any], tuple[str, Machine | None]] = {}
        self.set_exception_handler(lambda loop, context: self._on_failure(context))
        # Tasks that died with their machine.  Held, so that no garbage collection runs their `finally` at a time of its own.
        self._dead_tasks: list[asyncio.Task[Any]] = []

    def __del__(self) -> None:
        """A loop that was never run has nothing to close: neither sockets nor threads."""

    def _on_failure(self, context: dict[str, Any]) -> None:
        # A task that was running when the power failed is dead, not broken.
        if not isinstance(context.get("exception"), PowerFailure):
            self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")

    # -- what dies silently

    def create_task(self, coro: Coroutine[Any, Any, Result], **options: Any) -> "asyncio.Task[Result]":  # type: ignore[override]
        task = super().create_task(coro, **options)
        context = options.get("context")
        machine = current_machine.get() if context is None else context.get(current_machine)
        self._watch_over(task, _name_of(coro), machine)
        return task

    def _watch_over(self, future: "asyncio.Future[Any]", name: str, machine: Machine | None) -> None:
        def ended(done: "asyncio.Future[Any]") -> None:
            if is_untold(done):
                self._unnoticed[done] = (name, machine)
                self.call_on(None, UNNOTICED_S, self._look_for, done)

        future.add_done_callback(ended, context=OUTSIDE)

    def _look_for(self, done: "asyncio.Future[Any]") -> None:
        """By now whoever waits for a task that failed has heard of it, unless their machine stands still."""
        name, machine = self._unnoticed.pop(done)
        if not is_untold(done):
            return
        if machine is not None and machine.is_paused and not machine.is_crashed:
            self._unnoticed[done] = (name, machine)
            self.call_on(None, UNNOTICED_S, self._look_for, done)
            return
        done._log_traceback = False
        if machine is not None and machine.is_crashed:
            return
        if isinstance(done, asyncio.Task) and not done.get_name().startswith("Task-"):
            name = f"{name} ({done.get_name()})"
        self.failures.append(f"{name} died on {machine} and nobody noticed: {done._exception!r}")

    # -- time

    def time(self) -> float:
        machine = current_machine.get()
        return self.now if machine is None else machine.local_time(self.now)

    def advance(self, seconds: float) -> None:
        if seconds > 0:
            self.now += seconds
            if self.now > SECONDS_MAX:
                raise Deadlock(f"nothing came to an end in {SECONDS_MAX:.0f} simulated seconds")

    def run(self, main: Coroutine[Any, Any, Result]) -> Result:
        """Run a scenario to its end and leave nothing behind."""
        collects = gc.isenabled()
        gc.disable()  # collections happen when other code allocates: what they finalise would happen at random
        # Whatever is ended in the end and then asks for a loop is told that there is none, instead of being made a real one.
        asyncio.set_event_loop(None)
        try:
            return self.run_until_complete(main)
        finally:
            self._bury()
            self.close()
            if collects:
                gc.enable()

    def _bury(self) -> None:
        """End what is left, without letting it go on: whatever is to be known of the run is known by now."""
        for done in list(self._unnoticed):
            self._look_for(done)
        for task in [*self._dead_tasks, *asyncio.all_tasks(self)]:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            _close_from_within(task.get_coro())
        self._dead_tasks.clear()
        self._ready.clear()  # type: ignore[attr-defined]
        self._scheduled.clear()  # type: ignore[attr-defined]

    # -- callbacks belong to machines

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        context = contextvars.copy_context() if context is None else context
        machine = context.get(current_machine)
        if machine is None:
            return super().call_soon(callback, *args, context=context)
        return super().call_soon(_run_on, machine, callback, args, context, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.TimerHandle:
        context = contextvars.copy_context() if context is None else context
        asking = current_machine.get()
        if asking is not None:
            when = asking.world_time(when)
        # Between the clocks of machines numbers are rounded: whoever sets a timer again, as it was not yet due, must get ahead.
        when = max(when, self.now + TIMER_SECONDS_MIN)
        machine = context.get(current_machine)
        if machine is None:
            return super().call_at(when, callback, *args, context=context)
        return super().call_at(when, _run_on, machine, callback, args, context, context=context)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_on(self, machine: Machine | None, delay: float, callback: Callable[..., object], *args: Any) -> events.TimerHandle:
        """Schedule something on a machine, or (None) outside of all, after a time of the world's clock."""
        if machine is None:
            return super().call_at(self.now + delay, callback, *args, context=OUTSIDE)
        context = machine.context()
        return super().call_at(self.now + delay, _run_on, machine, callback, args, context, context=context)

    # -- faults

    def start_on(self, machine: Machine, work: Coroutine[Any, Any, Result], name: str | None = None) -> "asyncio.Task[Result]":
        """Run a coroutine on a machine."""
        return self.create_task(work, name=name, context=machine.context())

    def crash(self, machine: Machine) -> None:
        """Nothing of this life of the machine runs any more."""
        machine.is_crashed = True
        machine.deferred.clear()
        # Those of other machines are held too until they are done, which does them no harm.
        self._dead_tasks = [task for task in asyncio.all_tasks(self) if not task.done()]

    def pause(self, machine: Machine) -> None:
        """As SIGSTOP does: the machine's time goes on, its programs do not."""
        machine.is_paused = True

    def resume(self, machine: Machine) -> None:
        machine.is_paused = False
        deferred, machine.deferred = machine.deferred, []
        for callback, args, context in deferred:
            super().call_soon(_run_on, machine, callback, args, context, context=context)

    # -- blocking work

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, function: Callable[..., Result], *args: Any
    ) -> "asyncio.Future[Result]":
        machine = current_machine.get()
        low, high = machine.blocking_seconds if machine is not None else (0.0, 0.0)
        future: asyncio.Future[Result] = self.create_future()
        # The work takes effect at some moment between its start and the moment at which its result is known.
        duration = self.random.uniform(low, high)
        self.tally[Fault.SLOW_DISK] += duration > BLOCKING_S[1]
        self._watch_over(future, f"the work {_name_of(function)}", machine)
        self.call_later(duration * self.random.random(), self._run_blocking, future, function, args, self.time() + duration)
        return future

    def _run_blocking(
        self, future: "asyncio.Future[Result]", function: Callable[..., Result], args: tuple[Any, ...], known_at: float
    ) -> None:
        try:
            result = function(*args)
        except PowerFailure:
            raise
        except BaseException as error:
            self.call_at(known_at, _settle, future, None, error)
        else:
            self.call_at(known_at, _settle, future, result, None)

    # -- sockets

    async def create_server(
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, start_serving: bool = True, **options: Any
    ) -> Any:
        assert self.network is not None, "this simulation has no network"
        listener = self.network.listen(required_machine(), protocol_factory, host, port)
        if start_serving:
            await listener.start_serving()
        return listener

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, ssl: ssl.SSLContext | None = None, **options: Any
    ) -> Any:
        assert self.network is not None, "this simulation has no network"
        return await self.network.connect(required_machine(), protocol_factory, host, port)

    # -- what BaseEventLoop asks of its child

    def _process_events(self, event_list: list[Any]) -> None:
        return

    def _write_to_self(self) -> None:
        return


def _run_on(machine: Machine, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context) -> None:
    if machine.is_crashed:
        return
    if machine.is_paused:
        machine.deferred.append((callback, args, context))
        return
    try:
        callback(*args)
    except PowerFailure:
        return


def _name_of(work: object) -> str:
    return str(getattr(work, "__qualname__", work))


def is_untold(done: "asyncio.Future[Any]") -> bool:
    """Whether a task or other work has failed and nobody has asked how it ended."""
    return bool(done._log_traceback) and not isinstance(done._exception, PowerFailure)


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def _close_from_within(coroutine: Any) -> None:
    """Have a coroutine end, the one that it awaits first.

    Ended from without, one that awaits while it unwinds is left behind by the one that awaited it."""
    for _ in range(CLOSING_ATTEMPTS):
        innermost = _innermost(coroutine)
        if innermost is None:
            return
        with contextlib.suppress(BaseException):
            innermost.close()


def _innermost(coroutine: Any) -> Any:
    """The last in the chain of those that wait for each other and are not over; None where all of them are."""
    innermost = None
    while getattr(coroutine, "cr_frame", None) is not None or getattr(coroutine, "gi_frame", None) is not None:
        innermost = coroutine
        coroutine = coroutine.cr_await if hasattr(coroutine, "cr_await") else coroutine.gi_yieldfrom
    return innermost
