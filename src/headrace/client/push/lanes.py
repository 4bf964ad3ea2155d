"""The order of work: tasks of one lane one after the other, lanes beside each other, a lane that has to wait held back alone.

A lane is a key, or a partition.  Pure: no threads, no clock; the shells (threads, asyncio) hand the time in.  Always: of
each lane at most one task is out, and it is the oldest; a lane that waits for its next attempt delays no other.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class Lanes(Generic[T]):
    def __init__(self) -> None:
        self._tasks: dict[Hashable, deque[T]] = {}  # of each lane, oldest first
        self._out: set[Hashable] = set()  # lanes whose oldest task is being worked on
        self._held: dict[Hashable, float] = {}  # lanes whose oldest task is to be tried again, and when
        self._ready: deque[Hashable] = deque()  # a lane in here may have changed since: `take` looks
        self._due: list[tuple[float, int, Hashable]] = []
        self._ticket = count()
        self._size = 0

    def add(self, lane: Hashable, task: T) -> None:
        tasks = self._tasks.get(lane)
        if tasks is None:
            self._tasks[lane] = deque((task,))
            self._ready.append(lane)
        else:
            tasks.append(task)
        self._size += 1

    def take(self, now: float) -> tuple[Hashable, T] | None:
        """The next task that may start, with its lane; it is out until `done` or `delay`."""
        while self._due and self._due[0][0] <= now:
            self._ready.append(heapq.heappop(self._due)[2])
        while self._ready:
            lane = self._ready.popleft()
            if lane in self._tasks and lane not in self._out and self._held.get(lane, now) <= now:
                self._held.pop(lane, None)
                self._out.add(lane)
                return lane, self._tasks[lane][0]
        return None

    def done(self, lane: Hashable) -> None:
        self._out.remove(lane)
        self._tasks[lane].popleft()
        self._size -= 1
        self._go_on(lane)

    def delay(self, lane: Hashable, until: float) -> None:
        """The task that is out is to be taken again, not before `until`."""
        self._out.remove(lane)
        self._held[lane] = until
        heapq.heappush(self._due, (until, next(self._ticket), lane))

    def next_due(self) -> float | None:
        """When the first delayed lane is due; None when none is."""
        return self._due[0][0] if self._due else None

    def drop(self, unwanted: Callable[[T], bool]) -> None:
        """Forget tasks that are not out."""
        for lane, tasks in list(self._tasks.items()):
            kept = deque(task for index, task in enumerate(tasks) if (index == 0 and lane in self._out) or not unwanted(task))
            if len(kept) == len(tasks):
                continue
            self._size -= len(tasks) - len(kept)
            self._tasks[lane] = kept
            if lane not in self._out:
                self._held.pop(lane, None)
                self._go_on(lane)

    def out(self) -> list[T]:
        """The tasks that are being worked on."""
        return [self._tasks[lane][0] for lane in self._out]

    def _go_on(self, lane: Hashable) -> None:
        if self._tasks[lane]:
            self._ready.append(lane)
        else:
            del self._tasks[lane]

    def __len__(self) -> int:
        """Tasks added and not yet done."""
        return self._size
