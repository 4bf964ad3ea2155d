"""InitProducerId for a transactional id: who the producer is from now on, and who it fences."""

from collections.abc import Callable

from headrace.coordination.transaction.requests import InitProducerId, TransactionSettings
from headrace.coordination.transaction.state import (
    EPOCH_BUMP_VERSION,
    PRODUCER_EPOCH_EXHAUSTED,
    TIMEOUT_NEVER_MS,
    TransactionEntry,
    TransactionState,
)
from headrace.coordination.transaction.transitions import (
    fenced_and_aborted,
    unused,
    with_new_producer_id,
    with_next_epoch,
)
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdentity

TakeProducerId = Callable[[], int]


def initialized(
    found: TransactionEntry | None, request: InitProducerId, settings: TransactionSettings, take_id: TakeProducerId, now_ms: int
) -> TransactionEntry:
    """The entry to write.  In state Empty it carries the producer's new identity; in PrepareAbort an open transaction is being
    aborted first and the producer asks again.  Raises RequestError when the producer gets neither."""
    timeout_ms = _checked_timeout_ms(request, settings)
    if found is None:
        found = unused(request.transactional_id, take_id(), timeout_ms)
    if found.prepared:
        raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if request.expected is not None and not _may_continue(found, request.expected):
        raise RequestError(ErrorCode.PRODUCER_FENCED)
    if found.state is TransactionState.ONGOING:
        return aborted_by_coordinator(found, settings, take_id, now_ms)
    expected_epoch = None if request.expected is None else request.expected.epoch
    if found.epochs_exhausted and expected_epoch in (None, found.producer_epoch):
        return with_new_producer_id(found, take_id(), expected_epoch, timeout_ms, now_ms)
    return with_next_epoch(found, expected_epoch, timeout_ms, now_ms)


def aborted_by_coordinator(
    transaction: TransactionEntry, settings: TransactionSettings, take_id: TakeProducerId, now_ms: int
) -> TransactionEntry:
    """Nobody told us to commit and now it is too late: the time-out passed, or a new producer took over."""
    bumps = settings.version >= EPOCH_BUMP_VERSION
    next_producer_id = take_id() if bumps and transaction.epochs_exhausted else NO_PRODUCER_ID
    return fenced_and_aborted(transaction, settings.version, next_producer_id, now_ms)


def _checked_timeout_ms(request: InitProducerId, settings: TransactionSettings) -> int:
    if not request.transactional_id:
        raise RequestError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")
    if request.enable_two_phase_commit and not settings.two_phase_commit_enable:
        raise RequestError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transaction.two.phase.commit.enable is false on this broker"
        )
    if request.keep_prepared_transaction:
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION, "prepared transactions are not kept")
    if request.enable_two_phase_commit:
        return TIMEOUT_NEVER_MS
    if not 0 < request.timeout_ms <= settings.max_timeout_ms:
        raise RequestError(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            f"transaction.timeout.ms={request.timeout_ms} is not in 1 to transaction.max.timeout.ms={settings.max_timeout_ms}",
        )
    return request.timeout_ms


def _may_continue(found: TransactionEntry, expected: ProducerIdentity) -> bool:
    """KIP-360.  The last case is a repeated call, after one that used the epochs up and whose reply was lost."""
    return (
        found.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == found.producer_id
        or (expected.producer_id == found.previous_producer_id and expected.epoch >= PRODUCER_EPOCH_EXHAUSTED)
    )
