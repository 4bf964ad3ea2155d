"""Failed sign-ins by address: each costs its client time, and the more of them the more.

The reply to a failure waits.  Where an address has failed often, whoever signs in from it waits beforehand, too, and many at once
are looked at one after the other; that is a short time at most, as honest people may share the address.  A success forgives
nothing: whoever has an account could guess at others' for free.  Addresses are forgotten after a while without failures, and no
more than so many are remembered: the one that failed longest ago is forgotten first.
"""

from typing import Final

from headrace.declaring import dataclass
from headrace.model.access.acls import block_of

DELAY_S: Final = 0.1  # as Kafka's connection.failed.authentication.delay.ms
DELAY_S_MAX: Final = 5.0
FREE: Final = 5  # so many within the window wait the shortest time: people mistype, and pools reconnect
WAIT_S_MAX: Final = 2.0  # before somebody is looked at
# Of many who come at once, each waits so much longer than the one before, up to a limit of its own.
SPACING_S: Final = 0.01
CROWD_WAIT_S_MAX: Final = 5.0
WINDOW_S: Final = 60.0
ADDRESSES_MAX: Final = 10_000


@dataclass(slots=True)
class _Address:
    """What is known of one."""

    count: int = 0
    last: float = 0.0  # when the last failure was
    next_turn: float = 0.0  # when somebody is looked at again


class FailedSignIns:
    """How often each address failed lately."""

    def __init__(self, delay_s: float = DELAY_S) -> None:
        self._delay_s = delay_s
        self._addresses: dict[str, _Address] = {}  # the one that failed longest ago first

    def wait(self, address: str, now: float) -> float:
        """Somebody begins to sign in: how many seconds pass before they are looked at."""
        if (count := self.recent(address, now)) <= FREE:
            return 0.0
        known = self._addresses[block_of(address)]
        turn = max(now, known.next_turn)
        room = now + WAIT_S_MAX - turn
        known.next_turn = min(turn + max(SPACING_S, min(self._delay(count), room)), now + CROWD_WAIT_S_MAX)
        return turn - now

    def on_failure(self, address: str, now: float) -> float:
        """Somebody failed: how many seconds the reply waits."""
        count, block = self.recent(address, now) + 1, block_of(address)
        known = self._addresses.pop(block, None) or _Address()
        if len(self._addresses) >= ADDRESSES_MAX:
            del self._addresses[next(iter(self._addresses))]
        known.count, known.last = count, now
        self._addresses[block] = known
        return self._delay(count)

    def recent(self, address: str, now: float) -> int:
        """How many failures there were from an address without a quiet window between."""
        known = self._addresses.get(block_of(address))
        return known.count if known is not None and now - known.last < WINDOW_S else 0

    def _delay(self, count: int) -> float:
        return float(min(DELAY_S_MAX, self._delay_s * 2 ** max(0, min(count - FREE, 16))))
