"""Which end-of-transaction markers still have to be written, and where.

A decided transaction writes one marker into each of its partitions, and is complete when the last of them stands.  Markers are retried
until then.  Always: the outcome comes from the written entry alone, so a transaction never gets markers of two outcomes, neither by
retries nor by a coordinator that starts again; writing the same marker twice is harmless.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from headrace.coordination.transaction.state import Transaction
from headrace.model.errors import ErrorCode
from headrace.model.identity import ProducerIdentity, TopicPartition

RETRY_BACKOFF_MS = 100


class MarkerVerdict(Enum):
    """What a partition leader's answer means for the transaction."""

    WRITTEN = auto()
    RETRY = auto()
    SUPERSEDED = auto()


_SETTLED = frozenset(
    {
        ErrorCode.NONE,
        # The partition could not have taken the producer's records either: there is nothing to end.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
# A newer producer epoch or a newer coordinator has been at this partition: whoever wrote there ends this transaction, not we.
_SUPERSEDED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


def verdict(error: ErrorCode) -> MarkerVerdict:
    """Anything unexpected is tried again: giving up would block readers of that partition for ever."""
    if error in _SETTLED:
        return MarkerVerdict.WRITTEN
    return MarkerVerdict.SUPERSEDED if error in _SUPERSEDED else MarkerVerdict.RETRY


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """One transaction's outcome, for the partitions that do not have it yet."""

    transactional_id: str
    producer: ProducerIdentity
    committed: bool
    partitions: frozenset[TopicPartition]
    transaction_version: int


@dataclass(slots=True)
class _Outstanding:
    transaction: Transaction
    partitions: set[TopicPartition]
    in_flight: bool = False
    not_before_ms: int = 0
    superseded: bool = False


@dataclass(slots=True)
class MarkerBook:
    """The decided transactions of one shard that are not complete."""

    _outstanding: dict[str, _Outstanding] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._outstanding)

    def follow(self, transaction: Transaction) -> None:
        """Take note of a replayed entry: markers start with a decision and end with anything else."""
        if transaction.prepared:
            self._outstanding[transaction.transactional_id] = _Outstanding(transaction, set(transaction.partitions))
        else:
            self._outstanding.pop(transaction.transactional_id, None)

    def forget(self, transactional_id: str) -> None:
        """The transactional id is gone."""
        self._outstanding.pop(transactional_id, None)

    def take_due(self, now_ms: int) -> tuple[Marker, ...]:
        """Markers to send now; each is in flight until its answer is noted."""
        due = []
        for transactional_id, outstanding in self._outstanding.items():
            if outstanding.in_flight or outstanding.superseded or outstanding.not_before_ms > now_ms:
                continue
            outstanding.in_flight = True
            due.append(_marker(transactional_id, outstanding))
        return tuple(due)

    def note(self, marker: Marker, results: Mapping[TopicPartition, ErrorCode], now_ms: int) -> Transaction | None:
        """Note the leaders' answers; the transaction comes back when its last marker stands."""
        outstanding = self._outstanding.get(marker.transactional_id)
        if outstanding is None or outstanding.transaction.identity != marker.producer or not outstanding.in_flight:
            return None  # answers to an older decision
        outstanding.in_flight = False
        for partition in marker.partitions:
            match verdict(results.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)):
                case MarkerVerdict.WRITTEN:
                    outstanding.partitions.discard(partition)
                case MarkerVerdict.SUPERSEDED:
                    outstanding.superseded = True
                case MarkerVerdict.RETRY:
                    outstanding.not_before_ms = now_ms + RETRY_BACKOFF_MS
        if outstanding.partitions or outstanding.superseded:
            return None
        # Stays in flight until the Complete entry is replayed: should its append fail, `retry` makes it due again.
        outstanding.in_flight = True
        return outstanding.transaction

    def retry(self, transactional_id: str, now_ms: int) -> None:
        """What was in flight got no answer: send it again a little later."""
        if (outstanding := self._outstanding.get(transactional_id)) is not None:
            outstanding.in_flight = False
            outstanding.not_before_ms = now_ms + RETRY_BACKOFF_MS

    def next_due_ms(self) -> int | None:
        """When `take_due` will have something, unless an answer comes before."""
        waiting = [
            outstanding.not_before_ms
            for outstanding in self._outstanding.values()
            if not outstanding.in_flight and not outstanding.superseded
        ]
        return min(waiting, default=None)


def _marker(transactional_id: str, outstanding: _Outstanding) -> Marker:
    transaction = outstanding.transaction
    return Marker(
        transactional_id=transactional_id,
        producer=transaction.identity,
        committed=transaction.committing,
        partitions=frozenset(outstanding.partitions),
        transaction_version=transaction.client_version,
    )
