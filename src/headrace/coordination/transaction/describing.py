"""What DescribeTransactions and ListTransactions tell."""

from collections.abc import Iterable, Iterator

from headrace.coordination.group.pattern import InvalidPattern, Pattern
from headrace.coordination.transaction.requests import Description, Listed, ListFilter
from headrace.coordination.transaction.state import TransactionEntry, TransactionState
from headrace.model.errors import ErrorCode, RequestError

_LABELS = frozenset(state.label for state in TransactionState)


def described(transactional_id: str, transaction: TransactionEntry | None) -> Description:
    """One transaction in full."""
    if not transactional_id:
        return Description(transactional_id=transactional_id, error=ErrorCode.INVALID_REQUEST)
    if transaction is None:
        return Description(transactional_id=transactional_id, error=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return Description(
        transactional_id=transactional_id,
        state=transaction.state.label,
        timeout_ms=transaction.timeout_ms,
        start_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partitions=transaction.partitions,
    )


def unknown_states(filtered: ListFilter) -> tuple[str, ...]:
    """Names in the filter that are no state: the client is told, the rest of the filter still holds."""
    return tuple(sorted(filtered.states - _LABELS))


def listed(transactions: Iterable[TransactionEntry], filtered: ListFilter, now_ms: int) -> Iterator[Listed]:
    """Those that pass every part of the filter.  Raises RequestError when the pattern is none."""
    pattern = _pattern(filtered.transactional_id_pattern)
    for transaction in transactions:
        if filtered.producer_ids and transaction.producer_id not in filtered.producer_ids:
            continue
        if filtered.states and transaction.state.label not in filtered.states:
            continue
        if filtered.duration_ms >= 0 and now_ms - transaction.start_ms <= filtered.duration_ms:
            continue
        if pattern is not None and not pattern.matches(transaction.transactional_id):
            continue
        yield Listed(transaction.transactional_id, transaction.producer_id, transaction.state.label)


def _pattern(text: str | None) -> Pattern | None:
    if not text:
        return None
    try:
        return Pattern(text)
    except InvalidPattern as error:
        raise RequestError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"Transaction ID pattern `{text}` is not a valid regular expression: {error}.",
        ) from error
