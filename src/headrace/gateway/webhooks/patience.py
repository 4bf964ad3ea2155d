"""How long to wait after a failure, and when to leave an endpoint alone.  No I/O; the clock is handed in."""

from __future__ import annotations

import email.utils
import random
from dataclasses import dataclass
from typing import Final

FIRST_S: Final = 0.5
LONGEST_S: Final = 300.0
RETRY_AFTER_S_MAX: Final = 3600.0
FAILURES_TO_OPEN: Final = 5
OPEN_S: Final = 5.0
OPEN_S_MAX: Final = 120.0


def backoff_s(attempt: int, chance: float | None = None) -> float:
    """After so many attempts: doubling, with a jitter of half of it, so that those who failed together do not come together."""
    whole = min(LONGEST_S, FIRST_S * 2.0 ** min(attempt - 1, 20))
    return whole * (0.5 + 0.5 * (random.SystemRandom().random() if chance is None else chance))


def retry_after_s(header: str | None, now_s: float) -> float:
    """What `Retry-After` says, as seconds from now; 0 where it says nothing that can be read."""
    if header is None:
        return 0.0
    text = header.strip()
    if text.isdecimal():
        return min(float(text), RETRY_AFTER_S_MAX)
    try:
        return min(max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now_s), RETRY_AFTER_S_MAX)
    except (ValueError, TypeError):
        return 0.0


@dataclass(slots=True)
class Breaker:
    """Of one endpoint: opens after some failures in a row; then one attempt at a time looks whether it is back."""

    failures: int = 0
    opens_at: float = 0.0  # until then nobody tries
    is_probed: bool = False

    def wait_s(self, now: float) -> float:
        """How long to wait before an attempt; 0 takes the attempt."""
        if self.failures < FAILURES_TO_OPEN:
            return 0.0
        if now < self.opens_at:
            return self.opens_at - now
        if self.is_probed:
            return FIRST_S
        self.is_probed = True
        return 0.0

    def succeeded(self) -> None:
        self.failures, self.is_probed = 0, False

    def failed(self, now: float) -> None:
        self.failures += 1
        self.is_probed = False
        if self.failures >= FAILURES_TO_OPEN:
            self.opens_at = now + min(OPEN_S_MAX, OPEN_S * 2.0 ** min(self.failures - FAILURES_TO_OPEN, 10))

    def gave_up(self) -> None:
        """The attempt ended without an answer of either kind."""
        self.is_probed = False
