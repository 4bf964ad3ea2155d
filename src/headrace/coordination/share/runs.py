"""The records of a share-partition that are under way, as runs of neighbours that are alike.

What always holds: runs follow each other without a hole, from `start` up to `end`; the first is not done; no two neighbours are
both done, so there are at most twice as many runs as records that are not done.
"""

from bisect import bisect_right
from collections.abc import Iterator
from enum import Enum, auto

from headrace.declaring import dataclass


class RunState(Enum):
    """Where a record stands.  Whether one that is done was accepted or given up is known to the share coordinator."""

    AVAILABLE = auto()
    ACQUIRED = auto()
    DONE = auto()


@dataclass(slots=True)
class Run:
    """The records from `first` up to but not including `end`."""

    first: int
    end: int
    state: RunState
    delivery_count: int = 0
    member_id: str = ""
    deadline: float = 0.0  # until when it is the member's
    change: int = 0  # the change whose fate is not known yet; 0 where there is none
    not_before: float = 0.0  # until when nobody gets it again, though it is free
    first_at: float = 0.0  # when it was first delivered; 0 where a leader before this one did that

    @property
    def size(self) -> int:
        return self.end - self.first


class Runs:
    """Runs in order."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.available = 0
        self.acquired = 0
        self._runs: list[Run] = []
        self._firsts: list[int] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def unfinished(self) -> int:
        return self.available + self.acquired

    @property
    def done(self) -> int:
        """How many records from the start on are done, though one before them is not."""
        return self.end - self.start - self.unfinished

    def extend(self, end: int, state: RunState, delivery_count: int = 0) -> None:
        """Append a run of records that nobody has."""
        if end > self.end:
            self._runs.append(Run(self.end, end, state, delivery_count))
            self._firsts.append(self.end)
            self._count(state, end - self.end)
            self.end = end

    def overlapping(self, first: int, end: int) -> Iterator[Run]:
        """The runs that have records of a range, whole, to be looked at."""
        for position in range(self._position(first), len(self._runs)):
            run = self._runs[position]
            if run.first >= end:
                return
            yield run

    def cut_out(self, first: int, end: int) -> list[Run]:
        """The same, cut so that they have no record outside the range."""
        first, end = max(first, self.start), min(end, self.end)
        if first >= end:
            return []
        self._cut(first)
        self._cut(end)
        begin, stop = self._position(first), bisect_right(self._firsts, end - 1)
        return self._runs[begin:stop]

    def first_available(self, now: float) -> int:
        """The first record that may be acquired; the end where there is none."""
        if not self.available:
            return self.end
        due = (run.first for run in self._runs if run.state is RunState.AVAILABLE and run.not_before <= now)
        return next(due, self.end)

    def turn(self, run: Run, state: RunState) -> None:
        """A run changes its state.  Its neighbours stay as they are until `tidy`."""
        self._count(run.state, -run.size)
        run.state = state
        self._count(state, run.size)

    def drop_below(self, offset: int) -> None:
        """Forget all records below an offset, whatever their state."""
        below = self.cut_out(self.start, offset)
        for run in below:
            self._count(run.state, -run.size)
        del self._runs[: len(below)], self._firsts[: len(below)]
        self.start, self.end = max(self.start, offset), max(self.end, offset)
        self.tidy()

    def tidy(self) -> None:
        """Make neighbours that are done one, and start with the first record that is not."""
        kept: list[Run] = []
        for run in self._runs:
            if run.state is RunState.DONE and kept and kept[-1].state is RunState.DONE:
                kept[-1].end = run.end
            else:
                kept.append(run)
        if kept and kept[0].state is RunState.DONE:
            self.start = kept.pop(0).end
        self._runs = kept
        self._firsts = [run.first for run in kept]

    def _count(self, state: RunState, size: int) -> None:
        if state is RunState.AVAILABLE:
            self.available += size
        elif state is RunState.ACQUIRED:
            self.acquired += size

    def _position(self, offset: int) -> int:
        """Of the run that has this record, or that follows where none has."""
        return max(bisect_right(self._firsts, offset) - 1, 0)

    def _cut(self, offset: int) -> None:
        if not self.start < offset < self.end:
            return
        position = self._position(offset)
        run = self._runs[position]
        if run.first == offset:
            return
        rest = Run(
            offset,
            run.end,
            run.state,
            run.delivery_count,
            run.member_id,
            run.deadline,
            run.change,
            run.not_before,
            run.first_at,
        )
        run.end = offset
        self._runs.insert(position + 1, rest)
        self._firsts.insert(position + 1, offset)
