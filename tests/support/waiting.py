"""Waiting for what a test awaits: until something holds, or to see that it goes on to hold.

Only here does a test sleep in real time; `tests/architecture/test_sleeps.py` names the exceptions.  `until` and `stays` are
for threads, `until_async` and `stays_async` for an event loop.  They say what was awaited when it does not come.
"""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

SECONDS_MAX = 30.0
LOOK_S = 0.005

Found = TypeVar("Found")
# What was awaited, in words: said when it did not come.
Words = str | Callable[[], object]


def until(holds: Callable[[], Found], what: Words = "", seconds: float = SECONDS_MAX, every_s: float = LOOK_S) -> Found:
    """Return what `holds` returns once that is true."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {_words(what, holds)}"
        time.sleep(every_s)
    return found


async def until_async(
    holds: Callable[[], object], what: Words = "", seconds: float = SECONDS_MAX, every_s: float = LOOK_S
) -> Any:
    """The same on an event loop; `holds` may be a coroutine function."""
    deadline = time.monotonic() + seconds
    while not (found := await _answer(holds)):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {_words(what, holds)}"
        await asyncio.sleep(every_s)
    return found


def stays(holds: Callable[[], object], seconds: float, what: Words = "") -> None:
    """See that something holds now and goes on to, for as long as the opposite would take to show."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert holds(), f"no longer: {_words(what, holds)}"
        time.sleep(LOOK_S)


async def stays_async(holds: Callable[[], object], seconds: float, what: Words = "") -> None:
    """The same on an event loop."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert await _answer(holds), f"no longer: {_words(what, holds)}"
        await asyncio.sleep(LOOK_S)


async def _answer(holds: Callable[[], object]) -> object:
    found = holds()
    return await found if inspect.isawaitable(found) else found


def _words(what: Words, holds: Callable[[], object]) -> object:
    """What the test says it awaited; else the line in which it says so."""
    if what:
        return what if isinstance(what, str) else what()
    try:
        return " ".join(inspect.getsource(holds).split())
    except (OSError, TypeError):
        return holds
