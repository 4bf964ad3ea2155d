"""ShareAcknowledge: word of records that are done, without asking for more."""

from uuid import UUID

from headrace.broker.network.dispatch import RequestContext
from headrace.broker.sharing.acknowledging import Acknowledging
from headrace.broker.sharing.fetching import ShareFetching
from headrace.broker.sharing.hints import LeaderHints
from headrace.broker.sharing.words import RENEWING_FROM, by_partition
from headrace.coordination.share.sessions import FINAL, OPEN, ShareSession, ShareSessions
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


async def handle(request: ShareAcknowledgeRequest, context: RequestContext, sharing: ShareFetching) -> ShareAcknowledgeResponse:
    try:
        session = _session(request, sharing.sessions)
    except RequestError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message, responses=(), node_endpoints=())
    group_id, member_id = session.key
    words = by_partition(request.topics)
    may_renew = context.api_version >= RENEWING_FROM and request.is_renew_ack
    outcomes = await Acknowledging(sharing.partitions, sharing.image, context).note(
        group_id, member_id, words, may_renew=may_renew
    )
    if request.share_session_epoch == FINAL:
        sharing.finish(session, context)
    hints = LeaderHints(sharing.image, sharing.broker_id, context.connection.listener)
    topics: dict[UUID, list[PartitionData]] = {}
    for (topic_id, index), refusal in outcomes.items():
        topics.setdefault(topic_id, []).append(
            PartitionData(
                partition_index=index,
                error_code=ErrorCode.NONE if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.message,
                current_leader=hints.of(topic_id, index, refusal),
            )
        )
    return ShareAcknowledgeResponse(
        error_code=ErrorCode.NONE,
        acquisition_lock_timeout_ms=sharing.settings_of(group_id).limits.lock_duration_ms,
        responses=tuple(
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=tuple(answers)) for topic_id, answers in topics.items()
        ),
        node_endpoints=hints.endpoints,
    )


def _session(request: ShareAcknowledgeRequest, sessions: ShareSessions) -> ShareSession:
    if not request.group_id or not request.member_id:
        raise RequestError(ErrorCode.INVALID_REQUEST, "An acknowledgement must name its group and its member.")
    key = (request.group_id, request.member_id)
    if request.share_session_epoch == OPEN:
        raise RequestError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    return sessions.close(key) if request.share_session_epoch == FINAL else sessions.go_on(key, request.share_session_epoch)
