"""Finding records in memory by their time.  There is no index: batches are looked at one after the other.

Another thread may do so while the log goes on.  Then a batch may lose its bytes, or records, at any moment: what is found was
there while it was looked for.
"""

from collections.abc import Sequence
from typing import Protocol

from headrace.host.disk import Disk
from headrace.log.memory.held_batches import HeldBatch, HeldBatches
from headrace.log.results import FoundOffset
from headrace.records.header import read_header
from headrace.records.record import read_records


class SearchedLog(Protocol):
    """What a search has to know of its log."""

    batches: HeldBatches
    truncations: int

    @property
    def start_offset(self) -> int: ...


class MemorySearch:
    """A search for a time; without one, for the greatest.  A `TimeSearch`."""

    def __init__(self, log: SearchedLog, timestamp: int | None, up_to: int) -> None:
        self.found: FoundOffset | None = None
        self._log = log
        self._batches = log.batches.in_log()
        self._start_offset = log.start_offset
        self._truncations = log.truncations
        self._timestamp = timestamp
        self._up_to = up_to

    def run(self, disk: Disk) -> bool:
        if self._timestamp is None:
            self.found = latest(self._batches, self._start_offset, self._up_to)
        else:
            self.found = first_at_or_after(self._batches, self._start_offset, self._timestamp, self._up_to)
        return True

    def accept(self) -> bool:
        is_there = self.found is None or self.found.offset >= self._log.start_offset
        return is_there and self._truncations == self._log.truncations


def first_at_or_after(batches: Sequence[HeldBatch], start_offset: int, timestamp: int, up_to: int) -> FoundOffset | None:
    """The first record at or after a time, of those from a start to an offset."""
    for batch in batches:
        if batch.base_offset >= up_to:
            return None
        if batch.max_timestamp >= timestamp and batch.records and (data := batch.data):
            for record in read_records(data):
                if record.timestamp >= timestamp and start_offset <= record.offset < up_to:
                    return FoundOffset(record.timestamp, record.offset, read_header(data).leader_epoch)
    return None


def latest(batches: Sequence[HeldBatch], start_offset: int, up_to: int) -> FoundOffset | None:
    """The record with the greatest timestamp, of those from a start to an offset; of several the first."""
    seen = (batch for batch in batches if batch.records and batch.base_offset < up_to)
    greatest = max((batch.max_timestamp for batch in seen), default=-1)
    return None if greatest < 0 else first_at_or_after(batches, start_offset, greatest, up_to)
