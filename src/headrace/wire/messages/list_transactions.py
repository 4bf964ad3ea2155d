"""ListTransactions: the transactions that this broker coordinates."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, int16, int32, int64, string

LIST_TRANSACTIONS = Api(key=66, versions=range(3), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsRequest:
    """Asks for transactions, by state and producer.  v1 filters by age, v2 by a pattern."""

    api: ClassVar[Api] = LIST_TRANSACTIONS
    state_filters: Annotated[tuple[str, ...], array(string)]
    producer_id_filters: Annotated[tuple[int, ...], array(int64)]
    duration_filter: Annotated[int, int64, Since(1)] = -1
    transactional_id_pattern: Annotated[str | None, string, Since(2)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """A transaction."""

    transactional_id: Annotated[str, string]
    producer_id: Annotated[int, int64]
    transaction_state: Annotated[str, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsResponse:
    """The transactions, and the state names in the filter that are not known."""

    api: ClassVar[Api] = LIST_TRANSACTIONS
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    unknown_state_filters: Annotated[tuple[str, ...], array(string)]
    transaction_states: Annotated[tuple[TransactionState, ...], array(TransactionState)]
