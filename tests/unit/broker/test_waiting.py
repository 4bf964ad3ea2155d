"""Those who wait are called in order, once, and never forgotten."""

from collections.abc import Callable
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.partitions.waiting import Deadlines, OffsetQueue, Readers
from headrace.model.errors import ErrorCode


@given(offsets=st.lists(st.integers(0, 50)), steps=st.lists(st.integers(0, 60)))
def test_everyone_below_the_reached_offset_is_called_once_and_nobody_above_it(offsets: list[int], steps: list[int]) -> None:
    queue = OffsetQueue()
    called: list[int] = []
    for offset in offsets:
        queue.wait(offset, lambda code, offset=offset: called.append(offset))
    for step in steps:
        queue.advance(step)

    reached = max(steps, default=-1)
    assert sorted(called) == sorted(offset for offset in offsets if offset <= reached)


def test_those_who_wait_for_one_offset_are_called_in_the_order_they_came() -> None:
    queue = OffsetQueue()
    called: list[str] = []
    queue.wait(5, lambda code: called.append("first"))
    queue.wait(9, lambda code: called.append("last"))
    queue.wait(5, lambda code: called.append("second"))

    queue.advance(10)

    assert called == ["first", "second", "last"]


def test_whoever_leaves_is_not_called_and_nobody_else_is_forgotten() -> None:
    queue = OffsetQueue()
    called: list[str] = []

    def leaver(code: ErrorCode) -> None:
        called.append("leaver")

    queue.wait(5, lambda code: called.append("first"))
    queue.wait(5, leaver)
    queue.wait(9, lambda code: called.append("last"))
    queue.leave(leaver)
    queue.leave(leaver)
    assert len(queue) == 2
    queue.advance(10)

    assert called == ["first", "last"]


def test_a_failure_reaches_everybody_and_leaves_nobody() -> None:
    queue = OffsetQueue()
    told: list[ErrorCode] = []
    queue.wait(1, told.append)
    queue.wait(2, told.append)

    queue.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    queue.advance(10)

    assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert len(queue) == 0


def test_a_reader_that_left_is_not_woken() -> None:
    class Sleeper:
        woken = 0

        def wake(self) -> None:
            self.woken += 1

    readers, stays, leaves = Readers(), Sleeper(), Sleeper()
    readers.add(stays)
    readers.add(leaves)
    readers.discard(leaves)

    readers.wake()

    assert (stays.woken, leaves.woken) == (1, 0)


class Timers:
    """As much of an event loop as deadlines need."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., None], *arguments: Any) -> None:
        self.timers.append((when, lambda: callback(*arguments)))

    def advance_to(self, moment: float) -> None:
        while self.timers and (due := min(self.timers, key=lambda timer: timer[0]))[0] <= moment:
            self.timers.remove(due)
            self.now = max(self.now, due[0])
            due[1]()
        self.now = moment


class Waiter:
    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self.ended_at: list[float] = []

    def on_time_over(self) -> None:
        self.ended_at.append(self._timers.now)


def test_everybodys_time_is_over_when_it_is_and_one_timer_serves_all_who_give_the_same() -> None:
    timers = Timers()
    deadlines = Deadlines(cast(Any, timers))
    waiters = []
    for _ in range(5):
        waiters.append(Waiter(timers))
        deadlines.join(30.0, waiters[-1])
        timers.advance_to(timers.now + 2.0)
    hasty = Waiter(timers)
    deadlines.join(1.0, hasty)

    assert len(timers.timers) == 2
    timers.advance_to(200.0)
    assert [waiter.ended_at for waiter in waiters] == [[130.0], [132.0], [134.0], [136.0], [138.0]]
    assert hasty.ended_at == [111.0]
    assert (len(deadlines), timers.timers) == (0, [])


def test_whoever_left_is_not_told_and_nothing_is_kept_of_them() -> None:
    timers = Timers()
    deadlines = Deadlines(cast(Any, timers))
    stuck, answered = Waiter(timers), [Waiter(timers) for _ in range(1000)]
    deadlines.join(30.0, stuck)
    for waiter in answered:
        deadlines.join(30.0, waiter)
        deadlines.leave(30.0, waiter)
        deadlines.leave(30.0, waiter)

    assert len(deadlines) == 1
    timers.advance_to(200.0)
    assert stuck.ended_at == [130.0]
    assert not any(waiter.ended_at for waiter in answered)
    assert (len(deadlines), timers.timers) == (0, [])


def test_one_who_joins_again_when_its_time_is_over_waits_again() -> None:
    timers = Timers()
    deadlines = Deadlines(cast(Any, timers))

    class Stubborn(Waiter):
        def on_time_over(self) -> None:
            super().on_time_over()
            if len(self.ended_at) == 1:
                deadlines.join(5.0, self)

    stubborn = Stubborn(timers)
    deadlines.join(5.0, stubborn)
    timers.advance_to(200.0)

    assert stubborn.ended_at == [105.0, 110.0]
