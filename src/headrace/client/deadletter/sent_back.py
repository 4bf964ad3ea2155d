"""What a redrive has sent back, so that nothing is sent twice and nothing that stayed is forgotten.

The redrive's group commits, for each partition of the dead-letter topic, the offset of the first record that still waits.
Records beyond it that were sent back are noted beside that offset, in the commit's metadata, as runs of offsets.  Both are
written in the transaction that sends the records.  Always: an offset counts as sent only if it is below the committed one or
in a noted run.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

NOTE = re.compile(r"sent:([0-9a-f]+\+[0-9a-f]+)(,[0-9a-f]+\+[0-9a-f]+)*")
NOTE_CHARACTERS_MAX = 4000  # a broker keeps 4,096 bytes beside an offset (`offset.metadata.max.bytes`)
RUN_CHARACTERS_MAX = 34


class SentBack:
    """Of one partition: everything below `first` is settled, and so are some runs of offsets after it."""

    def __init__(self, first: int, runs: Iterable[tuple[int, int]] = ()) -> None:
        self.first = first
        self.runs = list(runs)  # (start, stop) in order, apart from each other and from `first`
        self._room = (-1, True)

    @classmethod
    def of(cls, committed: int | None, note: str | None, earliest: int) -> SentBack:
        """From what was committed.  A note that is somebody else's says nothing."""
        if committed is None:
            return cls(earliest)
        sent_back, at = cls(committed), committed
        if note and NOTE.fullmatch(note):
            for run in note.removeprefix("sent:").split(","):
                gap, length = (int(number, 16) for number in run.split("+"))
                sent_back.settle(at + gap, at + gap + length)
                at += gap + length
        if earliest > sent_back.first:
            sent_back.settle(sent_back.first, earliest)  # retention has taken them
        return sent_back

    def settle(self, start: int, stop: int) -> None:
        """These offsets need no redrive any more."""
        start = max(start, self.first)
        if stop <= start:
            return
        merged: list[tuple[int, int]] = []
        for run in self.runs:
            if run[1] < start or run[0] > stop:
                merged.append(run)
            else:
                start, stop = min(start, run[0]), max(stop, run[1])
        merged.append((start, stop))
        merged.sort()
        if merged[0][0] <= self.first:
            self.first = merged.pop(0)[1]
        self.runs = merged

    def is_settled(self, offset: int) -> bool:
        index = bisect_right(self.runs, offset, key=lambda run: run[0]) - 1
        return offset < self.first or (index >= 0 and offset < self.runs[index][1])

    def waiting(self, end: int) -> int:
        """How many offsets below `end` are not settled."""
        return max(0, end - self.first) - sum(max(0, min(stop, end) - start) for start, stop in self.runs if start < end)

    @property
    def note(self) -> str:
        """The runs, as they are kept beside the committed offset."""
        edges = pairwise([(self.first, self.first), *self.runs])
        runs = [f"{start - before:x}+{stop - start:x}" for (_, before), (start, stop) in edges]
        return f"sent:{','.join(runs)}" if runs else ""

    @property
    def has_room(self) -> bool:
        """Whether one more run can be noted for sure."""
        if self._room[0] != len(self.runs):
            self._room = (len(self.runs), len(self.note) + RUN_CHARACTERS_MAX <= NOTE_CHARACTERS_MAX)
        return self._room[1]
