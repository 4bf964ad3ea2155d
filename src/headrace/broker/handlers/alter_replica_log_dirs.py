"""AlterReplicaLogDirs: a broker has one log directory, so a replica is where it is asked to be, or cannot get there."""

from headrace.broker.health.disk_health import DiskHealth
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.partitions.storage import Storage
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(
    request: AlterReplicaLogDirsRequest, context: RequestContext, replicas: Replicas, storage: Storage, health: DiskHealth
) -> AlterReplicaLogDirsResponse:
    results: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                results.setdefault(topic.name, {})[index] = _move(replicas, storage, health, directory.path, topic.name, index)
    return AlterReplicaLogDirsResponse(
        results=tuple(
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=tuple(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code) for index, code in codes.items()
                ),
            )
            for name, codes in results.items()
        )
    )


def _move(replicas: Replicas, storage: Storage, health: DiskHealth, path: str, name: str, index: int) -> ErrorCode:
    if path != storage.name:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if health.lost is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        partition = replicas.find(name, index)
    except RequestError as error:
        return error.code
    return ErrorCode.NONE if partition.failure is None else ErrorCode.KAFKA_STORAGE_ERROR
