"""What a write inside a transaction must pass before it reaches the log (KIP-890)."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from headrace.broker.partitions.partition import Partition
from headrace.host.disk import Buffer
from headrace.log.interface import VerificationGuard
from headrace.model.identity import ProducerIdentity


class Verification(Protocol):
    """Asks the transaction coordinator whether a batch belongs to a transaction that is open."""

    def is_needed(self, partition: Partition, records: Buffer, transactional_id: str | None) -> bool:
        """Whether this batch must be asked about.  Called for every batch, so it looks at the header only."""
        ...

    def admitted(
        self, partition: Partition, records: Buffer, transactional_id: str | None, produce_version: int
    ) -> AbstractAsyncContextManager[VerificationGuard | None]:
        """Within it the batch may be appended with the guard given.  Batches of one producer are admitted in the order in which
        they came; those of others do not wait.  Raises RequestError when the batch may not be written."""
        ...

    async def admit_offsets(
        self, offsets_partition: Partition, producer: ProducerIdentity, transactional_id: str, version: int
    ) -> None:
        """Return when offsets may be committed in the transaction, to be followed by the commit without a pause."""
        ...
