"""InitProducerId: an identity for an idempotent producer, from any broker, or for a transactional one, from its coordinator."""

from headrace.broker.coordinators.transactions.producer_ids import ProducerIdClaims
from headrace.broker.coordinators.transactions.requests import TransactionRequests
from headrace.broker.handlers.producer_errors import fenced_as_known
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.transaction.requests import Identified, InitProducerId
from headrace.coordination.transaction.shard import TransactionShard
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdentity
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

KNOWS_FENCED_FROM = 4


async def handle(
    request: InitProducerIdRequest,
    context: RequestContext,
    transactions: TransactionRequests,
    producer_ids: ProducerIdClaims,
) -> InitProducerIdResponse:
    try:
        answer = await _identify(transactions, producer_ids, request)
    except RequestError as error:
        answer = Identified(error.code)
    return InitProducerIdResponse(
        error_code=fenced_as_known(answer.error, context, KNOWS_FENCED_FROM),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )


async def _identify(
    transactions: TransactionRequests, producer_ids: ProducerIdClaims, request: InitProducerIdRequest
) -> Identified:
    expected = _expected(request)
    if request.transactional_id is None:
        return Identified(ErrorCode.NONE, await producer_ids.take(), 0)
    init = InitProducerId(
        transactional_id=request.transactional_id,
        timeout_ms=request.transaction_timeout_ms,
        expected=expected,
        enable_two_phase_commit=request.enable2_pc,
        keep_prepared_transaction=request.keep_prepared_txn,
    )
    # Who asks too early, or the wrong broker, hears so before any id is claimed for it.
    transactions.shards.partition_of(request.transactional_id)
    await producer_ids.have_some()
    return await transactions.ask(request.transactional_id, TransactionShard.init_producer_id, init)


def _expected(request: InitProducerIdRequest) -> ProducerIdentity | None:
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch:
        raise RequestError(ErrorCode.INVALID_REQUEST, "A producer id and an epoch come together.")
    return ProducerIdentity(request.producer_id, request.producer_epoch) if has_id else None
