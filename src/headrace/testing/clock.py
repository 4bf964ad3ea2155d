"""A clock that runs as clocks do and can be moved forward, for tests of what takes days.

Records carry the time at which their producer sent them; only the broker's own idea of now moves.
"""

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta


class AdjustableClock:
    """The machine's clocks, ahead by what `advance` has added."""

    def __init__(self) -> None:
        self._ahead_ns = 0
        self._lock = threading.Lock()
        # Whom to tell when it was moved.
        self.on_advanced: Callable[[], None] = lambda: None

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as the broker sees them."""
        return (time.time_ns() + self._ahead_ns) // 1_000_000

    def monotonic(self) -> float:
        """Seconds that only grow, as the broker sees them."""
        return time.monotonic() + self._ahead_ns / 1e9

    def advance(self, by: timedelta | float = 0.0, **parts: float) -> None:
        """Move forward by a timedelta, by seconds, or by parts of one: `advance(days=8)`."""
        moved = (by if isinstance(by, timedelta) else timedelta(seconds=by)) + timedelta(**parts)
        if moved < timedelta(0):
            raise ValueError(f"a clock does not go back, as {moved} would have it")
        with self._lock:
            self._ahead_ns += int(moved.total_seconds() * 1e9)
        self.on_advanced()

    def now(self) -> datetime:
        """What the broker believes the time to be, in local time."""
        return datetime.fromtimestamp(self.wall_ms() / 1000).astimezone()
