"""Now, handed in.  Wall time stamps entries; monotonic time measures sessions, so that a corrected clock expires nobody.

The wall time of one shell is read once and then moved on by its monotonic clock.  What an entry's stamp says of the time before a
coordinator took over is not believed: the clock that made it may have been wrong then, or the one that reads it now.  See
docs/decisions/0018.
"""

from typing import NamedTuple


class Moment(NamedTuple):
    """One reading of both clocks."""

    wall_ms: int
    monotonic: float

    def after_ms(self, milliseconds: float) -> float:
        """The monotonic time that many milliseconds from now."""
        return self.monotonic + milliseconds / 1000.0

    def moved_to(self, monotonic: float) -> "Moment":
        """The moment at a later monotonic time, whatever anybody did to the wall clock meanwhile."""
        return Moment(self.wall_ms + round((monotonic - self.monotonic) * 1000), monotonic)


def counted_from(stamp_ms: int, serving_since_ms: int | None, now_ms: int) -> int:
    """From when an age counts: from a stamp that was made since the coordinator serves, else from when it began to."""
    if serving_since_ms is None or serving_since_ms <= stamp_ms <= now_ms:
        return stamp_ms
    return serving_since_ms
