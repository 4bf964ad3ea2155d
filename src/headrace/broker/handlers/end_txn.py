"""EndTxn: commit or abort.  The answer means that the outcome is decided for good; its markers follow."""

from headrace.broker.coordinators.transactions.requests import TransactionRequests
from headrace.broker.handlers.producer_errors import fenced_as_known
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.transaction.requests import EndTransaction, Identified
from headrace.coordination.transaction.shard import TransactionShard
from headrace.model.errors import RequestError
from headrace.model.identity import ProducerIdentity
from headrace.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

KNOWS_FENCED_FROM = 2
BUMPS_EPOCH_FROM = 5


async def handle(request: EndTxnRequest, context: RequestContext, transactions: TransactionRequests) -> EndTxnResponse:
    end = EndTransaction(
        transactional_id=request.transactional_id,
        producer=ProducerIdentity(request.producer_id, request.producer_epoch),
        committed=request.committed,
        client_version=2 if context.api_version >= BUMPS_EPOCH_FROM else 0,
    )
    try:
        answer = await transactions.ask(request.transactional_id, TransactionShard.end, end)
    except RequestError as error:
        answer = Identified(error.code)
    return EndTxnResponse(
        error_code=fenced_as_known(answer.error, context, KNOWS_FENCED_FROM),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )
