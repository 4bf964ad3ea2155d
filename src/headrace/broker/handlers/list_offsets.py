"""ListOffsets: the offset at the start, at the end, at a time, or of the latest time."""

import asyncio

from headrace.broker.network.dispatch import RequestContext
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.reading import search
from headrace.broker.partitions.replicas import Replicas
from headrace.host.disk import Disk
from headrace.log.results import FoundOffset
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError, StorageError
from headrace.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
CONSUMER = -1
READ_COMMITTED = 1


async def handle(request: ListOffsetsRequest, context: RequestContext, replicas: Replicas, disk: Disk) -> ListOffsetsResponse:
    topics = []
    for topic in request.topics:
        # One after the other: however many times are asked for, one thread looks for them.
        answers = [await _answer(replicas, disk, request, topic.name, wanted, context) for wanted in topic.partitions]
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(answers)))
    return ListOffsetsResponse(topics=tuple(topics))


async def _answer(
    replicas: Replicas, disk: Disk, request: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition, context: RequestContext
) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    try:
        context.require(Operation.DESCRIBE, ResourceType.TOPIC, topic)
        partition = _led(replicas, topic, wanted)
        if wanted.timestamp >= 0 or wanted.timestamp == MAX_TIMESTAMP:
            time = None if wanted.timestamp == MAX_TIMESTAMP else wanted.timestamp
            found = await _search(disk, partition, time, _end(partition, request))
            partition = _led(replicas, topic, wanted)  # it may be another's by now
            timestamp, offset, epoch = (-1, -1, -1) if found is None else found
        else:
            timestamp, offset, epoch = _find(partition, request, wanted.timestamp)
    except RequestError as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
    except StorageError as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=partition.on_failed_read(error))
    return ListOffsetsPartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE,
        old_style_offsets=(offset,) if context.api_version == 0 and offset >= 0 else (),
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch,
    )


async def _search(disk: Disk, partition: Partition, timestamp: int | None, up_to: int) -> FoundOffset | None:
    """Among what is in an object store alone, and then among what is here."""
    remote = await partition.remote.find(timestamp) if partition.remote is not None else None
    if remote is not None and timestamp is not None:
        return remote
    local = await search(asyncio.get_running_loop(), disk, partition, timestamp, up_to)
    if remote is None or local is None:
        return local or remote
    return local if local.timestamp > remote.timestamp else remote


def _led(replicas: Replicas, topic: str, wanted: ListOffsetsPartition) -> Partition:
    partition = replicas.find(topic, wanted.partition_index)
    partition.require_leader(wanted.current_leader_epoch)
    return partition


def _end(partition: Partition, request: ListOffsetsRequest) -> int:
    if request.replica_id != CONSUMER:
        return partition.log.end_offset
    return partition.readable_to(committed_only=request.isolation_level == READ_COMMITTED)


def _find(partition: Partition, request: ListOffsetsRequest, timestamp: int) -> tuple[int, int, int]:
    """What needs no search."""
    log, up_to = partition.log, _end(partition, request)
    match timestamp:
        case -1:
            return -1, up_to, log.epochs.latest
        case -2:
            return -1, log.start_offset, log.epochs.epoch_at(log.start_offset)
        case -4:
            local_start = max(log.start_offset, log.state.local_start)
            return -1, local_start, log.epochs.epoch_at(local_start)
        case -5:
            # The last offset that is in an object store; -1 where none is.
            offset = -1 if partition.remote is None else max(-1, partition.remote.end_offset - 1)
            return -1, offset, log.epochs.epoch_at(offset) if offset >= 0 else -1
        case -6:
            if partition.remote is None:
                return -1, -1, -1
            offset = max(partition.remote.end_offset, log.state.local_start)
            return -1, offset, log.epochs.epoch_at(offset)
        case _:
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
