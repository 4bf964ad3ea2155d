"""AddPartitionsToTxn: one transaction from a producer (until v3); many from a broker, to add to or only to verify (from v4)."""

import asyncio
from collections.abc import Iterable, Mapping

from headrace.broker.coordinators.transactions.requests import TransactionRequests
from headrace.broker.handlers.producer_errors import fenced_as_known
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.image import CurrentImage
from headrace.coordination.transaction.requests import AddPartitions, VerifyPartitions
from headrace.coordination.transaction.shard import TransactionShard
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import ProducerIdentity, TopicPartition
from headrace.model.names import INTERNAL_TOPICS
from headrace.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FROM_BROKERS_SINCE = 4
KNOWS_FENCED_FROM = 2

Errors = Mapping[TopicPartition, ErrorCode]


async def handle(
    request: AddPartitionsToTxnRequest, context: RequestContext, image: CurrentImage, transactions: TransactionRequests
) -> AddPartitionsToTxnResponse:
    if context.api_version >= FROM_BROKERS_SINCE:
        results = await asyncio.gather(
            *(_answer(image, transactions, transaction, context) for transaction in request.transactions)
        )
        return AddPartitionsToTxnResponse(results_by_transaction=tuple(results))
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    answered = await _answer(image, transactions, transaction, context)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=answered.topic_results)


async def _answer(
    image: CurrentImage, transactions: TransactionRequests, transaction: AddPartitionsToTxnTransaction, context: RequestContext
) -> AddPartitionsToTxnResult:
    partitions = frozenset(TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions)
    errors = _left_out(image, partitions, context) or await _ask(transactions, transaction, partitions, context)
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id, topic_results=_by_topic(transaction.topics, errors)
    )


def _left_out(image: CurrentImage, partitions: Iterable[TopicPartition], context: RequestContext) -> Errors | None:
    """One partition that does not exist, or may not be written to, keeps all of them out of the transaction."""
    errors = {each: _why_not(image, each, context) for each in partitions}
    if all(error is ErrorCode.NONE for error in errors.values()):
        return None
    return {each: ErrorCode.OPERATION_NOT_ATTEMPTED if error is ErrorCode.NONE else error for each, error in errors.items()}


def _why_not(image: CurrentImage, partition: TopicPartition, context: RequestContext) -> ErrorCode:
    # A broker that asks for a producer has checked that it may write.
    if context.api_version < FROM_BROKERS_SINCE and (
        not context.may(Operation.WRITE, ResourceType.TOPIC, partition.topic) or partition.topic in INTERNAL_TOPICS
    ):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known = image().partition(partition.topic, partition.partition) is not None
    return ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _ask(
    transactions: TransactionRequests,
    transaction: AddPartitionsToTxnTransaction,
    partitions: frozenset[TopicPartition],
    context: RequestContext,
) -> Errors:
    transactional_id = transaction.transactional_id
    producer = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
    try:
        if transaction.verify_only:
            verify = VerifyPartitions(transactional_id=transactional_id, producer=producer, partitions=partitions)
            return await transactions.shards.look(transactional_id, TransactionShard.verify_partitions, verify)
        add = AddPartitions(
            transactional_id=transactional_id,
            producer=producer,
            partitions=partitions,
            # A broker asks on behalf of a producer of transactions version 2.
            client_version=2 if context.api_version >= FROM_BROKERS_SINCE else 0,
        )
        error = (await transactions.ask(transactional_id, TransactionShard.add_partitions, add)).error
    except RequestError as refused:
        error = refused.code
    return dict.fromkeys(partitions, fenced_as_known(error, context, KNOWS_FENCED_FROM))


def _by_topic(topics: Iterable[AddPartitionsToTxnTopic], errors: Errors) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    return tuple(
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=errors[TopicPartition(topic.name, index)]
                )
                for index in topic.partitions
            ),
        )
        for topic in topics
    )
