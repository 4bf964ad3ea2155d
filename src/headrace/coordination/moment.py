"""Now, handed in.  Wall time stamps entries; monotonic time measures sessions, so that a corrected clock expires nobody."""

from typing import NamedTuple


class Moment(NamedTuple):
    """One reading of both clocks."""

    wall_ms: int
    monotonic: float

    def after_ms(self, milliseconds: float) -> float:
        """The monotonic time that many milliseconds from now."""
        return self.monotonic + milliseconds / 1000.0
