"""Work that has to be done on the event loop, in slices between which everybody else gets a turn."""

import asyncio
from typing import Any, Final, TypeVar

from headrace.host.clock import Clock
from headrace.log.cleaning.steps import Steps

Result = TypeVar("Result")

# How long the loop may be busy with one piece of work before it turns to others.  The clock is looked at after each step, so a
# slice is longer by one step at most; the number of steps is for clocks that stand still.
SLICE_S: Final = 0.002
STEPS_PER_SLICE: Final = 800


async def in_slices(loop: asyncio.AbstractEventLoop, clock: Clock, steps: Steps[Result]) -> Result:
    """Do it; what fits one slice is done at once."""
    answer: Any = None
    began, count = clock.monotonic(), 0
    while True:
        try:
            step = steps.throw(answer) if isinstance(answer, Exception) else steps.send(answer)
        except StopIteration as end:
            result: Result = end.value
            return result
        count += 1
        answer = None
        if step is not None:
            try:
                answer = await loop.run_in_executor(None, step)
            except Exception as error:
                answer = error
        elif count < STEPS_PER_SLICE and clock.monotonic() - began < SLICE_S:
            continue
        else:
            await asyncio.sleep(0)
        began, count = clock.monotonic(), 0
