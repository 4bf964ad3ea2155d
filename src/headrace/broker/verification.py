"""What a write inside a transaction must pass before it reaches the log (KIP-890)."""

from typing import Protocol

from headrace.broker.partition import Partition
from headrace.host.disk import Buffer


class Verification(Protocol):
    """Asks the transaction coordinator whether a batch belongs to a transaction that is open."""

    def is_needed(self, partition: Partition, records: Buffer) -> bool:
        """Whether this batch must be asked about.  Called for every batch, so it looks at the header only."""
        ...

    async def verify(self, partition: Partition, records: Buffer, transactional_id: str | None, produce_version: int) -> None:
        """Raise RequestError when the batch may not be written."""
        ...
