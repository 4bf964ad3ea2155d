"""The interface to a strongly consistent store, shaped after etcd.

Every successful transaction gets a revision, higher than the last.  A watch delivers the events of every revision from its start
on, in order, each once; a reader so far behind that the store forgot them gets `RevisionCompacted` and lists anew.
A lease that is not kept alive takes its keys with it.  Losing one is survivable: every write carries an epoch as well.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from headrace.controller.entries import Condition, Event, KeyValue, Operation
from headrace.declaring import dataclass

OPERATIONS_MAX = 100  # etcd refuses more than 128 operations in one transaction


class StoreUnavailable(Exception):
    """The store did not answer in time.  Whatever was asked has not happened, and will not."""


class StoreRefused(Exception):
    """The store answered, and said no: a wrong password, no permission, a release that is not good enough."""


class RevisionCompacted(Exception):
    """The events asked for are forgotten: list, and watch from there."""


class LeaseLost(Exception):
    """The lease has ended, with every key that was under it."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All keys under a prefix, sorted, as they were at one revision."""

    items: tuple[KeyValue, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """Whether every condition held, and the revision that the store then had."""

    succeeded: bool
    revision: int


@dataclass(frozen=True, slots=True)
class WatchBatch:
    """Events up to and including a revision.  No events: a sign of life."""

    revision: int
    events: tuple[Event, ...]


class MetadataStore(Protocol):
    operations_max: int  # in one transaction

    async def get(self, key: str) -> KeyValue | None: ...

    async def list(self, prefix: str) -> Listing: ...

    async def transact(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> TransactionResult:
        """Carry out all operations if every condition holds.  Raises StoreUnavailable only when nothing happened, for certain."""
        ...

    async def grant_lease(self, ttl_s: float) -> int:
        """A lease that ends after `ttl_s` seconds unless kept alive.  A store may grant a longer time than asked."""
        ...

    async def keep_alive(self, lease: int) -> float:
        """Start the lease's time anew; answer how many seconds it now has.  Raises LeaseLost."""
        ...

    async def revoke(self, lease: int) -> None: ...

    def watch(self, prefix: str, start_revision: int) -> AsyncIterator[WatchBatch]:
        """Events from `start_revision` on.  Raises RevisionCompacted; survives reconnects by itself."""
        ...

    async def close(self) -> None: ...
