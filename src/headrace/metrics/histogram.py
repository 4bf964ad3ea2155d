"""A histogram whose bounds are powers of two, so that the bucket of a number is its length in bits.

Observing costs one list element and one sum.  See docs/decisions/0023 for what that saves.
"""

from collections.abc import Iterator
from typing import NamedTuple

BUCKETS = 64
MICROSECONDS = 1_000_000


class Distribution(NamedTuple):
    """What a histogram held at a moment.  `counts[n]` is how many values were at most 2**n units and above 2**(n-1)."""

    counts: tuple[int, ...]
    sum: float
    # How many units of the counts are one of the metric: a million where microseconds are counted and seconds are told.
    scale: int
    # Of the powers of two, those that are shown.
    shown: range

    @property
    def number(self) -> int:
        """Of all values."""
        return sum(self.counts)

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Each bound that is shown, with how many values are at most as large."""
        for power in self.shown:
            yield (1 << power) / self.scale, sum(self.counts[: power + 1])


class Seconds:
    """How long something took, in microseconds.  From 64 us to 17 s, four times as long from one bound to the next."""

    __slots__ = ("counts", "sum")

    SHOWN = range(6, 25, 2)

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[int(seconds * MICROSECONDS).bit_length()] += 1
        self.sum += seconds

    def taken(self) -> Distribution:
        return Distribution(tuple(self.counts), self.sum, MICROSECONDS, self.SHOWN)


class FineSeconds(Seconds):
    """The same where few series are made of it: twice as long from one bound to the next."""

    __slots__ = ()

    SHOWN = range(6, 25)


class LongSeconds(Seconds):
    """What may take minutes: from a millisecond to two hours."""

    __slots__ = ()

    SHOWN = range(10, 34, 2)


class Sizes:
    """How large something was: whole numbers from one on."""

    __slots__ = ("counts", "shown", "sum")

    def __init__(self, shown: range) -> None:
        self.counts = [0] * BUCKETS
        self.sum = 0
        self.shown = shown

    def observe(self, size: int) -> None:
        self.counts[(size - 1).bit_length()] += 1
        self.sum += size

    def taken(self) -> Distribution:
        return Distribution(tuple(self.counts), self.sum, 1, self.shown)
