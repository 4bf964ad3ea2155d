"""What becomes of records in a share group, as ranges: what a share coordinator keeps, and how newer word is laid over older.

What always holds of kept ranges: they are in order, none is empty, none overlaps another, and two that touch differ.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple


class RecordState(IntEnum):
    """The numbers are Kafka's, and stand in the log.  Acquired is known to a partition's leader only."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


DONE = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


class AcknowledgeType(IntEnum):
    """What a consumer says of a record that it has.  The numbers are those of the protocol."""

    GAP = 0  # there is no such record
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4  # it is still at work (KIP-1222)


class AcquireMode(IntEnum):
    """How strictly the number of records asked for is taken (KIP-1206)."""

    BATCH_OPTIMIZED = 0  # whole batches, the last of which may go beyond it
    RECORD_LIMIT = 1


class StateBatch(NamedTuple):
    """The records from `first` up to but not including `end`."""

    first: int
    end: int
    state: RecordState
    delivery_count: int


def coalesced(batches: Iterable[StateBatch]) -> Iterator[StateBatch]:
    """Ranges in order, with neighbours that say the same made one."""
    held: StateBatch | None = None
    for batch in batches:
        if held is not None and held.end == batch.first and held[2:] == batch[2:]:
            held = held._replace(end=batch.end)
            continue
        if held is not None:
            yield held
        held = batch
    if held is not None:
        yield held


def laid_over(older: Sequence[StateBatch], newer: Sequence[StateBatch], start: int) -> tuple[StateBatch, ...]:
    """What holds when newer word is taken into account, and all below `start` is forgotten.  Of the newer, the last counts.

    What is done stays done, whatever is said of it later: a leader that gave up on a write does not know when it arrives, and by
    then others may have accepted the records that it tells to be free."""
    kept: list[StateBatch] = list(older)
    if newer:
        first, end = min(each.first for each in newer), max(each.end for each in newer)
        begin = bisect_right(kept, first, key=lambda each: each.end)
        stop = bisect_left(kept, end, key=lambda each: each.first)
        kept[begin:stop] = _uppermost([*kept[begin:stop], *newer])
    above = (batch if batch.first >= start else batch._replace(first=start) for batch in kept if batch.end > start)
    return tuple(coalesced(above))


def _uppermost(layers: Sequence[StateBatch]) -> Iterator[StateBatch]:
    """What is seen of ranges that lie on each other, the last on top but those that are done above all others.

    One pass over all edges: a member may say something else of each of thousands of records."""
    ranked = [(batch.first, batch.state not in DONE, -position, batch) for position, batch in enumerate(layers)]
    ranked.sort(reverse=True)
    edges = sorted({edge for batch in layers for edge in (batch.first, batch.end)})
    here: list[tuple[bool, int, StateBatch]] = []
    for first, end in pairwise(edges):
        while ranked and ranked[-1][0] <= first:
            heappush(here, ranked.pop()[1:])
        while here and here[0][2].end <= first:
            heappop(here)
        if here:
            yield here[0][2]._replace(first=first, end=end)
