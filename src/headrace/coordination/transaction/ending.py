"""EndTxn: what a commit or an abort does, by state, by epoch and by the transactions version of the client.

With version 2 (KIP-890) every end bumps the epoch, so an end that arrives late is known by its old epoch:

                     abort, repeated   abort, new       commit, repeated   commit, new
    Empty            PRODUCER_FENCED   bump the epoch   PRODUCER_FENCED    INVALID_TXN_STATE
    CompleteAbort    nothing to do     bump the epoch   INVALID_TXN_STATE  INVALID_TXN_STATE
    CompleteCommit   INVALID_TXN_STATE bump the epoch   nothing to do      INVALID_TXN_STATE

With older clients a repeated end cannot be told from a new one: it succeeds when it asks for the outcome that there was.
"""

from headrace.coordination.transaction.initializing import TakeProducerId
from headrace.coordination.transaction.requests import EndTransaction
from headrace.coordination.transaction.state import (
    EPOCH_BUMP_VERSION,
    PRODUCER_EPOCH_EXHAUSTED,
    TransactionEntry,
    TransactionState,
)
from headrace.coordination.transaction.transitions import decided
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_PRODUCER_ID


def ended(
    transaction: TransactionEntry, request: EndTransaction, take_id: TakeProducerId, now_ms: int
) -> TransactionEntry | None:
    """The decision to write, or None when it was taken before and the reply got lost.  Raises RequestError."""
    if request.client_version >= EPOCH_BUMP_VERSION:
        return _ended_with_epoch_bump(transaction, request, take_id, now_ms)
    return _ended_in_place(transaction, request, now_ms)


def _ended_in_place(transaction: TransactionEntry, request: EndTransaction, now_ms: int) -> TransactionEntry | None:
    if transaction.producer_id != request.producer.producer_id:
        raise RequestError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != request.producer.epoch:
        raise RequestError(ErrorCode.PRODUCER_FENCED)
    if transaction.prepared:
        raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is TransactionState.ONGOING:
        return decided(transaction, request.committed, 0, NO_PRODUCER_ID, now_ms)
    if transaction.state is _completed_state(request.committed):
        return None
    raise _invalid_state(transaction, request)


def _ended_with_epoch_bump(
    transaction: TransactionEntry, request: EndTransaction, take_id: TakeProducerId, now_ms: int
) -> TransactionEntry | None:
    if transaction.prepared:
        # Before any check of identity: the producer may already use the next producer id, which is not in place yet.
        raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)
    over_new_id = _repeats_over_new_producer_id(transaction, request)
    if transaction.producer_id != request.producer.producer_id and not over_new_id:
        raise RequestError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    repeated = over_new_id or _repeats_over_next_epoch(transaction, request)
    if not repeated and transaction.producer_epoch != request.producer.epoch:
        raise RequestError(ErrorCode.PRODUCER_FENCED)
    if repeated:
        if transaction.state is not _completed_state(request.committed):
            raise _invalid_state(transaction, request)
        return None
    if request.committed and transaction.state is not TransactionState.ONGOING:
        raise _invalid_state(transaction, request)
    next_producer_id = take_id() if transaction.epochs_exhausted else NO_PRODUCER_ID
    return decided(transaction, request.committed, request.client_version, next_producer_id, now_ms)


def _repeats_over_next_epoch(transaction: TransactionEntry, request: EndTransaction) -> bool:
    """The end bumped the epoch and the producer never heard of it.  Only an end of version 2 does that: after one of an older
    client the epoch before belongs to a producer that was fenced."""
    return _ended_with_bump(transaction) and transaction.producer_epoch == request.producer.epoch + 1


def _repeats_over_new_producer_id(transaction: TransactionEntry, request: EndTransaction) -> bool:
    """The end used up the last epoch, a new producer id took over, and the producer never heard of it."""
    return (
        _ended_with_bump(transaction)
        and transaction.producer_epoch == 0
        and transaction.previous_producer_id == request.producer.producer_id
        and request.producer.epoch == PRODUCER_EPOCH_EXHAUSTED
    )


def _ended_with_bump(transaction: TransactionEntry) -> bool:
    complete = transaction.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    return complete and transaction.client_version >= EPOCH_BUMP_VERSION


def _completed_state(committed: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT


def _invalid_state(transaction: TransactionEntry, request: EndTransaction) -> RequestError:
    wanted = "committed" if request.committed else "aborted"
    return RequestError(
        ErrorCode.INVALID_TXN_STATE, f"{transaction.transactional_id} is {transaction.state.label} and cannot be {wanted}"
    )
