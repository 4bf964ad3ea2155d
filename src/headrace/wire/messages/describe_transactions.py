"""DescribeTransactions: the state of transactions."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, int16, int32, int64, string

DESCRIBE_TRANSACTIONS = Api(key=65, versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsRequest:
    """Asks about transactional ids."""

    api: ClassVar[Api] = DESCRIBE_TRANSACTIONS
    transactional_ids: Annotated[tuple[str, ...], array(string)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicData:
    """The partitions of one topic that a transaction has written to."""

    topic: Annotated[str, string]
    partitions: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """A transaction."""

    error_code: Annotated[int, int16]
    transactional_id: Annotated[str, string]
    transaction_state: Annotated[str, string]
    transaction_timeout_ms: Annotated[int, int32]
    transaction_start_time_ms: Annotated[int, int64]
    producer_id: Annotated[int, int64]
    producer_epoch: Annotated[int, int16]
    topics: Annotated[tuple[TopicData, ...], array(TopicData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse:
    """The transactions."""

    api: ClassVar[Api] = DESCRIBE_TRANSACTIONS
    throttle_time_ms: Annotated[int, int32] = 0
    transaction_states: Annotated[tuple[TransactionState, ...], array(TransactionState)]
