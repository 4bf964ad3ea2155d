"""DeleteRecords: everything below an offset is gone for readers at once, and from the disk when whole segments are."""

from typing import TYPE_CHECKING

from headrace.broker.dispatch import RequestContext
from headrace.model.errors import ErrorCode, RequestError, StorageError
from headrace.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from headrace.broker.app import Broker

HIGH_WATERMARK = -1


def handle(broker: "Broker", request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(
                name=topic.name, partitions=tuple(_delete(broker, topic.name, wanted) for wanted in topic.partitions)
            )
            for topic in request.topics
        )
    )


def _delete(broker: "Broker", topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        low_watermark, code = _delete_before(broker, topic, wanted), ErrorCode.NONE
    except RequestError as error:
        low_watermark, code = -1, error.code
    return DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=low_watermark, error_code=code)


def _delete_before(broker: "Broker", topic: str, wanted: DeleteRecordsPartition) -> int:
    partition = broker.replicas.find(topic, wanted.partition_index)
    partition.require_leader()
    if partition.config.cleanup_policy == {"compact"}:
        raise RequestError(ErrorCode.POLICY_VIOLATION, "Records of a compacted topic go when their key is written again.")
    target = partition.high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
    if not 0 <= target <= partition.high_watermark:
        raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
    try:
        broker.housekeeping.unlink_soon(partition.log.delete_before(target))
    except StorageError as error:
        partition.on_storage_failure(error)
        raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    return partition.log.start_offset
