"""The simulated loop misses nothing: whatever dies on a machine without anybody hearing of it is told at the end."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from simulation.rules.history import History, StoryHandler
from simulation.scenario import run_seed
from simulation.world.loop import SimulatedLoop
from simulation.world.machine import Machine, PowerFailure


async def die(error: BaseException) -> None:
    await asyncio.sleep(0.1)
    raise error


def failures_of(story: Callable[[SimulatedLoop, Machine], Awaitable[None]]) -> list[str]:
    loop = SimulatedLoop(1)
    machine = Machine("broker-1")

    async def scene() -> None:
        await loop.start_on(machine, work())

    async def work() -> None:
        await story(loop, machine)

    loop.run(scene())
    return loop.failures


@pytest.mark.parametrize("seconds", [5.0, 0.2], ids=["in time", "at the end"])
def test_a_task_that_dies_while_somebody_holds_it_and_nobody_waits_is_told(seconds: float) -> None:
    held: list[Any] = []

    async def story(loop: SimulatedLoop, machine: Machine) -> None:
        held.append(asyncio.create_task(die(ValueError("oh")), name="housekeeping"))
        await asyncio.sleep(seconds)

    assert failures_of(story) == ["die (housekeeping) died on <broker-1> and nobody noticed: ValueError('oh')"]


def test_work_in_a_thread_that_fails_and_is_missed_by_nobody_is_told() -> None:
    def unlink() -> None:
        raise OSError("no such file")

    async def story(loop: SimulatedLoop, machine: Machine) -> None:
        loop.run_in_executor(None, unlink)
        await asyncio.sleep(3)

    (told,) = failures_of(story)
    assert "unlink died on <broker-1>" in told


def test_a_failure_that_somebody_hears_of_is_none_of_the_loop() -> None:
    async def story(loop: SimulatedLoop, machine: Machine) -> None:
        task = asyncio.create_task(die(ValueError("oh")))
        with pytest.raises(ValueError, match="oh"):
            await task
        await asyncio.gather(asyncio.create_task(die(ValueError("oh"))), return_exceptions=True)
        await asyncio.sleep(3)

    assert failures_of(story) == []


def test_a_task_that_died_with_its_machine_is_not_missed() -> None:
    async def story(loop: SimulatedLoop, machine: Machine) -> None:
        other = Machine("broker-2")
        held = [loop.start_on(other, die(error)) for error in (PowerFailure(), ValueError("oh"))]
        await asyncio.sleep(0.5)
        loop.crash(other)
        await asyncio.sleep(3)
        assert all(task.done() for task in held)

    assert failures_of(story) == []


def test_what_awaits_while_it_unwinds_is_ended_with_its_machine() -> None:
    """As a broker does that is killed amid its start: what it began is undone in steps that wait."""
    steps = ["health", "storage", "metadata", "listening", "membership", "clients"]
    undone: list[str] = []
    answer: asyncio.Future[None]

    async def undo(what: str) -> None:
        try:
            await answer
        finally:
            undone.append(what)

    async def start() -> None:
        await start_or_undo()

    async def start_or_undo() -> None:
        async with AsyncExitStack() as undoing:
            for what in steps:
                undoing.push_async_callback(undo, what)
            await asyncio.sleep(10)

    async def story(loop: SimulatedLoop, machine: Machine) -> None:
        nonlocal answer
        answer = loop.create_future()
        other = Machine("broker-2")
        loop.start_on(other, start())
        await asyncio.sleep(0.5)
        loop.crash(other)

    assert failures_of(story) == []
    assert undone == steps[::-1]


def test_a_machine_that_stands_still_hears_of_a_failure_later() -> None:
    async def story(loop: SimulatedLoop, machine: Machine) -> None:
        other = Machine("broker-2")

        async def wait() -> None:
            with pytest.raises(ValueError, match="oh"):
                await asyncio.create_task(die(ValueError("oh")))

        waiting = loop.start_on(other, wait())
        loop.call_on(None, 0.1, loop.pause, other)
        loop.call_on(None, 5.0, loop.resume, other)
        await waiting

    assert failures_of(story) == []


@pytest.mark.parametrize(("error", "count"), [(OSError("disk"), 0), (AttributeError("no such thing"), 1)])
def test_what_a_broker_logs_and_did_not_expect_breaks_a_rule(error: Exception, count: int) -> None:
    history = History(SimulatedLoop(1))
    logger = logging.Logger("broker")
    logger.addHandler(StoryHandler(history))

    try:
        raise error
    except Exception:
        logger.exception("could not carry it out")

    assert len(history.violations) == count


def test_a_broker_whose_background_work_dies_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.broker.following.fetcher import Fetcher

    async def run(self: Fetcher) -> None:
        await asyncio.sleep(3)
        raise RuntimeError("a bug in the fetcher")

    monkeypatch.setattr(Fetcher, "_run", run)

    assert any("a bug in the fetcher" in violation for violation in run_seed(1).violations)


ENDED_WHILE_IT_WAITS = """
import asyncio, gc
from simulation.world.loop import SimulatedLoop

async def wait_for_ever():
    try:
        await asyncio.Event().wait()
    finally:
        asyncio.Future()

async def begin():
    begun = asyncio.create_task(wait_for_ever())
    await asyncio.sleep(1)

SimulatedLoop(0).run(begin())
print([each for each in gc.get_objects() if isinstance(each, asyncio.SelectorEventLoop)])
"""


def test_who_asks_for_a_loop_when_all_is_over_is_made_no_real_one() -> None:
    """In a process of its own: where a loop has run before, none is made either way."""
    done = subprocess.run([sys.executable, "-c", ENDED_WHILE_IT_WAITS], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
