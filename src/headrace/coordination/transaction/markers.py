"""Which end-of-transaction markers still have to be written, and where.

A decided transaction writes one marker into each of its partitions, and is complete when the last of them stands.  Markers are
retried until then.  Always: the outcome comes from the written entry alone, and only once that entry is committed, so no
transaction gets markers of two outcomes, by retries or by a coordinator that starts again.  A repeated marker is harmless.
"""

from collections.abc import Mapping
from dataclasses import field

from headrace.coordination.transaction.state import TransactionEntry
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode
from headrace.model.identity import ProducerIdentity, TopicPartition

RETRY_BACKOFF_MS = 100

SETTLED = frozenset(
    {
        ErrorCode.NONE,
        # The partition could not have taken the producer's records either: there is nothing to end.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
        # A newer epoch of this producer has been there, so what this transaction wrote there is closed already.
        # To wait for more would leave the transactional id in its Prepare state for ever.
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""Answers after which a partition needs nothing more.  After any other the marker is sent again: to give up would block the
readers of that partition for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnd:
    """What an end-of-transaction marker says, in whichever partition it is written."""

    producer: ProducerIdentity
    committed: bool
    coordinator_epoch: int
    transaction_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """One transaction's outcome, for the partitions that do not have it yet."""

    transactional_id: str
    producer: ProducerIdentity
    committed: bool
    partitions: frozenset[TopicPartition]
    transaction_version: int

    def end(self, coordinator_epoch: int) -> TransactionEnd:
        """As a coordinator of this epoch has it written."""
        return TransactionEnd(
            producer=self.producer,
            committed=self.committed,
            coordinator_epoch=coordinator_epoch,
            transaction_version=self.transaction_version,
        )


@dataclass(slots=True)
class _Outstanding:
    transaction: TransactionEntry
    offset: int  # of the entry that holds the decision
    partitions: set[TopicPartition]
    in_flight: bool = False
    not_before_ms: int = 0


@dataclass(slots=True)
class MarkerBook:
    """The decided transactions of one shard that are not complete."""

    _outstanding: dict[str, _Outstanding] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._outstanding)

    def follow(self, transaction: TransactionEntry, offset: int) -> None:
        """Take note of a replayed entry: markers start with a decision and end with anything else."""
        if transaction.prepared:
            self._outstanding[transaction.transactional_id] = _Outstanding(transaction, offset, set(transaction.partitions))
        else:
            self._outstanding.pop(transaction.transactional_id, None)

    def forget(self, transactional_id: str) -> None:
        """The transactional id is gone."""
        self._outstanding.pop(transactional_id, None)

    def take_due(self, now_ms: int, committed_to: int) -> tuple[Marker, ...]:
        """Markers to send now, of decisions below the high watermark; each is in flight until its answer is noted."""
        due = []
        for transactional_id, outstanding in self._outstanding.items():
            if outstanding.in_flight or outstanding.not_before_ms > now_ms or outstanding.offset >= committed_to:
                continue
            outstanding.in_flight = True
            due.append(_marker(transactional_id, outstanding))
        return tuple(due)

    def note(self, marker: Marker, results: Mapping[TopicPartition, ErrorCode], now_ms: int) -> TransactionEntry | None:
        """Note the leaders' answers; the transaction comes back when its last marker stands."""
        outstanding = self._outstanding.get(marker.transactional_id)
        if outstanding is None or outstanding.transaction.identity != marker.producer or not outstanding.in_flight:
            return None  # answers to an older decision
        written = {partition for partition in marker.partitions if results.get(partition) in SETTLED}
        outstanding.partitions -= written
        outstanding.in_flight = False
        # Also when nothing is left: should the entry of the completion not be written, its time comes again.
        outstanding.not_before_ms = now_ms + RETRY_BACKOFF_MS
        return None if outstanding.partitions else outstanding.transaction

    def next_due_ms(self) -> int | None:
        """When `take_due` will have something, unless an answer comes before."""
        return min((each.not_before_ms for each in self._outstanding.values() if not each.in_flight), default=None)


def _marker(transactional_id: str, outstanding: _Outstanding) -> Marker:
    transaction = outstanding.transaction
    return Marker(
        transactional_id=transactional_id,
        producer=transaction.identity,
        committed=transaction.committing,
        partitions=frozenset(outstanding.partitions),
        transaction_version=transaction.client_version,
    )
