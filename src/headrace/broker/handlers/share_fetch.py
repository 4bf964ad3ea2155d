"""ShareFetch: word of records that are done, and others to work on; it waits for them where there are none."""

from uuid import UUID

from headrace.broker.network.dispatch import RequestContext
from headrace.broker.sharing.acknowledging import Acknowledging, Outcomes
from headrace.broker.sharing.fetching import Appetite, Found, ShareFetch, ShareFetching
from headrace.broker.sharing.hints import LeaderHints
from headrace.broker.sharing.reading import Delivery
from headrace.broker.sharing.words import RENEWING_FROM, by_partition
from headrace.coordination.share.delivery import AcquireMode
from headrace.coordination.share.partition import Wish
from headrace.coordination.share.sessions import FINAL, OPEN, ShareSession, ShareSessions
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

MODES = {mode.value: mode for mode in AcquireMode}


async def handle(request: ShareFetchRequest, context: RequestContext, sharing: ShareFetching) -> ShareFetchResponse:
    try:
        _check(request)
        session = _session(request, sharing.sessions)
    except RequestError as error:
        return ShareFetchResponse(
            error_code=error.code, error_message=error.message, acquisition_lock_timeout_ms=0, responses=(), node_endpoints=()
        )
    if request.share_session_epoch == OPEN:
        sharing.watch(session, context)
    words = {named: said for named, said in by_partition(request.topics).items() if said.batches}
    may_renew = context.api_version >= RENEWING_FROM and request.is_renew_ack
    outcomes = await Acknowledging(sharing.partitions, sharing.image, context).note(*session.key, words, may_renew=may_renew)
    found: Found = {}
    if request.share_session_epoch == FINAL:
        sharing.finish(session, context)
    elif not request.is_renew_ack:  # to renew locks is all that such a request is about (KIP-1222)
        # Whoever waits for word of its acknowledgements does not wait for records.
        appetite = _appetite(request, 0.0 if outcomes else max(0, request.max_wait_ms) / 1000)
        found = await ShareFetch(session, appetite, sharing, context).run()
    return _answer(found, outcomes, session.key[0], sharing, context)


def _check(request: ShareFetchRequest) -> None:
    if not request.group_id or not request.member_id:
        raise RequestError(ErrorCode.INVALID_REQUEST, "A share fetch must name its group and its member.")
    if request.share_acquire_mode not in MODES:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"There is no acquire mode {request.share_acquire_mode}.")
    if request.is_renew_ack and (request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records):
        raise RequestError(ErrorCode.INVALID_REQUEST, "A request that renews locks must not ask for records.")


def _session(request: ShareFetchRequest, sessions: ShareSessions) -> ShareSession:
    key = (request.group_id or "", request.member_id or "")
    if request.share_session_epoch == FINAL:
        return sessions.close(key)
    named = [(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions]
    if request.share_session_epoch == OPEN:
        if any(each.acknowledgement_batches for topic in request.topics for each in topic.partitions):
            raise RequestError(ErrorCode.INVALID_REQUEST, "The first request of a share session must not acknowledge anything.")
        return sessions.open(key, named)
    session = sessions.go_on(key, request.share_session_epoch)
    session.add(named)
    for forgotten in request.forgotten_topics_data:
        for index in forgotten.partitions:
            session.partitions.pop((forgotten.topic_id, index), None)
    return session


def _appetite(request: ShareFetchRequest, wait_s: float) -> Appetite:
    wish = Wish(request.member_id or "", request.max_records, max(1, request.batch_size), MODES[request.share_acquire_mode])
    return Appetite(wish=wish, max_bytes=request.max_bytes, wait_s=wait_s)


def _answer(
    found: Found, outcomes: Outcomes, group_id: str, sharing: ShareFetching, context: RequestContext
) -> ShareFetchResponse:
    hints = LeaderHints(sharing.image, sharing.broker_id, context.connection.listener)
    topics: dict[UUID, list[PartitionData]] = {}
    for topic_id, index in dict.fromkeys([*found, *outcomes]):
        delivery, outcome = found.get((topic_id, index)), outcomes.get((topic_id, index))
        failure = delivery if isinstance(delivery, RequestError) else None
        topics.setdefault(topic_id, []).append(
            PartitionData(
                partition_index=index,
                error_code=ErrorCode.NONE if failure is None else failure.code,
                error_message=None if failure is None else failure.message,
                acknowledge_error_code=ErrorCode.NONE if outcome is None else outcome.code,
                acknowledge_error_message=None if outcome is None else outcome.message,
                current_leader=hints.of(topic_id, index, failure, outcome),
                records=delivery.records if isinstance(delivery, Delivery) else b"",
                acquired_records=_acquired(delivery) if isinstance(delivery, Delivery) else (),
            )
        )
    return ShareFetchResponse(
        throttle_time_ms=_throttle_ms(found, sharing, context),
        error_code=ErrorCode.NONE,
        acquisition_lock_timeout_ms=sharing.settings_of(group_id).limits.lock_duration_ms,
        responses=tuple(
            ShareFetchableTopicResponse(topic_id=topic_id, partitions=tuple(answers)) for topic_id, answers in topics.items()
        ),
        node_endpoints=hints.endpoints,
    )


def _throttle_ms(found: Found, sharing: ShareFetching, context: RequestContext) -> int:
    if not sharing.throttling.quotas.active:
        return 0
    sizes: dict[str, int] = {}
    for (topic_id, _), delivery in found.items():
        topic = sharing.image().topics_by_id.get(topic_id)
        if topic is not None and isinstance(delivery, Delivery):
            sizes[topic.name] = sizes.get(topic.name, 0) + len(delivery.records)
    return sharing.throttling.after_reading(sizes, context)


def _acquired(delivery: Delivery) -> tuple[AcquiredRecords, ...]:
    return tuple(
        AcquiredRecords(first_offset=each.first, last_offset=each.end - 1, delivery_count=each.delivery_count)
        for each in delivery.acquired
    )
