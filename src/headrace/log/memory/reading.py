"""Reading a log in memory, and looking for a time, the greatest time or aborted transactions in it."""

from bisect import bisect_left

from headrace.log.epochs import EpochCache
from headrace.log.memory.held_batches import HeldBatches
from headrace.log.memory.searching import first_at_or_after, latest
from headrace.log.results import AbortedTransaction, FoundOffset, Read
from headrace.log.state import LogState
from headrace.model.errors import ErrorCode, RequestError
from headrace.records.control import build_step_over


class MemoryReader:
    """Reads one log."""

    def __init__(self, batches: HeldBatches, state: LogState, epochs: EpochCache) -> None:
        self._batches = batches
        self._state = state
        self._epochs = epochs

    def read(self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool, as_stored: bool = False) -> Read:
        state = self._state
        if offset < state.start_offset or offset > state.end_offset:
            raise RequestError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not between {state.start_offset} and {state.end_offset}"
            )
        parts: list[bytes] = []
        size, next_offset, first_offset, passed_to = 0, offset, -1, offset
        index, batches = self._batches.index_of(offset), self._batches.all
        while index < len(batches):
            batch = batches[index]
            index += 1
            if batch.next_offset > up_to:
                break
            if not batch.data or (not batch.records and not as_stored):
                passed_to = batch.next_offset
                continue
            if size + len(batch.data) > max_bytes and (parts or not at_least_one):
                break
            if not parts:
                first_offset = batch.base_offset
            parts.append(batch.data)
            size += len(batch.data)
            next_offset = batch.next_offset
        if not parts and passed_to > offset and (passed_to >= up_to or at_least_one):
            step = build_step_over(offset, passed_to, self._epochs.epoch_at(offset))
            return Read(step, offset, passed_to)
        return Read(parts[0] if len(parts) == 1 else b"".join(parts), first_offset, next_offset)

    def offset_for_timestamp(self, timestamp: int, up_to: int) -> FoundOffset | None:
        return first_at_or_after(self._batches.in_log(), self._state.start_offset, timestamp, up_to)

    def offset_of_max_timestamp(self, up_to: int) -> FoundOffset | None:
        return latest(self._batches.in_log(), self._state.start_offset, up_to)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        aborted = self._batches.aborted
        found = []
        for entry in aborted[bisect_left(aborted, start, key=lambda entry: entry.last_offset) :]:
            if entry.first_offset < end:
                found.append(AbortedTransaction(entry.producer_id, entry.first_offset))
            if entry.last_stable_offset >= end:
                break
        return found
