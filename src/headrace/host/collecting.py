"""Python's garbage collector in a process that must not stand still: what has survived a full collection is set aside.

A full collection looks at every object there is, and nothing else runs meanwhile: with nine thousand partitions it took 130 ms,
six times while they were made.  What survives one is therefore frozen, so that the next looks only at what is new.  Nearly all of
it goes without a collector, when nobody refers to it any more.  The rest, circles that were broken off after they were frozen,
is found when everything is looked at once more: a few times a day, sooner when more and more is set aside, and at once when it
has doubled.
"""

import gc
import time
from collections.abc import Callable
from typing import Final, Protocol

# How many new objects there are before a young collection, and how often that happens for a middle one, and a middle one for a
# full one: a full one then looks at some 40,000 new objects, which takes a few milliseconds.  Requests under way are some twenty
# objects each, and go without a collector: as long as there are fewer than a few hundred of them nothing is looked at.
THRESHOLDS: Final = (5_000, 3, 1)
OLDEST: Final = 2
EVERYTHING_EVERY_S: Final = 6 * 3600.0
# Where a quarter has come on top.
GROWN_EVERY_S: Final = 600.0
# Objects on top of twice as many: some 50 MB.
GROWN_MAX: Final = 500_000
# Counting what is set aside goes through all of it: so many times as long as it took it is not done again.
COUNTING_PAUSE: Final = 500


class Collector(Protocol):
    """What is used of Python's."""

    def freeze(self) -> None: ...

    def unfreeze(self) -> None: ...

    def get_freeze_count(self) -> int: ...


class ShortCollections:
    """What is set aside, and when everything was looked at."""

    def __init__(self, monotonic: Callable[[], float], collector: Collector = gc) -> None:
        self._monotonic = monotonic
        self._collector = collector
        self._looked_at = monotonic()
        self._left: int | None = None  # after everything was looked at
        self._count_again_at = 0.0

    def on_collection(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] != OLDEST:
            return
        if phase == "stop":
            self._collector.freeze()
            if self._left is None:
                self._left = self._count()
        elif self._is_due():
            self._looked_at, self._left = self._monotonic(), None
            self._collector.unfreeze()

    def _is_due(self) -> bool:
        if self._left is None:
            return False
        now = self._monotonic()
        passed = now - self._looked_at
        if passed > EVERYTHING_EVERY_S:
            return True
        if now < self._count_again_at:
            return False
        aside = self._count()
        return aside > 2 * self._left + GROWN_MAX or (passed > GROWN_EVERY_S and aside > self._left * 1.25)

    def _count(self) -> int:
        began = self._monotonic()
        aside = self._collector.get_freeze_count()
        ended = self._monotonic()
        self._count_again_at = ended + COUNTING_PAUSE * (ended - began)
        return aside


def keep_collections_short(monotonic: Callable[[], float] = time.monotonic) -> Callable[[], None]:
    """From now on, and for the whole process; what is returned takes it back."""
    before = gc.get_threshold()
    collections = ShortCollections(monotonic)

    def take_back() -> None:
        gc.callbacks.remove(collections.on_collection)
        gc.set_threshold(*before)
        gc.unfreeze()

    gc.callbacks.append(collections.on_collection)
    gc.set_threshold(*THRESHOLDS)
    return take_back
