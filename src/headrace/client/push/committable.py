"""Which offsets of a partition may be committed while its records are handled beside each other.

Records start in order and finish in any order.  Always: what may be committed is the offset below which everything has
finished, so that after a crash nothing unfinished is skipped.
"""

from __future__ import annotations

from collections import deque


class Committable:
    """One partition, for as long as it is assigned once.  A late answer about an earlier assignment finds only this old
    object."""

    __slots__ = ("_finished", "_started", "next_offset")

    def __init__(self) -> None:
        self._started: deque[int] = deque()  # in order, from the first that is not finished
        self._finished: set[int] = set()  # of those, the ones that are
        self.next_offset: int | None = None  # what may be committed; None until something has finished

    def start(self, offset: int) -> None:
        self._started.append(offset)

    def finish(self, offset: int) -> bool:
        """Note that a record is done with; whether there is more to commit now."""
        self._finished.add(offset)
        moved = False
        while self._started and self._started[0] in self._finished:
            done = self._started.popleft()
            self._finished.discard(done)
            self.next_offset = done + 1
            moved = True
        return moved

    @property
    def first_unfinished(self) -> int | None:
        """None when all that started has finished."""
        return self._started[0] if self._started else None

    def __len__(self) -> int:
        """Records between the first unfinished one and the last that started: what would be read again after a crash."""
        return len(self._started)
