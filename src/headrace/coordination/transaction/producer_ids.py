"""Producer ids, handed out from blocks that each broker claims for itself.

The metadata store holds the first id nobody has claimed yet (key `producer-ids`).  A broker claims a block by compare-and-swap and
hands ids out of it without asking again.  Always: no two brokers hold the same id, and an id that a crash left unused stays unused.
"""

from collections import deque
from dataclasses import dataclass, field

from headrace.model.errors import ErrorCode, RequestError

STORE_KEY = "producer-ids"
BLOCK_IDS = 1000
PREFETCH_BELOW = BLOCK_IDS // 10  # ids left in hand when the next block is claimed, so that nobody waits for the store
PRODUCER_ID_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Block:
    """The ids from `first` to before `end`."""

    first: int
    end: int


def claim(stored: bytes | None) -> tuple[Block, bytes]:
    """The next block, and what the store must hold for it to be ours."""
    first = 0 if stored is None else int(stored)
    if first < 0 or first > PRODUCER_ID_MAX - BLOCK_IDS:
        raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, f"no producer ids are left after {first}")
    end = first + BLOCK_IDS
    return Block(first, end), b"%d" % end


@dataclass(slots=True)
class ProducerIds:
    """The ids this broker may still hand out."""

    _blocks: deque[Block] = field(default_factory=deque)
    _next: int = 0
    _end: int = 0

    @property
    def available(self) -> int:
        """How many ids are in hand."""
        return self._end - self._next + sum(block.end - block.first for block in self._blocks)

    @property
    def wants_block(self) -> bool:
        """Whether it is time to claim another block."""
        return self.available < PREFETCH_BELOW

    def add(self, block: Block) -> None:
        """A block has been claimed in the store."""
        assert block.first >= self._end, "blocks only ever grow"
        self._blocks.append(block)

    def take(self) -> int:
        """One id that nobody has had before."""
        if self._next == self._end:
            if not self._blocks:
                # Kafka answers the same: every client retries it, which is not so for a time-out.
                raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "a new block of producer ids is on its way")
            block = self._blocks.popleft()
            self._next, self._end = block.first, block.end
        taken = self._next
        self._next += 1
        return taken
