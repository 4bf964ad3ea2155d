"""WriteTxnMarkers: a transaction coordinator, or an operator who ends a transaction that hangs, has markers written here."""

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.coordinators.transactions.marker_writes import write_markers
from headrace.broker.network.dispatch import RequestContext
from headrace.model.identity import ProducerIdentity, TopicPartition
from headrace.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from headrace.broker.app import Broker


async def handle(broker: "Broker", request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse:
    results = await asyncio.gather(*(_write(broker, marker) for marker in request.markers))
    return WriteTxnMarkersResponse(markers=tuple(results))


async def _write(broker: "Broker", marker: WritableTxnMarker) -> WritableTxnMarkerResult:
    errors = await write_markers(
        broker,
        ProducerIdentity(marker.producer_id, marker.producer_epoch),
        (TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes),
        committed=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )
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
