"""Failed sign-ins by address: each costs its client time, and the more of them the more.

The reply to a failure waits.  A success forgives nothing: whoever has an account could guess at others' for free.  Addresses are
forgotten after a while without failures, and no more than so many are remembered: the one that failed longest ago is forgotten
first.
"""

from typing import Final

DELAY_S: Final = 0.1  # as Kafka's connection.failed.authentication.delay.ms
DELAY_S_MAX: Final = 5.0
FREE: Final = 5  # so many within the window wait the shortest time: people mistype, and pools reconnect
WINDOW_S: Final = 60.0
ADDRESSES_MAX: Final = 10_000


class FailedSignIns:
    """How often each address failed lately."""

    def __init__(self, delay_s: float = DELAY_S) -> None:
        self._delay_s = delay_s
        self._failures: dict[str, tuple[int, float]] = {}  # address -> how many, and when the last was; the oldest first

    def on_failure(self, address: str, now: float) -> float:
        """Somebody failed: how many seconds the reply waits."""
        count = self.recent(address, now) + 1
        self._failures.pop(address, None)
        if len(self._failures) >= ADDRESSES_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[address] = count, now
        return float(min(DELAY_S_MAX, self._delay_s * 2 ** max(0, min(count - FREE, 16))))

    def recent(self, address: str, now: float) -> int:
        """How many failures there were from an address without a quiet window between."""
        count, last = self._failures.get(address, (0, now))
        return count if now - last < WINDOW_S else 0
