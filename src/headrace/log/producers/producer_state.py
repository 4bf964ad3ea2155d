"""What the log knows of each producer: epoch, last five batches, open transaction.  Exactly Kafka's rules.

Per batch of a client: a sequence already among the last five is a duplicate and answered with its old offset; the next sequence
is written; anything else is OUT_OF_ORDER_SEQUENCE_NUMBER; an older epoch is INVALID_PRODUCER_EPOCH; a newer epoch starts at 0.
A producer that is not known may begin anywhere (its records may have been removed), except one that bumps its epoch by itself
(transactions version 2), which begins at 0.

A producer ages by when it wrote, on a clock that nobody can set, and never by the timestamps of what it wrote: a replay from an
archive is stamped years ago.  What was found at a start, or after a cut, counts as written then.

Always: `check` changes nothing; `apply` is called after the bytes are in the log and never fails; producers lie in the order in
which they last wrote.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from typing import Final, NamedTuple

from headrace.host.disk import Buffer
from headrace.log.indexes.aborted_index import AbortedEntry
from headrace.log.origin import Origin
from headrace.log.producers.producer_snapshot import SnapshotEntry, WrittenBatch
from headrace.model.errors import ErrorCode, RequestError
from headrace.records.control import Marker, read_marker
from headrace.records.header import CONTROL_BIT, SEQUENCE_MAX, TRANSACTIONAL_BIT, BatchHeader

BATCHES_KEPT: Final = 5
# Brokers that deliver what was delayed write as producers from here on.  They are few, and are never forgotten: what they send
# again may be from before the longest outage.
LASTING_PRODUCER_ID_FROM: Final = 2**62
PRODUCERS_MAX: Final = 50_000
EPOCH_MAX: Final = 2**15 - 1


class CompletedTransaction(NamedTuple):
    """A transaction whose marker was written.  `last_offset` is the marker's own."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class VerificationGuard:
    """Proof that the coordinator was asked about this very transaction (KIP-890).  Compared by identity."""

    __slots__ = ()


TRUSTED: Final = VerificationGuard()


