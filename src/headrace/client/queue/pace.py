"""How many jobs are fetched ahead of those who work on them.

Quick jobs want many at hand, or each waits for its way over the network; slow ones want none, or others who are idle do not get
them.  So what is fetched ahead is what is worked off in a tenth of a second.
"""

from __future__ import annotations

AHEAD_S = 0.1
AHEAD_MAX = 1000
SMOOTHING = 0.2


class Pace:
    """With `fixed`, always so many."""

    def __init__(self, fixed: int | None = None) -> None:
        self._fixed = fixed
        self._seconds_each = 0.0
        self._finished = 0

    def finished(self, count: int, seconds: float) -> None:
        """So many jobs took a worker so long."""
        if count > 0:
            each = seconds / count
            # The first ones tell something, later ones correct it; one that takes long counts at once.
            known = self._finished and each < self._seconds_each
            self._seconds_each = (1 - SMOOTHING) * self._seconds_each + SMOOTHING * each if known else each
            self._finished += count

    def ahead(self, workers: int) -> int:
        """Beyond one for each worker.  It grows with what is known: no more than were finished."""
        if self._fixed is not None:
            return self._fixed
        if not self._seconds_each:
            return min(AHEAD_MAX, self._finished)
        return int(min(AHEAD_MAX, self._finished, workers * AHEAD_S / self._seconds_each))
