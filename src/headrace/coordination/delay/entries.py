"""What is written down of records that wait for their time, as values.

Every record that waits has a uid under which it is taken off the books again.  A plan names the records that are delivered to
one partition next, and as what: it is written before they are sent, so that whoever comes to send them sends the same.
"""

from typing import NamedTuple
from uuid import UUID


class Target(NamedTuple):
    """The partition that a record is for.  By its id: a topic of the same name that is made later is another one."""

    topic_id: UUID
    partition: int


class Staged(NamedTuple):
    """A record that waits."""

    uid: int
    due_ms: int
    target: Target
    # What its key comes to; None for one without a key, which cannot be cancelled.
    key_hash: int | None
    payload: bytes


class Cancelled(NamedTuple):
    """What waits for a partition under a key, up to here, is not wanted any more."""

    uid: int
    target: Target
    key_hash: int


class Planned(NamedTuple):
    """The records that go to a partition next: by the offsets at which they wait, in the order of their delivery."""

    target: Target
    # As whom they are written there: a number that no other leader of these entries has used.
    generation: int
    base_sequence: int
    # The time they carry when they are delivered.
    at_ms: int
    offsets: tuple[int, ...]


class Gone(NamedTuple):
    """Delivered, or cancelled, or for nobody any more."""

    uid: int
    due_ms: int
    # What it was an entry of.
    was_cancellation: bool = False


Entry = Staged | Cancelled | Planned | Gone
