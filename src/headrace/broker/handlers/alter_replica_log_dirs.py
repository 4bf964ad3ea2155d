"""AlterReplicaLogDirs: a broker has one log directory, so a replica is where it is asked to be, or cannot get there."""

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import RequestContext
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from headrace.broker.app import Broker


def handle(broker: "Broker", request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
    results: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                results.setdefault(topic.name, {})[index] = _move(broker, directory.path, topic.name, index)
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


def _move(broker: "Broker", path: str, name: str, index: int) -> ErrorCode:
    if path != broker.storage.name:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if broker.clustering.health.lost is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        partition = broker.replicas.find(name, index)
    except RequestError as error:
        return error.code
    return ErrorCode.NONE if partition.failure is None else ErrorCode.KAFKA_STORAGE_ERROR
