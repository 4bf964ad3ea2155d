"""One thread at a time, and whoever waits is next.

confluent-kafka lets one thread into a consumer at a time, and a thread that polls in a loop is let in again before one that
waits: a commit from another thread may then wait for ever.  So we take turns ourselves.
"""

from __future__ import annotations

import threading
from types import TracebackType


class FairLock:
    """A lock for `with`.  The thread that has it may take it again, as a rebalance callback does inside a poll."""

    def __init__(self) -> None:
        self._next = threading.Lock()  # held by the one who is next in line
        self._inside = threading.Lock()
        self._owner: int | None = None
        self._depth = 0

    def acquire(self, timeout: float = -1) -> bool:
        """Wait for a turn; with a `timeout` of 0 only take one that is free."""
        me = threading.get_ident()
        if self._owner == me:
            self._depth += 1
            return True
        if not self._lock(self._next, timeout):
            return False
        try:
            if not self._lock(self._inside, timeout):
                return False
        finally:
            self._next.release()
        self._owner, self._depth = me, 1
        return True

    @staticmethod
    def _lock(lock: threading.Lock, timeout: float) -> bool:
        return lock.acquire(blocking=False) if timeout == 0 else lock.acquire(timeout=timeout)

    @property
    def mine(self) -> bool:
        """Whether the calling thread has its turn just now."""
        return self._owner == threading.get_ident()

    def release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            self._inside.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()
