"""Python's garbage collector in a process that must not stand still: what has survived a full collection is set aside.

A full collection looks at every object there is, and nothing else runs meanwhile: with nine thousand partitions it took 130 ms,
six times while they were made.  What survives one is therefore frozen, so that the next looks only at what is new.  Nearly all of
it goes without a collector, when nobody refers to it any more.  The rest, circles that were broken off after they were frozen,
is found a few times a day, when everything is looked at once more.
"""

import gc
import time
from collections.abc import Callable
from typing import Final

# How often a young collection happens for a middle one, and a middle one for a full one: a full one then looks at some 20,000
# new objects, which takes a few milliseconds.
THRESHOLDS: Final = (700, 10, 3)
OLDEST: Final = 2
EVERYTHING_EVERY_S: Final = 6 * 3600.0


def keep_collections_short(monotonic: Callable[[], float] = time.monotonic) -> Callable[[], None]:
    """From now on, and for the whole process; what is returned takes it back."""
    before = gc.get_threshold()
    looked_at_everything = monotonic()

    def on_collection(phase: str, info: dict[str, int]) -> None:
        nonlocal looked_at_everything
        if info["generation"] != OLDEST:
            return
        if phase == "stop":
            gc.freeze()
        elif monotonic() - looked_at_everything > EVERYTHING_EVERY_S:
            looked_at_everything = monotonic()
            gc.unfreeze()

    def take_back() -> None:
        gc.callbacks.remove(on_collection)
        gc.set_threshold(*before)
        gc.unfreeze()

    gc.callbacks.append(on_collection)
    gc.set_threshold(*THRESHOLDS)
    return take_back
