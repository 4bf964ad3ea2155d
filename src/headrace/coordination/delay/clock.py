"""The time by which records become due: the wall clock, but not where it jumps ahead.

Early means: before its time by the wall clock of the broker that delivers it, or by what that clock said before somebody set it.
A clock that is set back is believed at once: things come later than they might have, never earlier.  One that is set ahead is
not believed before it has said so for a while: a wrong one is set right by then (a time server corrects it within minutes), and
after that the machine's time is what it says.  Small corrections are believed as they come.
"""

from headrace.coordination.moment import Moment

# By how much the wall clock may get ahead of the steady one between two looks: a little, and a thousandth of the time between.
CORRECTION_MS_MAX = 20
CORRECTION_RATE = 0.001


class DeliveryClock:
    """Never ahead of the wall clock, nor of where it was before it jumped."""

    def __init__(self, wall_ms: int, monotonic: float, confirmed_after_ms: int) -> None:
        self._confirmed_after_s = confirmed_after_ms / 1000
        self._last = Moment(wall_ms, monotonic)
        # Since when the wall clock has been ahead, and by how much.
        self._jumped_at: float | None = None
        self._jumped_by_ms = 0

    def read(self, wall_ms: int, monotonic: float) -> Moment:
        """Now, given what both clocks say."""
        steady = self._last.moved_to(monotonic)
        ahead_ms = wall_ms - steady.wall_ms
        elapsed_ms = (monotonic - self._last.monotonic) * 1000
        if ahead_ms <= CORRECTION_MS_MAX + elapsed_ms * CORRECTION_RATE or self._is_confirmed(ahead_ms, monotonic):
            self._jumped_at = None
            self._last = Moment(wall_ms, monotonic)
        else:
            self._last = steady
        return self._last

    def _is_confirmed(self, ahead_ms: int, monotonic: float) -> bool:
        if self._jumped_at is None or abs(ahead_ms - self._jumped_by_ms) > CORRECTION_MS_MAX:
            self._jumped_at, self._jumped_by_ms = monotonic, ahead_ms
        return monotonic - self._jumped_at >= self._confirmed_after_s
