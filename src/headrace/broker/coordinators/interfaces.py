"""What the shards of an internal topic are made of: a log, a codec for its entries, and a pure coordinator."""

from typing import Any, Protocol

from headrace.coordination.decision import Decision
from headrace.coordination.moment import Moment
from headrace.model.identity import ProducerIdentity

Entry = Any


class CoordinatorLog(Protocol):
    """A partition that this broker leads."""

    @property
    def leader_epoch(self) -> int: ...
    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...

    def append(self, batches: bytes, *, transaction_version: int = 0, nobody_waits: bool = False) -> tuple[int, int]:
        """Write the batches; return the first and the last offset.  When it raises, it wrote nothing.

        From transaction version 2 on, a marker counts only with an epoch above its producer's (KIP-890).
        What nobody waits for need not be flushed by itself: it goes with what is written next, or a little later.
        """
        ...

    def append_waiting(self, batch: bytes) -> tuple[int, int] | None:
        """Write a part of a client's batch; None when it is here already.  When it raises, it wrote nothing."""
        ...

    def flush_soon(self) -> None:
        """Somebody waits now for what nobody waited for."""
        ...

    async def wait_for_high_watermark(self, offset: int) -> None:
        """Return when the high watermark is at least `offset`; raise RequestError when the partition is not led any more."""
        ...

    async def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `offset` on, up to the end of the log; empty at the end."""
        ...


class EntryCodec(Protocol):
    """Entries as the keys and values of records."""

    def encode(self, entry: Entry) -> tuple[bytes, bytes | None]: ...
    def decode(self, key: bytes, value: bytes | None) -> Entry | None:
        """None for a kind of entry that a newer broker wrote and we do not know."""
        ...


class Shard(Protocol):
    """A pure coordinator of everything whose key falls on one partition."""

    def replay(self, entry: Entry, offset: int, producer: ProducerIdentity | None) -> None: ...
    def replay_marker(self, producer: ProducerIdentity, committed: bool) -> None: ...
    def on_loaded(self, now: Moment) -> Decision[None]:
        """The log has been replayed and the shard starts to serve: set deadlines for what was found."""
        ...

    def next_deadline(self) -> float | None:
        """The monotonic time at which `tick` has something to do."""
        ...

    def tick(self, now: Moment) -> Decision[None]:
        """Act on the earliest deadline that has passed.  Called again until none has."""
        ...
