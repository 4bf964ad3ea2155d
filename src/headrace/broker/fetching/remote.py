"""What readers see of the part of a log that is in an object store: records are brought first, and then taken."""

import asyncio
from typing import NamedTuple, Protocol

from headrace.log.epochs import EpochStart
from headrace.log.producers.producer_snapshot import SnapshotEntry
from headrace.log.results import AbortedTransaction, FoundOffset


class RemoteRead(NamedTuple):
    """Whole batches, and the aborted transactions among them as far as the store knows."""

    data: memoryview
    next_offset: int
    aborted: tuple[AbortedTransaction, ...]
    # Whether no other may be known to the part of the log that is here.
    aborted_are_all: bool


class Beginning(NamedTuple):
    """Where a log begins that goes on behind the part in the store, and what it must know of that part."""

    offset: int
    epochs: list[EpochStart]
    producers: list[SnapshotEntry]


class RemoteReads(Protocol):
    """The part of one partition's log that is in an object store."""

    @property
    def end_offset(self) -> int:
        """Up to here the store has everything; -1 where it has nothing, or nobody has looked yet."""
        ...

    def take(self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool) -> RemoteRead | None:
        """What was brought; None while it is on its way.  Raises RequestError when it cannot be."""
        ...

    def bring(self, offset: int, size: int) -> "asyncio.Task[None]":
        """Have records brought from an offset on; who asks for the same shares it."""
        ...

    async def find(self, timestamp: int | None) -> FoundOffset | None:
        """The first record at or after a time among those that are in the store alone; without a time, that with the greatest.
        Raises RequestError."""
        ...

    async def beginning(self) -> Beginning | None:
        """Where a follower without the older records begins; None where the store has nothing, or does not answer."""
        ...
