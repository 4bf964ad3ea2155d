"""WriteTxnMarkers: a transaction coordinator, or an operator who ends a transaction that hangs, has markers written here."""

import asyncio
from collections.abc import Callable
from typing import Final

from headrace.broker.coordinators.transactions.marker_writes import MarkerWriter
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.transaction.markers import TransactionEnd
from headrace.model.errors import ErrorCode
from headrace.model.identity import ProducerIdentity, TopicPartition
from headrace.model.names import CONSUMER_OFFSETS, INTERNAL_TOPICS
from headrace.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

WITHOUT_TRANSACTIONS: Final = INTERNAL_TOPICS - {CONSUMER_OFFSETS}


async def handle(
    request: WriteTxnMarkersRequest,
    context: RequestContext,
    marker_writer: MarkerWriter,
    is_broker: Callable[[RequestContext], bool],
) -> WriteTxnMarkersResponse:
    # What brokers write themselves has no transactions that an operator could end.
    refused = frozenset() if is_broker(context) else WITHOUT_TRANSACTIONS
    results = await asyncio.gather(*(_write(marker_writer, marker, refused) for marker in request.markers))
    return WriteTxnMarkersResponse(markers=tuple(results))


async def _write(marker_writer: MarkerWriter, marker: WritableTxnMarker, refused: frozenset[str]) -> WritableTxnMarkerResult:
    end = TransactionEnd(
        producer=ProducerIdentity(marker.producer_id, marker.producer_epoch),
        committed=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )
    partitions = [TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
    errors = {each: ErrorCode.INVALID_TOPIC_EXCEPTION for each in partitions if each.topic in refused}
    errors |= await marker_writer.write(end, (each for each in partitions if each not in errors))
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=tuple(
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=tuple(
                    WritableTxnMarkerPartitionResult(partition_index=index, error_code=errors[TopicPartition(topic.name, index)])
                    for index in topic.partition_indexes
                ),
            )
            for topic in marker.topics
        ),
    )
