"""A process with many objects does not stand still to look at all of them."""

import gc
from collections.abc import Iterator
from weakref import ref

import pytest

from headrace.host import collecting
from headrace.host.collecting import EVERYTHING_EVERY_S, GROWN_EVERY_S, keep_collections_short


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


class Circle:
    """Refers to itself: only a collection finds it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock()
    take_back = keep_collections_short(clock.monotonic)
    yield clock
    take_back()


def test_however_many_objects_there_are_a_collection_looks_at_few(clock: Clock) -> None:
    gc.collect()  # sets aside what the other tests have left
    gc.collect()  # a full collection waits for a quarter of what the one before it saw
    looked_at: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            looked_at.append(sum(len(gc.get_objects(generation)) for generation in range(3)))

    gc.callbacks.append(count)
    try:
        kept = [[number] for number in range(400_000)]
    finally:
        gc.callbacks.remove(count)

    assert len(kept) == 400_000
    assert len(looked_at) > 3
    assert max(looked_at) < 60_000


def test_what_is_new_and_forgotten_is_found_at_once(clock: Clock) -> None:
    gc.collect()
    forgotten = ref(Circle())
    gc.collect()

    assert forgotten() is None


def test_what_was_set_aside_and_forgotten_later_is_found_within_hours(clock: Clock) -> None:
    kept = Circle()
    forgotten = ref(kept)
    gc.collect()
    del kept
    gc.collect()
    assert forgotten() is not None, "it was not set aside"
    clock.now += EVERYTHING_EVERY_S + 1
    gc.collect()

    assert forgotten() is None


def make_circles(count: int) -> None:
    """Set aside while somebody has them, and forgotten afterwards."""
    kept = [Circle() for _ in range(count)]
    gc.collect()
    del kept
    gc.collect()


def test_circles_that_are_forgotten_again_and_again_are_found_after_minutes(clock: Clock) -> None:
    gc.collect()
    before = gc.get_freeze_count()
    make_circles(before)
    assert gc.get_freeze_count() > before * 1.5, "they were not set aside"
    clock.now += GROWN_EVERY_S + 1
    gc.collect()

    assert gc.get_freeze_count() < before * 1.25


def test_circles_never_take_more_than_twice_as_much_again(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "GROWN_MAX", 10_000)
    gc.collect()
    before = gc.get_freeze_count()
    most = 0
    for _ in range(10):
        make_circles(before // 2)
        most = max(most, gc.get_freeze_count())

    assert most < before * 3 + 20_000


def test_it_can_be_taken_back() -> None:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    keep_collections_short()()

    assert (gc.get_threshold(), gc.callbacks) == (thresholds, callbacks)
    assert gc.get_freeze_count() == 0
