"""Whether something moves too slowly: looked at now and then, judged over a whole window at a time."""


class Pace:
    """How far one thing has moved since it was first looked at."""

    __slots__ = ("_moved", "_since", "_thing")

    def __init__(self) -> None:
        self._thing: object = None
        self._moved = 0
        self._since = 0.0

    def is_below(self, rate: float, window: float, *, thing: object, moved: int, now: float) -> bool:
        """Whether `thing`, which has moved so far in all, did less than `rate` a second for at least `window` seconds.

        Another thing than before, or one that was fast enough, is looked at afresh."""
        if thing != self._thing:
            self._look_afresh(thing, moved, now)
            return False
        elapsed = now - self._since
        if elapsed < window:
            return False
        if moved - self._moved < rate * elapsed:
            return True
        self._look_afresh(thing, moved, now)
        return False

    def _look_afresh(self, thing: object, moved: int, now: float) -> None:
        self._thing, self._moved, self._since = thing, moved, now
