"""Those who wait are called in order, once, and never forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.partitions.waiting import OffsetQueue, Readers
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
