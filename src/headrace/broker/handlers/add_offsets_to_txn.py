"""AddOffsetsToTxn: the partition that keeps a group's offsets becomes part of the transaction."""

from headrace.broker.administration.topics import Topics
from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.coordinators.transactions.requests import TransactionRequests
from headrace.broker.handlers.producer_errors import fenced_as_known
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.transaction.requests import AddPartitions
from headrace.coordination.transaction.shard import TransactionShard
from headrace.model.errors import RequestError
from headrace.model.identity import ProducerIdentity, TopicPartition
from headrace.model.names import CONSUMER_OFFSETS
from headrace.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

KNOWS_FENCED_FROM = 2


async def handle(
    request: AddOffsetsToTxnRequest,
    context: RequestContext,
    topics: Topics,
    groups: GroupShards,
    transactions: TransactionRequests,
) -> AddOffsetsToTxnResponse:
    try:
        # The group may not have looked for its coordinator yet: then this makes the topic.
        await topics.ensure(CONSUMER_OFFSETS)
        partition = TopicPartition(CONSUMER_OFFSETS, groups.partition_of(request.group_id))
        add = AddPartitions(
            transactional_id=request.transactional_id,
            producer=ProducerIdentity(request.producer_id, request.producer_epoch),
            partitions=frozenset({partition}),
        )
        error = (await transactions.ask(request.transactional_id, TransactionShard.add_partitions, add)).error
    except RequestError as refused:
        error = refused.code
    return AddOffsetsToTxnResponse(error_code=fenced_as_known(error, context, KNOWS_FENCED_FROM))
