"""What waits, in order of time, as the decisions ask for it.  It is on a disk, and made anew from the entries when it is lost."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headrace.coordination.delay.entries import Staged, Target


class Waiting(NamedTuple):
    """One record that waits, without what is in it."""

    offset: int
    due_ms: int
    uid: int
    size: int


class DueIndex(Protocol):
    """All records that wait, of one partition's entries."""

    def add(self, staged: Staged, offset: int) -> None: ...

    def remove(self, uid: int) -> tuple[Target, int] | None:
        """For whom it was and at which offset it waited; None where it does not wait."""
        ...

    def first_due(self, target: Target) -> int | None:
        """When the first one for a target is due."""
        ...

    def first(self, target: Target, until_ms: int, limit: int) -> list[Waiting]:
        """Those for a target that are due by then, by due time and then by offset."""
        ...

    def with_key(self, target: Target, key_hash: int) -> list[Waiting]: ...

    def at(self, offsets: Sequence[int]) -> list[Waiting]:
        """Those that wait at these offsets, in the same order; what does not wait is left out."""
        ...

    def payloads(self, offsets: Sequence[int]) -> list[bytes]: ...
