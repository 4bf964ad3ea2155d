"""The steps a transaction takes, each from one value to the next.

Always: an epoch never falls for one producer id; a producer id is replaced only when its epochs are used up.
"""

from collections.abc import Iterable
from dataclasses import replace

from headrace.coordination.transaction.state import (
    EPOCH_BUMP_VERSION,
    IDLE,
    PRODUCER_EPOCH_MAX,
    TransactionEntry,
    TransactionState,
)
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition


def unused(transactional_id: str, producer_id: int, timeout_ms: int) -> TransactionEntry:
    """A transactional id seen for the first time: its first epoch bump gives epoch 0."""
    return TransactionEntry(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=NO_PRODUCER_EPOCH, timeout_ms=timeout_ms
    )


def with_next_epoch(transaction: TransactionEntry, expected_epoch: int | None, timeout_ms: int, now_ms: int) -> TransactionEntry:
    """InitProducerId: fence whoever used this transactional id before, or (KIP-360) let the same producer go on."""
    current = transaction.producer_epoch
    epoch: int
    last_epoch: int
    if expected_epoch is None:
        epoch, last_epoch = current + 1, NO_PRODUCER_EPOCH
    elif current == NO_PRODUCER_EPOCH or expected_epoch == current:
        epoch, last_epoch = current + 1, current
    elif expected_epoch == transaction.last_producer_epoch:
        # A repeated call whose reply was lost.  A new producer in between would have cleared the last epoch.
        epoch, last_epoch = current, transaction.last_producer_epoch
    else:
        raise RequestError(
            ErrorCode.PRODUCER_FENCED,
            f"epoch {expected_epoch} is not the current epoch {current} of {transaction.transactional_id}",
        )
    return _emptied(transaction, timeout_ms, now_ms, producer_epoch=epoch, last_producer_epoch=last_epoch)


def with_new_producer_id(
    transaction: TransactionEntry, producer_id: int, expected_epoch: int | None, timeout_ms: int, now_ms: int
) -> TransactionEntry:
    """InitProducerId when the epochs of the old producer id are used up."""
    last_epoch = NO_PRODUCER_EPOCH if expected_epoch is None else transaction.producer_epoch
    return _emptied(transaction, timeout_ms, now_ms, producer_id=producer_id, producer_epoch=0, last_producer_epoch=last_epoch)


def with_partitions(
    transaction: TransactionEntry, partitions: Iterable[TopicPartition], client_version: int, now_ms: int
) -> TransactionEntry:
    """The transaction begins with its first partition and grows with each further one."""
    return transaction.moved_to(
        TransactionState.ONGOING,
        partitions=transaction.partitions.union(partitions),
        start_ms=now_ms if transaction.state in IDLE else transaction.start_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def decided(
    transaction: TransactionEntry, committed: bool, client_version: int, next_producer_id: int, now_ms: int
) -> TransactionEntry:
    """The one place where a transaction gets its outcome."""
    epoch, last_epoch = transaction.producer_epoch, transaction.last_producer_epoch
    if client_version >= EPOCH_BUMP_VERSION:
        # From here on nothing that the producer sent before can join the next transaction.
        epoch, last_epoch = min(epoch + 1, PRODUCER_EPOCH_MAX), epoch
    return transaction.moved_to(
        TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        next_producer_id=next_producer_id,
        # An abort of a transaction that never began has no start of its own, but the entry needs one.
        start_ms=now_ms if transaction.state in IDLE else transaction.start_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def fenced_and_aborted(
    transaction: TransactionEntry, server_version: int, next_producer_id: int, now_ms: int
) -> TransactionEntry:
    """The coordinator gives up on an open transaction: its producer is fenced and everything it wrote is aborted."""
    fencing = transaction.moved_to(TransactionState.PREPARE_EPOCH_FENCE)
    if server_version < EPOCH_BUMP_VERSION:
        fencing = replace(
            fencing, producer_epoch=min(fencing.producer_epoch + 1, PRODUCER_EPOCH_MAX), last_producer_epoch=NO_PRODUCER_EPOCH
        )
    return decided(fencing, False, server_version, next_producer_id, now_ms)


def completed(transaction: TransactionEntry, now_ms: int) -> TransactionEntry:
    """All markers stand in their partitions.  A producer id whose epochs are used up hands over to the next."""
    state = TransactionState.COMPLETE_COMMIT if transaction.committing else TransactionState.COMPLETE_ABORT
    rotates = transaction.client_version >= EPOCH_BUMP_VERSION and transaction.next_producer_id != NO_PRODUCER_ID
    return transaction.moved_to(
        state,
        producer_id=transaction.next_producer_id if rotates else transaction.producer_id,
        producer_epoch=0 if rotates else transaction.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )


def _emptied(transaction: TransactionEntry, timeout_ms: int, now_ms: int, **identity: int) -> TransactionEntry:
    return transaction.moved_to(
        TransactionState.EMPTY,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
        last_update_ms=now_ms,
        **identity,
    )
