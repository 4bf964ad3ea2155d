"""What the log says of connections that the broker ends: the first from an address at once, the others together once a minute.

Whoever is refused comes back at once, hundreds of times a minute: a line for each would bury everything else."""

import logging
from dataclasses import field
from typing import Final

from headrace.declaring import dataclass

logger = logging.getLogger(__name__)

TOGETHER_SECONDS: Final = 60.0
# So many reasons of one address have a line of their own in a minute: some have numbers in them that the client chooses.
REASONS_MAX: Final = 5
ADDRESSES_MAX: Final = 1000
OTHERS: Final = "other addresses"


@dataclass(slots=True)
class _Address:
    reasons: set[str] = field(default_factory=set)
    repeated: int = 0
    last_reason: str = ""


class Closings:
    """Those of the current minute, by address."""

    def __init__(self) -> None:
        self._by_address: dict[str, _Address] = {}
        self._began_at: float | None = None

    def note(self, address: str, reason: str, now: float) -> None:
        """A connection from an address was closed."""
        if self._began_at is None:
            self._began_at = now
        if address not in self._by_address and len(self._by_address) >= ADDRESSES_MAX:
            address = OTHERS
        found = self._by_address.setdefault(address, _Address())
        if reason not in found.reasons and len(found.reasons) < REASONS_MAX:
            found.reasons.add(reason)
            logger.warning("closed the connection from %s: %s", address, reason)
        else:
            found.repeated += 1
            found.last_reason = reason

    def tell(self, now: float) -> None:
        """Log what was repeated, once the minute is over."""
        if self._began_at is None or now - self._began_at < TOGETHER_SECONDS:
            return
        for address, found in self._by_address.items():
            if found.repeated:
                connections = "connection" if found.repeated == 1 else "connections"
                logger.warning(
                    "closed %d more %s from %s in the last minute, the last one because: %s",
                    found.repeated,
                    connections,
                    address,
                    found.last_reason,
                )
        self._by_address.clear()
        self._began_at = None
