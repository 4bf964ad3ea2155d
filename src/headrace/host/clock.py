"""Time, handed in.  Wall time stamps records; monotonic time measures waits."""

import time
from typing import Protocol


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # Python's own function, without a call of ours in between: every request asks it several times.
    monotonic = staticmethod(time.monotonic)
