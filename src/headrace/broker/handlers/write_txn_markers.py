"""WriteTxnMarkers: a transaction coordinator, or an operator who ends a transaction that hangs, has markers written here."""

import asyncio

from headrace.broker.coordinators.transactions.marker_writes import MarkerWriter
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.transaction.markers import TransactionEnd
from headrace.model.identity import ProducerIdentity, TopicPartition
from headrace.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


async def handle(
    request: WriteTxnMarkersRequest, context: RequestContext, marker_writer: MarkerWriter
) -> WriteTxnMarkersResponse:
    results = await asyncio.gather(*(_write(marker_writer, marker) for marker in request.markers))
    return WriteTxnMarkersResponse(markers=tuple(results))


async def _write(marker_writer: MarkerWriter, marker: WritableTxnMarker) -> WritableTxnMarkerResult:
    end = TransactionEnd(
        producer=ProducerIdentity(marker.producer_id, marker.producer_epoch),
        committed=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )
    partitions = (TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes)
    errors = await marker_writer.write(end, partitions)
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
