"""When a transaction must be looked at again although nobody asks.

An open transaction is aborted once `transaction.timeout.ms` has passed since its first partition; an idle transactional id is
forgotten after `transactional.id.expiration.ms`.  A decided transaction has no deadline: its markers are retried for ever.
A time-out runs on while coordinators change, as others wait for the transaction to end.  Of an idle id only the time counts in
which this coordinator served: nobody else's clock is believed.
"""

import heapq
from dataclasses import field

from headrace.coordination.moment import counted_from
from headrace.coordination.transaction.requests import TransactionSettings
from headrace.coordination.transaction.state import IDLE, TIMEOUT_NEVER_MS, TransactionEntry, TransactionState
from headrace.declaring import dataclass


def deadline_ms(
    transaction: TransactionEntry, settings: TransactionSettings, serving_since_ms: int | None = None, now_ms: int = 0
) -> int | None:
    """The first millisecond at which time alone changes this transaction."""
    if transaction.state is TransactionState.ONGOING:
        # One that began in the future began under a clock that was wrong.
        began_ms = min(transaction.start_ms, max(now_ms, serving_since_ms or transaction.start_ms))
        return None if transaction.timeout_ms == TIMEOUT_NEVER_MS else began_ms + transaction.timeout_ms + 1
    if transaction.state in IDLE:
        idle_since_ms = counted_from(transaction.last_update_ms, serving_since_ms, now_ms)
        return idle_since_ms + settings.transactional_id_expiration_ms
    return None


@dataclass(slots=True)
class Deadlines:
    """The next deadline of every transactional id, earliest first.  Entries of the heap that no longer hold are skipped."""

    _current: dict[str, int] = field(default_factory=dict)
    _heap: list[tuple[int, str]] = field(default_factory=list)

    def put(self, transactional_id: str, deadline: int | None) -> None:
        """Set or clear one deadline."""
        if deadline is None:
            self._current.pop(transactional_id, None)
        elif self._current.get(transactional_id) != deadline:
            self._current[transactional_id] = deadline
            heapq.heappush(self._heap, (deadline, transactional_id))
            self._drop_stale_when_many()

    def next(self) -> int | None:
        """The earliest deadline of all."""
        while self._heap and self._stale(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int, limit: int) -> list[str]:
        """Transactional ids whose time has come, earliest first; they stay due until their deadline is set anew."""
        taken: list[tuple[int, str]] = []
        seen: set[str] = set()
        while len(seen) < limit and self._heap and self._heap[0][0] <= now_ms:
            entry = heapq.heappop(self._heap)
            if not self._stale(entry) and entry[1] not in seen:
                seen.add(entry[1])
                taken.append(entry)
        for entry in taken:
            heapq.heappush(self._heap, entry)
        return [transactional_id for _, transactional_id in taken]

    def _stale(self, entry: tuple[int, str]) -> bool:
        return self._current.get(entry[1]) != entry[0]

    def _drop_stale_when_many(self) -> None:
        # A busy transactional id moves its deadline with every transaction: without this the heap would grow without end.
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._current):
            self._heap = [(deadline, transactional_id) for transactional_id, deadline in self._current.items()]
            heapq.heapify(self._heap)
