"""A process with many objects does not stand still to look at all of them."""

import gc
import sys
from collections.abc import Iterator
from weakref import ref

import pytest

from headrace.host.collecting import EVERYTHING_EVERY_S, GROWN_EVERY_S, GROWN_MAX, ShortCollections, keep_collections_short


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


@pytest.mark.slow
def test_however_many_objects_there_are_a_collection_looks_at_few(clock: Clock) -> None:
    gc.collect()  # sets aside what the other tests have left
    gc.collect()  # a full collection waits for a quarter of what the one before it saw
    looked_at: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            looked_at.append(sum(len(gc.get_objects(generation)) for generation in range(3)))

    # Nobody collects while the callbacks of a collection run: if a broker in this process began one, and they were interrupted,
    # the objects made here meanwhile would all be new to it.
    pauses = sys.getswitchinterval()
    sys.setswitchinterval(60)
    gc.callbacks.append(count)
    try:
        kept = [[number] for number in range(400_000)]
    finally:
        gc.callbacks.remove(count)
        sys.setswitchinterval(pauses)

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


class FakeCollector:
    """So many objects are set aside; how often everything was looked at."""

    def __init__(self) -> None:
        self.aside = 100_000
        self.looks = 0

    def freeze(self) -> None:
        pass

    def unfreeze(self) -> None:
        self.looks += 1

    def get_freeze_count(self) -> int:
        return self.aside


@pytest.mark.parametrize(
    ("aside", "seconds", "looks"),
    [
        (124_000, GROWN_EVERY_S + 1, 0),
        (126_000, GROWN_EVERY_S + 1, 1),
        (126_000, GROWN_EVERY_S - 1, 0),
        (200_000 + GROWN_MAX, 1.0, 0),
        (200_001 + GROWN_MAX, 1.0, 1),
        (100_000, EVERYTHING_EVERY_S + 1, 1),
    ],
)
def test_the_more_is_set_aside_the_sooner_everything_is_looked_at(aside: int, seconds: float, looks: int) -> None:
    clock, collector = Clock(), FakeCollector()
    collections = ShortCollections(clock.monotonic, collector)
    collections.on_collection("stop", {"generation": 2})
    clock.now += seconds
    collector.aside = aside
    collections.on_collection("start", {"generation": 2})
    collections.on_collection("stop", {"generation": 2})
    collections.on_collection("start", {"generation": 2})

    assert collector.looks == looks


def test_counting_what_is_set_aside_takes_little_of_the_time() -> None:
    clock = Clock()

    class SlowCollector(FakeCollector):
        counted = 0

        def get_freeze_count(self) -> int:
            self.counted += 1
            clock.now += 0.002  # as for a few hundred thousand objects
            return self.aside

    collector = SlowCollector()
    collections = ShortCollections(clock.monotonic, collector)
    while clock.now < 100.0:
        collections.on_collection("start", {"generation": 2})
        collections.on_collection("stop", {"generation": 2})
        clock.now += 0.05

    assert 50 < collector.counted < 100


def test_it_can_be_taken_back() -> None:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    keep_collections_short()()

    assert (gc.get_threshold(), gc.callbacks) == (thresholds, callbacks)
    assert gc.get_freeze_count() == 0
