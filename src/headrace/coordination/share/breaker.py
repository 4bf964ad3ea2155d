"""A breaker for each share group: where too many of its records end given up, something is wrong with the workers rather than
with the records, and delivery pauses instead of draining a topic into the dead letters.

Looks at the last records that were done, whether accepted or given up.  After a pause it is on trial: a tenth as many decide
whether it pauses again.  What always holds: while it is shut nothing is delivered; it never shuts on fewer records than it is
told to look at, but for the trial.
"""

from collections import deque

from headrace.declaring import dataclass

TRIAL_PART = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerLimits:
    """What a group's settings say; 0 percent switches it off."""

    percent: int = 0
    records: int = 100
    pause_ms: int = 60_000
    # Pauses that began before this time are over: somebody has looked.
    resumed_ms: int = 0


class Breaker:
    """Of one group, as one broker sees it."""

    def __init__(self) -> None:
        self.paused_at_ms: int | None = None
        self.given_up = 0  # when it paused, of so many
        self.looked_at = 0
        self._outcomes: deque[tuple[bool, int]] = deque()  # whether given up, and how many in a row
        self._counts = {True: 0, False: 0}
        self._is_on_trial = False

    def is_open(self, limits: BreakerLimits, now_ms: int) -> bool:
        """Whether delivery pauses."""
        paused_at_ms = self.paused_at_ms
        if paused_at_ms is None:
            return False
        if limits.percent and paused_at_ms > limits.resumed_ms and now_ms < paused_at_ms + limits.pause_ms:
            return True
        self.paused_at_ms = None
        self._is_on_trial = bool(limits.percent) and paused_at_ms > limits.resumed_ms
        return False

    def note(self, count: int, *, given_up: bool, limits: BreakerLimits, now_ms: int) -> bool:
        """So many records are done.  Returns whether delivery pauses because of them."""
        if not limits.percent or count <= 0 or self.is_open(limits, now_ms):
            return False
        self._outcomes.append((given_up, count))
        self._counts[given_up] += count
        wanted = max(1, limits.records // TRIAL_PART) if self._is_on_trial else limits.records
        self._forget_beyond(limits.records)
        total = self._counts[True] + self._counts[False]
        if total < wanted:
            return False
        self._is_on_trial = False
        if self._counts[True] * 100 <= limits.percent * total:
            return False
        self.paused_at_ms, self.given_up, self.looked_at = now_ms, self._counts[True], total
        self._outcomes.clear()
        self._counts = {True: 0, False: 0}
        return True

    def _forget_beyond(self, records: int) -> None:
        """Keep the last so many, and what came together with them."""
        while self._outcomes and self._counts[True] + self._counts[False] - self._outcomes[0][1] >= records:
            given_up, count = self._outcomes.popleft()
            self._counts[given_up] -= count
