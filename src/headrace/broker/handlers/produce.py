"""Produce: batches from producers, written as they came.

The handler is direct: it takes the frame apart itself, hands each partition's batch to its log without a copy, and replies when
everything is as durable as the producer asked.  acks=0 gets no reply; where there would be an error, the connection ends.

Appends to one partition happen in the order in which their requests arrived.  Those that must first be looked into (a compacted
topic, another codec) take a place in the partition's queue, and who comes after them waits there.  A transaction that has to be
verified holds up its own producer only.  What was appended is let go of at once; a request whose time is over leaves every queue
it stands in, and what of it was not appended by then never is.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import cast
from uuid import UUID

from headrace.broker.cluster.leader_hints import LeaderHint, leader_hint
from headrace.broker.delaying.staging import Staging
from headrace.broker.handlers.schema_ids import SchemaIds
from headrace.broker.housekeeping.slices import in_slices
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.network.pending_reply import PendingReply
from headrace.broker.network.request_tasks import RequestTasks
from headrace.broker.network.throttling import Throttling
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.partitions.verification import Verification
from headrace.broker.partitions.waiting import Deadlines, Outcome
from headrace.broker.scheduling.requests import ScheduleRequests
from headrace.broker.tracing.trail import Followed
from headrace.controller.image import CurrentImage
from headrace.declaring import dataclass
from headrace.host.clock import Clock
from headrace.host.disk import Buffer
from headrace.log.interface import Appended, Origin, VerificationGuard
from headrace.log.producers.producer_state import LASTING_PRODUCER_ID_FROM
from headrace.log.validation import OfBrokers, RecordsRefused, deep_steps
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.names import DELAYED, SCHEDULES, WRITTEN_BY_BROKERS
from headrace.records.header import (
    FRAME,
    FRAME_BYTES,
    HEADER_BYTES,
    LOW_ATTRIBUTES_POSITION,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_BIT,
    producer_of,
)
from headrace.security.authorization.permissions import check_of
from headrace.wire.apis import ApiKey
from headrace.wire.codec import decode_at, encode
from headrace.wire.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from headrace.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

logger = logging.getLogger(__name__)

_unpack_frame = FRAME.unpack_from

TOPIC_IDS_FROM = 13
WRITE_TRANSACTIONAL_ID = check_of(ApiKey.PRODUCE, Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
WRITE_TOPIC = check_of(ApiKey.PRODUCE, Operation.WRITE, ResourceType.TOPIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Producing:
    """What Produce requests touch."""

    replicas: Replicas
    verification: Verification
    schemas: SchemaIds
    staging: Staging
    schedules: ScheduleRequests
    throttling: Throttling
    tasks: RequestTasks
    image: CurrentImage
    clock: Clock
    loop: asyncio.AbstractEventLoop
    deadlines: Deadlines
    broker_id: int

    def start(self, frame: Buffer, position: int, context: RequestContext, reply: PendingReply) -> None:
        """Begin a Produce request."""
        request, _ = decode_at(ProduceRequest, frame, context.api_version, position)
        _Produce(self, request, context, reply).start(request.topic_data)


class _Produce:
    """One request under way: the answers so far, and how many are still to come.  It does not hold the records."""

    __slots__ = (
        "_acks",
        "_appends",
        "_context",
        "_has_failed",
        "_parts",
        "_pending",
        "_reply",
        "_results",
        "_throttle_ms",
        "_timeout_s",
        "_transactional_id",
        "_waits",
    )

    def __init__(self, parts: Producing, request: ProduceRequest, context: RequestContext, reply: PendingReply) -> None:
        self._parts = parts
        self._acks = request.acks
        self._timeout_s = max(0, request.timeout_ms) / 1000
        self._transactional_id = request.transactional_id
        self._context = context
        self._reply = reply
        self._pending = 1
        self._has_failed = False
        self._results: list[TopicProduceResponse] = []
        # Where this request stands in queues: to be written, and to be durable.
        self._appends: list[asyncio.Task[None]] = []
        self._waits: list[tuple[Partition, Outcome]] = []
        # Now, not with the reply: a producer may have sent a hundred more by then, and they would all be written.
        self._throttle_ms = parts.throttling.after_produce(request, context) if parts.throttling.quotas.active else 0

    def start(self, topics: Sequence[TopicProduceData]) -> None:
        is_guarded = self._context.guard.authorizer is not None
        may_transact = not is_guarded or self._may_transact(topics)
        for topic in topics:
            denied = self._why_denied(topic, may_transact=may_transact) if is_guarded else None
            results = []
            for data in topic.partition_data:
                result = PartitionProduceResponse(index=data.index, error_code=ErrorCode.NONE)
                results.append(result)
                if denied is None:
                    self._start_partition(topic, data, result)
                else:
                    self._refuse(result, denied)
            self._results.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=tuple(results))
            )
        self._settle()
        if self._pending:
            self._reply.when_closed = self._stop_waiting
            if self._acks:
                self._parts.deadlines.join(self._timeout_s, self)

    def _may_transact(self, topics: Sequence[TopicProduceData]) -> bool:
        """Whether the batches that are of a transaction, if there are any, may be of that one."""
        for topic in topics:
            for data in topic.partition_data:
                records = data.records
                # One that is shorter than its header is refused later.
                if records and len(records) > LOW_ATTRIBUTES_POSITION and records[LOW_ATTRIBUTES_POSITION] & TRANSACTIONAL_BIT:
                    name = self._transactional_id
                    context = self._context
                    return name is not None and context.guard.allows(context.subject, WRITE_TRANSACTIONAL_ID, name, context)
        return True

    def _why_denied(self, topic: TopicProduceData, *, may_transact: bool) -> RequestError | None:
        if not may_transact:
            return RequestError(WRITE_TRANSACTIONAL_ID.error)
        name = topic.name
        if self._context.api_version >= TOPIC_IDS_FROM:
            known = self._parts.image().topics_by_id.get(topic.topic_id)
            if known is None:
                return None  # it cannot be found either
            name = known.name
        context = self._context
        if self._parts.throttling.is_broker(context):
            # It records what was done, puts aside what is delayed, and delivers it: for those who had the right.
            return None
        if context.guard.allows(context.subject, WRITE_TOPIC, name, context):
            return None
        return _only_brokers_write(name) if name in WRITTEN_BY_BROKERS else RequestError(WRITE_TOPIC.error)

    def _start_partition(self, topic: TopicProduceData, data: PartitionProduceData, result: PartitionProduceResponse) -> None:
        try:
            partition = self._find(topic.name, topic.topic_id, data.index)
            records = _require_one_batch(data.records)
            if self._parts.throttling.quotas.active:
                self._parts.throttling.require_room(partition.identity.topic)
            if self._acks == -1:
                partition.require_replicas()
            verification = self._parts.verification
            if (
                partition.appending.locked()
                or partition.log.state.config.is_opened_on_arrival
                or verification.is_needed(partition, records, self._transactional_id)
            ):
                self._pending += 1
                # What the producer hears when its time is over before anything was written.
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
                records = _only(records)
                self._reply.keep(len(records))
                appending = self._append_later(partition, records, result)
                self._appends.append(self._parts.tasks.run(appending, self._reply))
            else:
                self._append(partition, records, result)
        except RequestError as error:
            self._refuse(result, error)

    def _append(self, partition: Partition, records: Buffer, result: PartitionProduceResponse) -> None:
        try:
            appended = partition.append(records)
        except OfBrokers:
            # What a schedule sends to a topic without delays, or what waited when they were switched off.
            if not self._parts.throttling.is_broker(self._context):
                raise
            appended = partition.append(records, Origin.DELAYED)
        self._appended(partition, appended, result)

    def _find(self, name: str, topic_id: UUID, index: int) -> Partition:
        if self._acks not in (-1, 0, 1):
            raise RequestError(ErrorCode.INVALID_REQUIRED_ACKS)
        if self._context.api_version >= TOPIC_IDS_FROM:
            partition = self._parts.replicas.find_by_id(topic_id, index)
        else:
            partition = self._parts.replicas.find(name, index)
        topic = partition.identity.topic
        if topic in WRITTEN_BY_BROKERS and not self._parts.throttling.is_broker(self._context):
            raise _only_brokers_write(topic)
        return partition

    async def _append_later(self, partition: Partition, records: Buffer, result: PartitionProduceResponse) -> None:
        verification = self._parts.verification
        try:
            if partition.identity.topic == SCHEDULES:
                await self._parts.schedules.take(records, self._context)
                result.error_code = ErrorCode.NONE
            elif self._is_of_broker(partition, records):
                await self._append_of_broker(partition, records, result)
            elif verification.is_needed(partition, records, self._transactional_id):
                async with verification.admitted(partition, records, self._transactional_id, self._context.api_version) as guard:
                    await self._append_in_turn(partition, records, result, guard)
            else:
                # Without a guard a batch goes into an open transaction only: should that end while this one waits, it is refused.
                await self._append_in_turn(partition, records, result, None)
        except RequestError as error:
            self._refuse(result, error)
        except Exception:
            asked = self._context
            logger.exception(
                "an append to %s failed, for request %d of %r", partition.identity, asked.correlation_id, asked.client_id
            )
            self._refuse(result, RequestError(ErrorCode.UNKNOWN_SERVER_ERROR))
        finally:
            self._reply.let_go(len(records))
        self._settle()

    def _is_of_broker(self, partition: Partition, records: Buffer) -> bool:
        """Whether a batch is about delays and comes from a broker.  Nobody else may write under such a producer's number."""
        is_lasting = len(records) >= HEADER_BYTES and producer_of(records)[0] >= LASTING_PRODUCER_ID_FROM
        if not is_lasting and not partition.log.config.delay_enable:
            return False
        is_broker = self._parts.throttling.is_broker(self._context)
        if is_lasting and not is_broker:
            raise OfBrokers
        return is_broker and len(records) >= HEADER_BYTES

    async def _append_of_broker(self, partition: Partition, records: Buffer, result: PartitionProduceResponse) -> None:
        if partition.identity.topic == DELAYED:
            await self._parts.staging.take(partition.identity.partition, records)
            result.error_code = ErrorCode.NONE
        else:
            # What is due need not wait for others' turns: it has a producer of its own.
            self._appended(partition, partition.append(records, Origin.DELAYED), result)

    async def _append_in_turn(
        self, partition: Partition, records: Buffer, result: PartitionProduceResponse, guard: VerificationGuard | None
    ) -> None:
        async with partition.appending:
            partition.require_leader()
            if partition.log.config.needs_deep_validation:
                if partition.log.config.needs_schemas:
                    await in_slices(self._parts.loop, self._parts.clock, self._parts.schemas.read_on())
                now = self._parts.clock.wall_ms()
                records = await in_slices(
                    self._parts.loop, self._parts.clock, deep_steps(records, partition.config, now, self._parts.schemas.has)
                )
            origin = Origin.CLIENT
            if partition.log.config.delay_enable:
                records, origin = await self._parts.staging.set_aside(partition, records)
            self._appended(partition, partition.append(records, origin, guard=guard), result)

    def _appended(self, partition: Partition, appended: Appended, result: PartitionProduceResponse) -> None:
        result.error_code = ErrorCode.NONE
        result.base_offset = appended.base_offset
        result.log_append_time_ms = appended.log_append_time
        result.log_start_offset = appended.log_start_offset
        if not self._acks:
            return
        next_offset = appended.last_offset + 1
        queue = partition.queue_until_durable(next_offset, self._acks)
        if queue is not None:
            outcome = partial(self._reply.run, self._durable, result)
            queue.wait(next_offset, outcome)
            self._pending += 1
            # What the producer hears when its time is over before the wait is.
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            self._waits.append((partition, outcome))

    def _durable(self, result: PartitionProduceResponse, code: ErrorCode) -> None:
        if code == ErrorCode.NONE:
            result.error_code = ErrorCode.NONE
        else:
            self._refuse(result, RequestError(code))
        self._settle()

    def _refuse(self, result: PartitionProduceResponse, error: RequestError) -> None:
        self._has_failed = True
        if self._reply.figures is not None:
            self._reply.figures.errors[error.code] += 1
        result.error_code = error.code
        result.error_message = error.message
        result.base_offset = result.log_append_time_ms = result.log_start_offset = -1
        if isinstance(error, RecordsRefused):
            result.record_errors = tuple(
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=reason)
                for index, reason in error.record_errors
            )

    def _settle(self) -> None:
        self._pending -= 1
        if not self._pending:
            self._answer()

    def on_time_over(self) -> None:
        self._reply.run(self._time_out)

    def _time_out(self) -> None:
        for topic in self._results:
            for result in topic.partition_responses:
                if result.error_code == ErrorCode.REQUEST_TIMED_OUT:
                    self._refuse(result, RequestError(ErrorCode.REQUEST_TIMED_OUT))
        self._answer()
        for append in self._appends:
            append.cancel()
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        """Nobody is to be told any more.  A client that has gone may have meant its records all the same: they are written."""
        self._parts.deadlines.leave(self._timeout_s, self)
        waits, self._waits = self._waits, []
        for partition, outcome in waits:
            partition.stop_waiting(outcome)

    def _answer(self) -> None:
        if self._waits or self._appends:
            self._parts.deadlines.leave(self._timeout_s, self)
        if not self._pending:
            self._waits.clear()
        if (figures := self._reply.figures) is not None and figures.follows:
            assert isinstance(figures, Followed)
            figures.note_written(self._results)
        if not self._acks:
            self._answer_nothing()
            return
        version = self._context.api_version
        leaders = self._leaders() if self._has_failed else ()
        response = ProduceResponse(responses=tuple(self._results), node_endpoints=leaders, throttle_time_ms=self._throttle_ms)
        self._reply.send((self._context.response_header(), encode(response, version)))

    def _answer_nothing(self) -> None:
        failed = [result for topic in self._results for result in topic.partition_responses if result.error_code]
        if failed:
            self._reply.abandon(
                f"a write with acks=0 failed ({ErrorCode(failed[0].error_code).name}), and this is how it is told"
            )
        else:
            self._reply.skip()

    def _leaders(self) -> tuple[NodeEndpoint, ...]:
        hints: dict[int, NodeEndpoint] = {}
        for topic in self._results:
            for result in topic.partition_responses:
                if result.error_code and (hint := self._hint(topic, result)) is not None:
                    result.current_leader = LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
                    hints[hint.leader_id] = NodeEndpoint(node_id=hint.leader_id, host=hint.host, port=hint.port, rack=hint.rack)
        return tuple(hints.values())

    def _hint(self, topic: TopicProduceResponse, result: PartitionProduceResponse) -> LeaderHint | None:
        known = self._parts.image().topics_by_id.get(topic.topic_id)
        name = known.name if known is not None else topic.name
        return leader_hint(
            self._parts.image(), self._parts.broker_id, name, result.index, result.error_code, self._context.connection.listener
        )


def _only(records: Buffer) -> Buffer:
    """A batch that waits, without the rest of what arrived with it: a view would keep all of that."""
    whole = cast("bytes", records.obj) if isinstance(records, memoryview) else records
    return bytes(records) if len(records) * 2 < len(whole) else records


def _only_brokers_write(topic: str) -> RequestError:
    """Kafka lets whoever calls itself `__admin_client` write there.  A client id proves nothing, and what is read there is
    believed."""
    why = f"Only brokers write to {topic}, and only while they are registered."
    return RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)


def _require_one_batch(records: Buffer | None) -> Buffer:
    """The one batch that a producer sends per partition.  What is in it is for the log to check."""
    if not records:
        raise RequestError(ErrorCode.INVALID_RECORD, "There is no batch for this partition.")
    if len(records) > MAGIC_POSITION and records[MAGIC_POSITION] != MAGIC:
        raise RequestError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "Only record batches (format v2) are taken, not the older message sets."
        )
    if len(records) >= FRAME_BYTES and _unpack_frame(records)[1] + FRAME_BYTES != len(records):
        raise RequestError(ErrorCode.INVALID_RECORD, "Produce takes exactly one whole batch per partition.")
    return records
