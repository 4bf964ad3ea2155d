"""Producer ids, handed out from blocks that each broker claims for itself.

The metadata store holds the first id nobody has claimed yet (key `producer-ids`).  A broker claims a block by compare-and-swap
and hands ids out of it without asking again.  Always: no two brokers hold the same id; one that a crash left unused stays unused.
"""

from collections import deque

from headrace.model.errors import ErrorCode, RequestError

BLOCK_IDS = 1000
PREFETCH_BELOW = BLOCK_IDS // 10  # ids left in hand when the next block is claimed, so that nobody waits for the store


class ProducerIds:
    """The ids this broker may still hand out."""

    def __init__(self) -> None:
        self._blocks: deque[range] = deque()
        self._end = 0

    @property
    def available(self) -> int:
        """How many ids are in hand."""
        return sum(map(len, self._blocks))

    @property
    def wants_block(self) -> bool:
        """Whether it is time to claim another block."""
        return self.available < PREFETCH_BELOW

    def add(self, block: range) -> None:
        """A block has been claimed in the store."""
        assert block.start >= self._end, f"producer ids only ever grow: {block} after {self._end}"
        assert block, "a claimed block has ids"
        self._blocks.append(block)
        self._end = block.stop

    def take(self) -> int:
        """One id that nobody has had before."""
        if not self._blocks:
            # Kafka answers the same: every client tries again after it, which is not so for a time-out.
            raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "a new block of producer ids is on its way")
        block = self._blocks[0]
        if len(block) == 1:
            self._blocks.popleft()
        else:
            self._blocks[0] = block[1:]
        return block.start