class _Verification:
    """A producer whose transaction is being verified: higher sequences must not overtake the lowest one seen."""

    __slots__ = ("epoch", "guard", "lowest_sequence", "started", "supports_epoch_bump")

    def __init__(self, epoch: int, sequence: int, supports_epoch_bump: bool, started: float) -> None:
        self.guard = VerificationGuard()
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.supports_epoch_bump = supports_epoch_bump
        self.started = started

    def saw(self, epoch: int, sequence: int) -> None:
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class ProducerState:
    """One producer."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "transaction_first_offset", "wrote_at")

    def __init__(self, producer_id: int, epoch: int, wrote_at: float) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        # On the monotonic clock of this process.
        self.wrote_at = wrote_at
        self.batches: deque[WrittenBatch] = deque(maxlen=BATCHES_KEPT)
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        # -1 when no transaction is open.
        self.transaction_first_offset = -1

    def __repr__(self) -> str:
        transaction = f", in a transaction from {self.transaction_first_offset}" if self.transaction_first_offset >= 0 else ""
        return f"<producer {self.producer_id} epoch {self.epoch} at sequence {self.last_sequence}{transaction}>"

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def snapshot(self) -> SnapshotEntry:
        last = self.batches[-1] if self.batches else WrittenBatch(-1, -1, -1, -1, -1)
        return SnapshotEntry(
            self.producer_id,
            self.epoch,
            last.last_sequence,
            last.last_offset,
            last.last_offset - last.first_offset,
            self.last_timestamp,
            self.coordinator_epoch,
            self.transaction_first_offset,
            tuple(self.batches)[:-1],
        )


class ProducerStates:
    """The producers of one partition."""

    def __init__(self, monotonic: Callable[[], float], producers_max: int = PRODUCERS_MAX) -> None:
        self.producers_max = producers_max
        self._monotonic = monotonic
        # In the order in which they last wrote.
        self._states: dict[int, ProducerState] = {}
        # First offset -> producer id, in the order of the offsets.
        self._open: dict[int, int] = {}
        # Ended transactions whose marker is not below the high watermark: first offset -> the marker's offset.
        self._unreplicated: dict[int, int] = {}
        self._verifications: dict[int, _Verification] = {}

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._states.values())

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    # -- transactions -------------------------------------------------------------------------------------------------

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest transaction begins that is open or whose end is not replicated yet."""
        if not self._unreplicated:
            return next(iter(self._open)) if self._open else None
        first = min(self._unreplicated)
        return min(first, next(iter(self._open))) if self._open else first

    def on_high_watermark(self, high_watermark: int) -> None:
        if self._unreplicated:
            self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= high_watermark}

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        state = self._states.get(producer_id)
        return state is not None and state.transaction_first_offset >= 0 and state.epoch == epoch

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """The guard to append with once the coordinator has agreed; None when the transaction is already open here."""
        if self.has_open_transaction(producer_id, epoch):
            return None
        verification = self._verifications.get(producer_id)
        if verification is None:
            verification = _Verification(epoch, sequence, supports_epoch_bump, self._monotonic())
            self._verifications[producer_id] = verification
        verification.saw(epoch, sequence)
        return verification.guard

    def aborted_entry(self, completed: CompletedTransaction) -> AbortedEntry:
        """What readers must know of an aborted transaction, the moment its marker was applied."""
        others = (first_offset for first_offset, producer_id in self._open.items() if producer_id != completed.producer_id)
        stable_offset = next(others, completed.last_offset + 1)
        return AbortedEntry(completed.producer_id, completed.first_offset, completed.last_offset, stable_offset)

    def take(self, header: BatchHeader, read_batch: Callable[[], Buffer]) -> AbortedEntry | None:
        """Let a batch that is in the log already count for its producer; the aborted transaction it ends, if it does."""
        if header.producer_id < 0:
            return None
        if not header.attributes & CONTROL_BIT:
            self.apply(header, header.base_offset)
            return None
        marker = read_marker(read_batch())
        completed = self.apply_marker(header, header.base_offset, marker) if marker is not None else None
        return self.aborted_entry(completed) if completed is not None and completed.aborted else None

    # -- checks -------------------------------------------------------------------------------------------------------

    def check(self, header: BatchHeader, origin: Origin, guard: VerificationGuard | None = TRUSTED) -> WrittenBatch | None:
        """Whether a batch of records may be written; the batch it repeats, if it is one of the last five."""
        if origin is Origin.REPLICATION:
            return None
        state = self._states.get(header.producer_id)
        if origin is not Origin.COORDINATOR and state is not None and state.epoch == header.producer_epoch:
            for written in state.batches:
                if written.first_sequence == header.base_sequence and written.last_sequence == header.last_sequence:
                    return written
        if state is not None and header.producer_epoch < state.epoch:
            raise RequestError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {state.epoch} here, {header.producer_epoch} is fenced",
            )
        transactional = bool(header.attributes & TRANSACTIONAL_BIT)
        if transactional and guard is not TRUSTED:
            self._check_verified(header, state, guard)
        if origin is Origin.CLIENT or origin is Origin.DELAYED:
            self._check_sequence(header, state)
        if not transactional and state is not None and state.transaction_first_offset >= 0:
            raise RequestError(ErrorCode.INVALID_TXN_STATE, f"producer {header.producer_id} wrote outside its open transaction")
        return None

    def _check_verified(self, header: BatchHeader, state: ProducerState | None, guard: VerificationGuard | None) -> None:
        if state is not None and state.transaction_first_offset >= 0 and state.epoch == header.producer_epoch:
            return
        verification = self._verifications.get(header.producer_id)
        if verification is None or verification.guard is not guard:
            raise RequestError(ErrorCode.INVALID_TXN_STATE, "the record was not part of an ongoing transaction")

    def _check_sequence(self, header: BatchHeader, state: ProducerState | None) -> None:
        sequence = header.base_sequence
        verification = self._verifications.get(header.producer_id) if self._verifications else None
        if verification is not None:
            begins_late = verification.supports_epoch_bump and sequence != 0 and (state is None or not state.batches)
            if begins_late or sequence > verification.lowest_sequence:
                raise _out_of_order(header, 0 if begins_late else verification.lowest_sequence)
        if state is None:
            return
        if header.producer_epoch != state.epoch:
            if sequence != 0:
                raise _out_of_order(header, 0)
            return
        expected = (state.last_sequence + 1) & SEQUENCE_MAX
        if sequence != expected:
            raise _out_of_order(header, expected)

    def check_marker(self, header: BatchHeader, marker: Marker, origin: Origin, transaction_version: int) -> None:
        """Whether an end-of-transaction marker may be written."""
        state = self._states.get(header.producer_id)
        if origin is Origin.REPLICATION or state is None:
            return
        if not _marker_epoch_is_valid(header.producer_epoch, state, transaction_version):
            raise RequestError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of producer {header.producer_id} has epoch {header.producer_epoch}, the log is at {state.epoch}",
            )
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise RequestError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {marker.coordinator_epoch} is older than {state.coordinator_epoch}",
            )

    # -- changes ------------------------------------------------------------------------------------------------------

    def apply(self, header: BatchHeader, base_offset: int) -> None:
        """A batch of records is in the log, at the offset given (a client's header does not know it)."""
        state = self._writer(header)
        state.batches.append(
            WrittenBatch(
                header.base_sequence,
                header.last_sequence,
                base_offset,
                base_offset + header.last_offset_delta,
                header.max_timestamp,
            )
        )
        state.last_timestamp = header.max_timestamp
        if header.attributes & TRANSACTIONAL_BIT and state.transaction_first_offset < 0:
            state.transaction_first_offset = base_offset
            self._open[base_offset] = header.producer_id
        if self._verifications:
            self._verifications.pop(header.producer_id, None)

    def apply_marker(self, header: BatchHeader, base_offset: int, marker: Marker) -> CompletedTransaction | None:
        """A marker is in the log; the transaction it ended, if that had records here."""
        state = self._writer(header)
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp = header.max_timestamp
        self._forget_verification(header)
        first_offset, state.transaction_first_offset = state.transaction_first_offset, -1
        if first_offset < 0:
            return None
        self._open.pop(first_offset, None)
        self._unreplicated[first_offset] = base_offset
        return CompletedTransaction(header.producer_id, first_offset, base_offset, not marker.committed)

    def _forget_verification(self, header: BatchHeader) -> None:
        verification = self._verifications.get(header.producer_id)
        if verification is None:
            return
        # Under version 2 a marker carries the next transaction's epoch: a verification of that epoch is not its business.
        if not (verification.supports_epoch_bump and verification.epoch == header.producer_epoch):
            del self._verifications[header.producer_id]

    def _writer(self, header: BatchHeader) -> ProducerState:
        """The producer of what was just written, now the last of all to have written."""
        state = self._states.pop(header.producer_id, None)
        if state is None:
            if len(self._states) >= self.producers_max:
                self._drop_oldest()
            state = ProducerState(header.producer_id, header.producer_epoch, self._monotonic())
        else:
            state.wrote_at = self._monotonic()
            if state.epoch != header.producer_epoch:
                state.batches.clear()
                state.epoch = header.producer_epoch
        self._states[header.producer_id] = state
        return state

    def _drop_oldest(self) -> None:
        """Forget the tenth that has been quiet longest, so that the cost is spread; open transactions stay."""
        idle = (state.producer_id for state in self._states.values() if _may_be_forgotten(state))
        for producer_id in list(islice(idle, max(1, self.producers_max // 10))):
            del self._states[producer_id]

    def remove_expired(self, expiration_ms: int) -> int:
        """Forget producers quiet for too long; how many."""
        latest = self._monotonic() - expiration_ms / 1000
        quiet = takewhile(lambda state: state.wrote_at <= latest, self._states.values())
        expired = [state.producer_id for state in quiet if _may_be_forgotten(state)]
        for producer_id in expired:
            del self._states[producer_id]
        self._verifications = {
            producer_id: verification
            for producer_id, verification in self._verifications.items()
            if verification.started > latest
        }
        return len(expired)

    # -- restart ------------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        self._states.clear()
        self._open.clear()
        self._unreplicated.clear()
        self._verifications.clear()

    def snapshot(self) -> list[SnapshotEntry]:
        return [state.snapshot() for state in self._states.values()]

    def load(self, entries: Iterable[SnapshotEntry]) -> None:
        """Start from a snapshot instead of from nothing."""
        self.clear()
        now = self._monotonic()
        for entry in entries:
            state = self._states[entry.producer_id] = ProducerState(entry.producer_id, entry.producer_epoch, now)
            state.coordinator_epoch = entry.coordinator_epoch
            state.last_timestamp = entry.timestamp
            state.transaction_first_offset = entry.transaction_first_offset
            state.batches.extend(entry.earlier)
            if entry.last_offset >= 0:
                state.batches.append(_from_snapshot(entry))
        opened = [state for state in self._states.values() if state.transaction_first_offset >= 0]
        for state in sorted(opened, key=lambda state: state.transaction_first_offset):
            self._open[state.transaction_first_offset] = state.producer_id


def _from_snapshot(entry: SnapshotEntry) -> WrittenBatch:
    first_sequence = entry.last_sequence
    if first_sequence >= 0:
        first_sequence = (entry.last_sequence - entry.offset_delta) & SEQUENCE_MAX
    first_offset = entry.last_offset - entry.offset_delta
    return WrittenBatch(first_sequence, entry.last_sequence, first_offset, entry.last_offset, entry.timestamp)


def _marker_epoch_is_valid(epoch: int, state: ProducerState, transaction_version: int) -> bool:
    if transaction_version < 2:
        return epoch >= state.epoch
    if epoch == state.epoch:
        # The marker was written and its reply lost: the coordinator sends it again.
        return state.transaction_first_offset < 0 or epoch == EPOCH_MAX
    return epoch > state.epoch


def _may_be_forgotten(state: ProducerState) -> bool:
    return state.transaction_first_offset < 0 and state.producer_id < LASTING_PRODUCER_ID_FROM


def _out_of_order(header: BatchHeader, expected: int) -> RequestError:
    return RequestError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sent sequence {header.base_sequence} where {expected} comes next",
    )
