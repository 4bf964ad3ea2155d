"""What a coordinator decides: entries for its log, and replies for whoever waits.

The shell appends the entries as one batch, replays them into the coordinator at once, waits until the batch is committed, and
only then sends the replies.  When the append fails nothing was replayed and every reply becomes an error.
"""

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from headrace.declaring import dataclass
from headrace.model.identity import ProducerIdentity

Token = Hashable
"""Names one waiting request; chosen by the shell."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the request that was parked under a token."""

    token: Token
    message: Any


@dataclass(frozen=True, slots=True)
class Decision(Generic[Answer]):
    """Entries to write, then replies to send.  Both may be empty: the request waits, or there is nothing to tell.

    `Answer` is what the one who asked is answered, with this decision or a later one; None when nobody asked."""

    entries: tuple[Any, ...] = ()
    replies: tuple[Reply, ...] = ()
    # Offsets committed inside a transaction are written under the producer that owns it, and count only once its marker arrives.
    producer: ProducerIdentity | None = None
