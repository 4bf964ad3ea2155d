"""Those who wait for a partition to get somewhere: producers for a flush or for the replicas, readers for new records.

Callbacks run on the event loop, in the order in which they began to wait.  Whoever waits has a deadline and leaves then.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import takewhile
from typing import Final, Protocol

from headrace.model.errors import ErrorCode

Outcome = Callable[[ErrorCode], None]

# Timers may come so much too early.
TICK_S: Final = 0.001


class OffsetQueue:
    """Waits for an offset to be passed.  Offsets arrive in rising order, as a log gives them out, so the head is always next."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, Outcome]] = deque()

    def wait(self, offset: int, outcome: Outcome) -> None:
        """Call `outcome` when everything below `offset` is through."""
        waiting = self.waiting
        if waiting and offset < waiting[-1][0]:
            # A duplicate waits for the offset of its first writing, which lies behind the tail of the queue.
            self._insert(offset, outcome)
        else:
            waiting.append((offset, outcome))

    def _insert(self, offset: int, outcome: Outcome) -> None:
        position = len(self.waiting)
        while position and self.waiting[position - 1][0] > offset:
            position -= 1
        self.waiting.insert(position, (offset, outcome))

    def leave(self, outcome: Outcome) -> None:
        """Whoever waited for this no longer does.  Those whose time is over began early, so they are found near the head."""
        for position, (_, waiting) in enumerate(self.waiting):
            if waiting is outcome:
                del self.waiting[position]
                return

    def advance(self, reached: int, code: ErrorCode = ErrorCode.NONE) -> None:
        """Everything below `reached` is through: tell those who wait for that what it means for them."""
        waiting = self.waiting
        while waiting and waiting[0][0] <= reached:
            waiting.popleft()[1](code)

    def fail(self, code: ErrorCode) -> None:
        """Nobody will ever be let through: tell them."""
        waiting, self.waiting = self.waiting, deque()
        for _, outcome in waiting:
            outcome(code)

    def __len__(self) -> int:
        return len(self.waiting)


class Patience(Protocol):
    """Somebody who waits, and not for ever."""

    def on_time_over(self) -> None:
        """It has waited long enough."""
        ...


class Deadlines:
    """Those who wait, by how long they are willing to.  All who give the same time share a timer, as whoever came first has to go
    first: a timer for each would cost a small request more than its flush does."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lines: dict[float, dict[Patience, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def join(self, seconds: float, waiting: Patience) -> None:
        deadline = self._loop.time() + seconds
        line = self._lines.get(seconds)
        if line is None:
            line = self._lines[seconds] = {}
            self._loop.call_at(deadline, self._end, seconds, line)
        line[waiting] = deadline

    def leave(self, seconds: float, waiting: Patience) -> None:
        """It waits no longer, or never did."""
        if (line := self._lines.get(seconds)) is not None:
            line.pop(waiting, None)

    def _end(self, seconds: float, line: dict[Patience, float]) -> None:
        now = self._loop.time() + TICK_S
        over = [waiting for waiting, _ in takewhile(lambda entry: entry[1] <= now, line.items())]
        for waiting in over:
            line.pop(waiting, None)
            waiting.on_time_over()
        if line:
            self._loop.call_at(next(iter(line.values())), self._end, seconds, line)
        else:
            del self._lines[seconds]


class Reader(Protocol):
    """Somebody who waits for records."""

    def wake(self) -> None:
        """Something the reader may want has happened."""
        ...


class Readers:
    """Readers that wait for a partition to have something new."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[Reader, None] = {}

    def add(self, reader: Reader) -> None:
        self.waiting[reader] = None

    def discard(self, reader: Reader) -> None:
        self.waiting.pop(reader, None)

    def wake(self) -> None:
        for reader in list(self.waiting):
            reader.wake()

    def __bool__(self) -> bool:
        return bool(self.waiting)
