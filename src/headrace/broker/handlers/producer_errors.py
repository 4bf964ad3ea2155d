"""What a producer of an older version is told when it is fenced."""

from headrace.broker.network.dispatch import RequestContext
from headrace.model.errors import ErrorCode


def fenced_as_known(error: ErrorCode, context: RequestContext, knows_from: int) -> ErrorCode:
    """PRODUCER_FENCED came with KIP-588; versions before it know INVALID_PRODUCER_EPOCH for the same."""
    if error is ErrorCode.PRODUCER_FENCED and context.api_version < knows_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
