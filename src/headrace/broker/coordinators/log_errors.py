"""What a client of a coordinator is told when its log fails: words about coordinators, not about partitions."""

from headrace.model.errors import DiskFull, ErrorCode, NoRoom, RequestError, StorageError

COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def as_coordinator_error(error: RequestError | StorageError) -> RequestError:
    if isinstance(error, DiskFull | NoRoom):
        # Kafka knows broken disks only, whose partitions move.  This one stays: nobody need look for another coordinator.
        return RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
    if isinstance(error, StorageError):
        return RequestError(ErrorCode.NOT_COORDINATOR, str(error))
    return RequestError(COORDINATOR_ERRORS.get(error.code, error.code), error.message or "")
