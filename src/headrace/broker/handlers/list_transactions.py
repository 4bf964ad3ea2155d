"""ListTransactions: the transactions that this broker coordinates, by state, producer, age and name."""

from headrace.broker.coordinators.transactions.requests import TransactionShards
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.transaction.describing import unknown_states
from headrace.coordination.transaction.requests import ListFilter
from headrace.coordination.transaction.shard import TransactionShard
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)


async def handle(
    request: ListTransactionsRequest, context: RequestContext, transactions: TransactionShards
) -> ListTransactionsResponse:
    filtered = ListFilter(
        states=frozenset(request.state_filters),
        producer_ids=frozenset(request.producer_id_filters),
        duration_ms=request.duration_filter,
        transactional_id_pattern=request.transactional_id_pattern,
    )
    try:
        found = await transactions.look_everywhere(TransactionShard.list, filtered, transactions.now())
    except RequestError as error:
        return ListTransactionsResponse(error_code=error.code, unknown_state_filters=(), transaction_states=())
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=unknown_states(filtered),
        transaction_states=tuple(
            TransactionState(transactional_id=each.transactional_id, producer_id=each.producer_id, transaction_state=each.state)
            for each in found
            if context.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, each.transactional_id)
        ),
    )
