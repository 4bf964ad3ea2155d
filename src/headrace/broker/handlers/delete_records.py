"""DeleteRecords: everything below an offset is gone for readers at once, and from the disk when whole segments are.

Answered when no crash can bring the records back, here or on any replica whose broker is alive: each writes its new log start
down before it tells of it.  As in Kafka, replicas that take too long make it REQUEST_TIMED_OUT, and the records are gone
all the same; so does a disk that takes too long.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping

from headrace.broker.housekeeping.file_removal import FileRemoval
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.partitions.log_starts import LogStarts
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.replicas import Replicas
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError, StorageError
from headrace.model.identity import TopicPartition
from headrace.model.names import INTERNAL_TOPICS
from headrace.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

logger = logging.getLogger(__name__)

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1

# The write here has so long at least: whoever does not want to wait for replicas wants it, too.
WRITE_SECONDS_MIN = 1.0
# A replica whose broker went away is not waited for, and no event tells of that.
LOOK_AGAIN_S = 0.25

Moved = tuple[Partition, int]  # and where it should begin
Answer = tuple[int, ErrorCode]  # the low watermark


async def handle(
    request: DeleteRecordsRequest, context: RequestContext, replicas: Replicas, log_starts: LogStarts, removal: FileRemoval
) -> DeleteRecordsResponse:
    deadline = asyncio.get_running_loop().time() + max(0, request.timeout_ms) / 1000
    answers: dict[TopicPartition, Answer] = {}
    moved: dict[TopicPartition, Moved] = {}
    for topic in request.topics:
        for wanted in topic.partitions:
            identity = TopicPartition(topic.name, wanted.partition_index)
            try:
                context.require(Operation.DELETE, ResourceType.TOPIC, topic.name)
                moved[identity] = _delete_before(replicas, removal, topic.name, wanted)
            except RequestError as error:
                answers[identity] = NO_LOW_WATERMARK, error.code
    answers |= await _settle(log_starts, moved, deadline)
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(
                    _result(wanted.partition_index, *answers[TopicPartition(topic.name, wanted.partition_index)])
                    for wanted in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _result(index: int, low_watermark: int, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=code)


def _delete_before(replicas: Replicas, removal: FileRemoval, topic: str, wanted: DeleteRecordsPartition) -> Moved:
    if topic in INTERNAL_TOPICS:
        raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Records of {topic} cannot be deleted.")
    partition = replicas.find(topic, wanted.partition_index)
    partition.require_leader()
    if partition.config.cleanup_policy == {"compact"}:
        raise RequestError(ErrorCode.POLICY_VIOLATION, "Records of a compacted topic go when their key is written again.")
    target = partition.high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
    if not 0 <= target <= partition.high_watermark:
        raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
    try:
        removal.unlink_soon(partition.log.delete_before(target))
    except StorageError as error:
        partition.on_storage_failure(error)
        raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    # Followers hear of it with their next answer, which else would tell only of records.
    partition.replica_readers.wake()
    return partition, target


async def _settle(log_starts: LogStarts, moved: Mapping[TopicPartition, Moved], deadline: float) -> dict[TopicPartition, Answer]:
    """Wait until the new log starts are durable here, and then until the other replicas have said so of theirs."""
    behind = [partition for partition, target in moved.values() if partition.durable_start < target]
    if behind:
        try:
            async with asyncio.timeout_at(max(deadline, asyncio.get_running_loop().time() + WRITE_SECONDS_MIN)):
                await log_starts.write(behind)
        except TimeoutError:
            return {key: (partition.low_watermark, ErrorCode.REQUEST_TIMED_OUT) for key, (partition, _) in moved.items()}
        except StorageError:
            logger.exception("records are deleted, and a restart may bring them back")
            return dict.fromkeys(moved, (NO_LOW_WATERMARK, ErrorCode.KAFKA_STORAGE_ERROR))
    waiting = {key: _wait_for_replicas(partition, target, deadline) for key, (partition, target) in moved.items()}
    return dict(zip(waiting, await asyncio.gather(*waiting.values()), strict=True))


async def _wait_for_replicas(partition: Partition, target: int, deadline: float) -> Answer:
    waiter = _Waiter()
    partition.start_readers.add(waiter)
    try:
        while True:
            if partition.failure is not None:
                return NO_LOW_WATERMARK, ErrorCode.KAFKA_STORAGE_ERROR
            if not partition.is_leader:
                return NO_LOW_WATERMARK, ErrorCode.NOT_LEADER_OR_FOLLOWER
            low_watermark = partition.low_watermark
            if low_watermark >= target:
                return low_watermark, ErrorCode.NONE
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return low_watermark, ErrorCode.REQUEST_TIMED_OUT
            await waiter.woken_within(min(left, LOOK_AGAIN_S))
    finally:
        partition.start_readers.discard(waiter)


class _Waiter:
    """Woken when a replica tells of another log start."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def woken_within(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()
