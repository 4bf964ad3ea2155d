"""A store in memory: for brokers without files, for tests and for simulations.  Leases end by the event loop's clock.

Several brokers in one process share one MemoryStore: that is a whole cluster.  A broker that has one to itself is `alone`: its
lease is its process, as in SQLite, and ends when it is revoked, however long the process stood still.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

from headrace.controller.entries import Condition, KeyValue, Operation
from headrace.metadata.changes import NextChange
from headrace.metadata.ledger import Change, Ledger
from headrace.metadata.store import OPERATIONS_MAX, LeaseLost, Listing, StoreUnavailable, TransactionResult, WatchBatch


class LedgerWatches:
    """Wakes those who wait for the next revision of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._next = NextChange()
        self._closed = False

    def notify(self) -> None:
        self._next.notify()

    def close(self) -> None:
        self._closed = True
        self.notify()

    async def watch(self, prefix: str, start_revision: int) -> AsyncIterator[WatchBatch]:
        next_revision = start_revision
        while not self._closed:
            for change in self._ledger.changes_from(next_revision):
                next_revision = change.revision + 1
                events = tuple(event for event in change.events if event.key.startswith(prefix))
                if events:
                    yield WatchBatch(change.revision, events)
            if self._ledger.revision < next_revision and not self._closed:
                await self._next.wait()


class MemoryStore:
    """Satisfies MetadataStore."""

    operations_max = OPERATIONS_MAX

    def __init__(self, *, alone: bool = False) -> None:
        self._ledger = Ledger()
        self._watches = LedgerWatches(self._ledger)
        self._alone = alone
        self._leases: dict[int, tuple[float, asyncio.TimerHandle | None]] = {}
        self._last_lease = 0
        self._closed = False

    async def get(self, key: str) -> KeyValue | None:
        self._check_open()
        return self._ledger.get(key)

    async def list(self, prefix: str) -> Listing:
        self._check_open()
        return self._ledger.list(prefix)

    async def transact(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> TransactionResult:
        self._check_open()
        assert len(operations) <= self.operations_max, f"{len(operations)} operations in one transaction"
        if not all(self._ledger.holds(condition) for condition in conditions):
            return TransactionResult(False, self._ledger.revision)
        check_leases(operations, self._leases)
        change = self._ledger.plan(operations)
        if change.events:
            self._apply(change)
        return TransactionResult(True, self._ledger.revision)

    async def grant_lease(self, ttl_s: float) -> int:
        self._check_open()
        self._last_lease += 1
        self._schedule(self._last_lease, ttl_s)
        return self._last_lease

    async def keep_alive(self, lease: int) -> float:
        self._check_open()
        if lease not in self._leases:
            raise LeaseLost(f"lease {lease} has ended")
        ttl_s, timer = self._leases[lease]
        if timer is None:
            return float("inf")
        timer.cancel()
        self._schedule(lease, ttl_s)
        return ttl_s

    async def revoke(self, lease: int) -> None:
        self._check_open()
        self._end(lease)

    def watch(self, prefix: str, start_revision: int) -> AsyncIterator[WatchBatch]:
        return self._watches.watch(prefix, start_revision)

    async def close(self) -> None:
        self._closed = True
        for _, timer in self._leases.values():
            if timer is not None:
                timer.cancel()
        self._watches.close()

    def compact(self) -> None:
        """Forget the past: watches that are behind must list anew."""
        self._ledger.compact()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")

    def _schedule(self, lease: int, ttl_s: float) -> None:
        timer = None if self._alone else asyncio.get_running_loop().call_later(ttl_s, self._end, lease)
        self._leases[lease] = (ttl_s, timer)

    def _end(self, lease: int) -> None:
        held = self._leases.pop(lease, None)
        if held is None:
            return
        if held[1] is not None:
            held[1].cancel()
        change = self._ledger.plan_end_of_lease(lease)
        if change.events:
            self._apply(change)

    def _apply(self, change: Change) -> None:
        self._ledger.apply(change)
        self._watches.notify()


def check_leases(operations: Sequence[Operation], leases: object) -> None:
    """A key cannot be put under a lease that has ended."""
    for operation in operations:
        lease = getattr(operation, "lease", 0)
        if lease and lease not in leases:  # type: ignore[operator]
            raise LeaseLost(f"lease {lease} has ended")
