"""A store whose round trips are measured; it does nothing else."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from headrace.controller.entries import Condition, KeyValue, Operation
from headrace.metadata.store import Listing, MetadataStore, TransactionResult, WatchBatch

Answer = TypeVar("Answer")
# What was asked, how long it took in seconds, and whether there was an answer.
OnRoundTrip = Callable[[str, float, bool], None]


class MeasuredStore:
    """Stands before another store."""

    def __init__(self, store: MetadataStore, monotonic: Callable[[], float], on_round_trip: OnRoundTrip) -> None:
        self._store = store
        self._monotonic = monotonic
        self._on_round_trip = on_round_trip
        self.operations_max = store.operations_max

    async def _measured(self, operation: str, answer: Awaitable[Answer]) -> Answer:
        began, succeeded = self._monotonic(), False
        try:
            result = await answer
            succeeded = True
            return result
        finally:
            self._on_round_trip(operation, self._monotonic() - began, succeeded)

    async def get(self, key: str) -> KeyValue | None:
        return await self._measured("get", self._store.get(key))

    async def list(self, prefix: str) -> Listing:
        return await self._measured("list", self._store.list(prefix))

    async def transact(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> TransactionResult:
        return await self._measured("transact", self._store.transact(conditions, operations))

    async def grant_lease(self, ttl_s: float) -> int:
        return await self._measured("grant_lease", self._store.grant_lease(ttl_s))

    async def keep_alive(self, lease: int) -> float:
        return await self._measured("keep_alive", self._store.keep_alive(lease))

    async def revoke(self, lease: int) -> None:
        await self._measured("revoke", self._store.revoke(lease))

    def watch(self, prefix: str, start_revision: int) -> AsyncIterator[WatchBatch]:
        return self._store.watch(prefix, start_revision)

    async def close(self) -> None:
        await self._store.close()
