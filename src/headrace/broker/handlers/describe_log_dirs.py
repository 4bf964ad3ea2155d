"""DescribeLogDirs: how much of the disk each partition takes."""

from collections import defaultdict

from headrace.broker.health.disk_health import DiskHealth
from headrace.broker.health.disk_space import DiskSpace
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.partitions.storage import Storage
from headrace.model.errors import ErrorCode
from headrace.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(
    request: DescribeLogDirsRequest,
    context: RequestContext,
    replicas: Replicas,
    storage: Storage,
    space: DiskSpace,
    health: DiskHealth,
) -> DescribeLogDirsResponse:
    by_topic: dict[str, list[Partition]] = defaultdict(list)
    wanted = None if request.topics is None else {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    for partition in replicas:
        if wanted is None or (partition.identity.topic, partition.identity.partition) in wanted:
            by_topic[partition.identity.topic].append(partition)
    lost = health.lost is not None
    # As it was when somebody last looked: the disk itself may take its time to say.
    total, usable = (-1, -1) if lost else (space.total, space.free)
    return DescribeLogDirsResponse(
        results=(
            DescribeLogDirsResult(
                error_code=ErrorCode.KAFKA_STORAGE_ERROR if lost else ErrorCode.NONE,
                log_dir=storage.name,
                topics=tuple(
                    DescribeLogDirsTopic(name=name, partitions=tuple(map(_describe, partitions)))
                    for name, partitions in by_topic.items()
                ),
                total_bytes=total,
                usable_bytes=usable,
            ),
        )
    )


def _describe(partition: Partition) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=partition.identity.partition,
        partition_size=partition.log.size_bytes,
        offset_lag=max(0, partition.high_watermark - partition.log.end_offset),
        is_future_key=False,
    )
