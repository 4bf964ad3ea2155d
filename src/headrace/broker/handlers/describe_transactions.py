"""DescribeTransactions: the transactions that this broker coordinates, in full."""

from headrace.broker.coordinators.transactions.entries import by_topic
from headrace.broker.coordinators.transactions.requests import TransactionShards
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.transaction.requests import Description
from headrace.coordination.transaction.shard import TransactionShard
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


async def handle(
    request: DescribeTransactionsRequest, context: RequestContext, transactions: TransactionShards
) -> DescribeTransactionsResponse:
    found = [await _describe(transactions, transactional_id, context) for transactional_id in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=tuple(_state(each, context) for each in found))


async def _describe(transactions: TransactionShards, transactional_id: str, context: RequestContext) -> Description:
    if not transactional_id:
        return Description(transactional_id=transactional_id, error=ErrorCode.INVALID_REQUEST)
    try:
        context.require(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        return await transactions.look(transactional_id, TransactionShard.describe, transactional_id)
    except RequestError as error:
        return Description(transactional_id=transactional_id, error=error.code)


def _state(description: Description, context: RequestContext) -> TransactionState:
    return TransactionState(
        error_code=description.error,
        transactional_id=description.transactional_id,
        transaction_state=description.state,
        transaction_timeout_ms=description.timeout_ms,
        transaction_start_time_ms=description.start_ms,
        producer_id=description.producer_id,
        producer_epoch=description.producer_epoch,
        topics=tuple(
            TopicData(topic=topic.topic, partitions=topic.partition_ids)
            for topic in by_topic(description.partitions)
            if context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        ),
    )
