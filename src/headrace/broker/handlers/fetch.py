"""Fetch: whole batches to consumers and followers, waiting for new ones where there are too few.

The handler is direct: records go from the log to the socket without being looked at.  A reply is made only when every earlier
one of the connection has left, so a client holds at most one large reply.  It is no larger than there is room for in the memory
that all connections share; where there is room for nothing, it waits, though no longer than the client does.  Followers have
fetch sessions; those of consumers are declined, as the protocol allows: session id 0 tells the client to name its partitions
each time.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.broker.cluster.leader_hints import leader_hint
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.network.pending_reply import PendingReply
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.reading import is_warm, warm_up
from headrace.broker.partitions.waiting import Readers
from headrace.broker.replicas.sessions import NEW_SESSION, NO_SESSION, ReplicaSession, divergence
from headrace.host.disk import Buffer
from headrace.log.interface import CorruptBatch
from headrace.model.errors import ErrorCode, RequestError, StorageError
from headrace.model.identity import NO_BROKER
from headrace.wire.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    read_fetch_request,
    write_fetch_response,
)

if TYPE_CHECKING:
    from headrace.broker.app import Broker

logger = logging.getLogger(__name__)

TOPIC_IDS_FROM = 13
REPLICA_STATE_FROM = 15
NEARBY_FROM = 11
READ_COMMITTED = 1


def start(broker: "Broker", frame: Buffer, position: int, context: RequestContext, reply: PendingReply) -> None:
    """Begin a Fetch request."""
    request = read_fetch_request(frame, position, context.api_version)
    follower = request.replica_state.replica_id
    try:
        if follower >= 0 and request.session_epoch != NO_SESSION and context.api_version >= REPLICA_STATE_FROM:
            session = broker.sessions.resume(follower, request)
            fetch: _Fetch = _SessionFetch(broker, request, context, reply, session)
        elif request.session_epoch not in (NO_SESSION, NEW_SESSION):
            raise RequestError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        else:
            fetch = _Fetch(broker, request, context, reply)
        reply.keep(len(frame))
    except RequestError as error:
        _send(FetchResponse(error_code=error.code, responses=()), context, reply)
        return
    reply.when_closed = fetch.give_up
    fetch.note_follower()
    reply.when_at_head(fetch.begin)


def _send(response: FetchResponse, context: RequestContext, reply: PendingReply) -> None:
    reply.send((context.response_header(), *write_fetch_response(response, context.api_version)))


class _Fetch:
    """One request under way.  It reads, and if there is too little, waits to be woken or for its time to be over."""

    __slots__ = (
        "_broker",
        "_context",
        "_grown_from",
        "_grown_needed",
        "_partitions",
        "_reading",
        "_reply",
        "_request",
        "_time_is_over",
        "_timer",
        "_waits_for_room",
        "_woken",
    )

    def __init__(self, broker: "Broker", request: FetchRequest, context: RequestContext, reply: PendingReply) -> None:
        self._broker = broker
        self._request = request
        self._context = context
        self._reply = reply
        self._timer: asyncio.TimerHandle | None = None
        self._time_is_over = False
        self._woken = False
        # Whether it reads from a file, or waits for room to read: it is not to be begun again then.
        self._reading = False
        self._waits_for_room = False
        self._partitions: list[Partition] = []
        self._grown_from = 0
        self._grown_needed = 0

    def note_follower(self) -> None:
        """A follower that asks for an offset has everything below: let the high watermark, and the in-sync set, know."""
        if not self._is_replica:
            return
        for topic in self._request.topics:
            for wanted in topic.partitions:
                try:
                    partition = self._find(topic, wanted.partition)
                    partition.require_leader(wanted.current_leader_epoch)
                    parted = divergence(partition, wanted)
                except RequestError:
                    continue
                if parted is None and wanted.fetch_offset <= partition.log.end_offset:
                    epoch = self._request.replica_state.replica_epoch
                    partition.leadership.on_fetch(self._replica_id, wanted.fetch_offset, wanted.log_start_offset, epoch)

    # -- reading, waiting, answering

    def begin(self) -> None:
        cold = self._cold_partitions()
        if cold:
            self._broker.request_tasks.run(self._warm_up_and_read(cold), self._reply)
        else:
            self._read_or_wait_for_room()

    async def _warm_up_and_read(self, cold: list[tuple[Partition, FetchPartition]]) -> None:
        self._reading = True
        left = self._bytes_max()
        try:
            for partition, wanted in cold:
                size = min(left, wanted.partition_max_bytes)
                if size > 0:
                    await warm_up(self._broker.loop, self._broker.host.disk, partition, wanted.fetch_offset, size)
                    left -= size
        finally:
            self._reading = False
        if self._reply.is_wanted:
            self._read_or_wait_for_room()

    def _bytes_max(self) -> int:
        return min(self._request.max_bytes, self._broker.fetch_bytes_max)

    def _read_or_wait_for_room(self) -> None:
        wanted = self._bytes_max()
        room = self._reply.share.room_for_reply(wanted)
        if room == 0 and wanted > 0:
            # Memory is short.  What is there to be read may need much less than what was asked for at most, or nothing.
            wanted = min(wanted, self._estimate())
            room = self._reply.share.room_for_reply(wanted)
        if room == 0 and wanted > 0:
            self._reading = self._waits_for_room = True
            self._reply.share.wait_to_reply(wanted, self._on_room, first=self._is_replica)
            self._start_timer()
        else:
            self._finish_attempt(self._read_all(room))

    def _on_room(self) -> None:
        self._reading = self._waits_for_room = False
        self._reply.run(self._read_or_wait_for_room)

    def _estimate(self) -> int:
        """About how many bytes there are to be read."""
        size = 0
        for topic in self._request.topics:
            for wanted in topic.partitions:
                with suppress(RequestError):
                    partition = self._find(topic, wanted.partition)
                    log = partition.log
                    unread = self._readable_to(partition) - max(wanted.fetch_offset, log.start_offset)
                    if unread > 0:
                        average = log.size_bytes / max(1, log.end_offset - log.start_offset)
                        size += min(wanted.partition_max_bytes, max(1, round(unread * average)))
        return size

    def _finish_attempt(self, results: list[FetchableTopicResponse]) -> None:
        size = sum(len(data.records or b"") for topic in results for data in topic.partitions)
        failed = any(_must_be_told(data) for topic in results for data in topic.partitions)
        if failed or size >= self._request.min_bytes or self._is_over() or not self._partitions_named():
            self._answer(results)
        else:
            self._wait(size)

    def _wait(self, size: int) -> None:
        if not self._partitions:
            self._partitions = list(self._found())
            for partition in self._partitions:
                self._queue_of(partition).add(self)
            self._start_timer()
        # What is written but may not be read yet becomes readable without the log growing: then each wake-up is worth a look.
        self._grown_needed = 0 if self._has_unreadable() else self._request.min_bytes - size
        self._grown_from = self._log_bytes()
        self._woken = False

    def wake(self) -> None:
        """A partition has something new.  Looked at once per turn of the loop, however many partitions moved."""
        if not self._woken and not self._reading:
            self._woken = True
            self._reply.soon(self._try_again)

    def _try_again(self) -> None:
        if not self._reply.is_wanted:
            self.leave()
        elif self._partitions and not self._reading:
            # Less than before: old segments were removed, and nobody knows what was added.
            if 0 <= self._log_bytes() - self._grown_from < self._grown_needed and not self._lost_something():
                self._woken = False
            else:
                self.begin()

    def _lost_something(self) -> bool:
        nearby = self._broker.nearby.is_enabled
        return any(p.failure is not None or not (p.is_leader or nearby) for p in self._partitions)

    def _start_timer(self) -> None:
        if self._timer is None:
            seconds = 0 if self._is_over() else self._request.max_wait_ms / 1000
            self._timer = self._reply.later(seconds, self._time_over)

    def _time_over(self) -> None:
        self._timer = None
        self._time_is_over = True
        if not self._reply.is_wanted:
            self.leave()
        elif self._waits_for_room:
            self._reading = self._waits_for_room = False
            self._reply.share.stop_waiting_to_reply()
            self._answer(self._read_all(0, nothing_yet=False))
        elif not self._reading:
            self.begin()

    def _is_over(self) -> bool:
        return self._request.max_wait_ms <= 0 or self._time_is_over

    def _answer(self, results: list[FetchableTopicResponse]) -> None:
        self.leave()
        throttle_ms = 0 if self._is_replica else self._broker.throttling.after_fetch(results, self._context)
        response = FetchResponse(responses=tuple(results), node_endpoints=self._hints(results), throttle_time_ms=throttle_ms)
        _send(response, self._context, self._reply)

    def give_up(self) -> None:
        """The client has gone."""
        self.leave()
        self._reply.let_go()

    def leave(self) -> None:
        """Wait no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for partition in self._partitions:
            self._queue_of(partition).discard(self)
        self._partitions = []

    def _queue_of(self, partition: Partition) -> Readers:
        return partition.replica_readers if self._is_replica else partition.readers

    # -- partitions

    @property
    def _replica_id(self) -> int:
        if self._context.api_version >= REPLICA_STATE_FROM:
            return self._request.replica_state.replica_id
        return self._request.replica_id

    @property
    def _is_replica(self) -> bool:
        return self._replica_id >= 0

    def _partitions_named(self) -> bool:
        return any(topic.partitions for topic in self._request.topics)

    def _find(self, topic: FetchTopic, index: int) -> Partition:
        if self._context.api_version >= TOPIC_IDS_FROM:
            return self._broker.parts.replicas.find_by_id(topic.topic_id, index)
        return self._broker.parts.replicas.find(topic.topic, index)

    def _found(self) -> Iterator[Partition]:
        for topic in self._request.topics:
            for wanted in topic.partitions:
                try:
                    yield self._find(topic, wanted.partition)
                except RequestError:
                    continue

    def _log_bytes(self) -> int:
        return sum(partition.log.size_bytes for partition in self._partitions)

    def _has_unreadable(self) -> bool:
        return any(self._readable_to(partition) < partition.log.end_offset for partition in self._partitions)

    def _readable_to(self, partition: Partition) -> int:
        if self._is_replica:
            return partition.log.end_offset
        return partition.readable_to(committed_only=self._request.isolation_level == READ_COMMITTED)

    def _cold_partitions(self) -> list[tuple[Partition, FetchPartition]]:
        """What is asked for and may not be in memory."""
        cold = []
        for topic in self._request.topics:
            for wanted in topic.partitions:
                try:
                    partition = self._find(topic, wanted.partition)
                except RequestError:
                    continue
                if not is_warm(partition, wanted.fetch_offset):
                    cold.append((partition, wanted))
        return cold

    # -- reading

    def _read_all(self, left: int, *, nothing_yet: bool = True) -> list[FetchableTopicResponse]:
        results = []
        for topic in self._request.topics:
            answers = []
            for wanted in topic.partitions:
                data = self._read(topic, wanted, left, nothing_yet)
                if size := len(data.records or b""):
                    left -= size
                    nothing_yet = False
                answers.append(data)
            results.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=tuple(answers)))
        return results

    def _read(self, topic: FetchTopic, wanted: FetchPartition, left: int, nothing_yet: bool) -> PartitionData:
        try:
            partition = self._find(topic, wanted.partition)
            if self._is_replica or self._context.api_version < NEARBY_FROM:
                partition.require_leader(wanted.current_leader_epoch)
            else:
                self._broker.nearby.require_readable(partition, wanted.current_leader_epoch)
            return self._read_partition(partition, wanted, left, nothing_yet)
        except RequestError as error:
            return PartitionData(partition_index=wanted.partition, error_code=error.code)
        except StorageError as error:
            logger.error("a read failed: %s", error)
            if isinstance(error, CorruptBatch):
                partition.note_damage()
                return PartitionData(partition_index=wanted.partition, error_code=ErrorCode.CORRUPT_MESSAGE)
            return PartitionData(partition_index=wanted.partition, error_code=ErrorCode.KAFKA_STORAGE_ERROR)

    def _read_partition(self, partition: Partition, wanted: FetchPartition, left: int, nothing_yet: bool) -> PartitionData:
        log = partition.log
        data = PartitionData(
            partition_index=wanted.partition,
            error_code=ErrorCode.NONE,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=None,
        )
        if (parted := divergence(partition, wanted)) is not None:
            data.diverging_epoch = parted
            return data
        if not self._is_replica and self._request.rack_id:
            data.preferred_read_replica = self._broker.nearby.nearer_replica(
                partition, self._request.rack_id, wanted.fetch_offset
            )
            if data.preferred_read_replica != NO_BROKER:
                return data
        if left <= 0 and not nothing_yet:
            return data
        served = self._broker.served
        if self._is_replica and served.holds_back(partition, self._replica_id):
            return data
        max_bytes = max(0, min(wanted.partition_max_bytes, left))
        read = log.read(
            wanted.fetch_offset,
            max_bytes=max_bytes,
            up_to=self._readable_to(partition),
            at_least_one=nothing_yet,
            as_stored=self._is_replica,
        )
        data.records = read.data
        if self._is_replica:
            served.on_bytes(partition, self._replica_id, len(read.data))
        if self._request.isolation_level == READ_COMMITTED and not self._is_replica:
            data.aborted_transactions = tuple(
                AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in (log.aborted_transactions(wanted.fetch_offset, read.next_offset) if read.data else ())
            )
        return data

    def _hints(self, results: list[FetchableTopicResponse]) -> tuple[NodeEndpoint, ...]:
        hints: dict[int, NodeEndpoint] = {}
        for topic in results:
            for data in topic.partitions:
                if not data.error_code:
                    continue
                known = self._broker.image.topics_by_id.get(topic.topic_id)
                name = known.name if known is not None else topic.topic
                listener = self._context.connection.listener
                hint = leader_hint(
                    self._broker.image, self._broker.broker_id, name, data.partition_index, data.error_code, listener
                )
                if hint is not None:
                    data.current_leader = LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
                    hints[hint.leader_id] = NodeEndpoint(node_id=hint.leader_id, host=hint.host, port=hint.port, rack=hint.rack)
        return tuple(hints.values())


class _SessionFetch(_Fetch):
    """A follower's request within its session: only what is due is looked at, and only what is news is answered."""

    __slots__ = ("_evaluated", "_session", "_waiting")

    def __init__(
        self, broker: "Broker", request: FetchRequest, context: RequestContext, reply: PendingReply, session: ReplicaSession
    ) -> None:
        super().__init__(broker, request, context, reply)
        self._session = session
        self._waiting = False
        self._evaluated = 0

    def begin(self) -> None:
        self._evaluated = len(self._session.due)
        self._request.topics = self._session.topics()
        super().begin()

    def _wait(self, size: int) -> None:
        self._woken = False
        if not self._waiting:
            self._waiting = True
            self._session.on_wake = self.wake
            self._start_timer()
        if len(self._session.due) > self._evaluated:
            self.wake()  # something came while a file was read

    def _try_again(self) -> None:
        if not self._reply.is_wanted:
            self.leave()
        elif self._waiting and not self._reading:
            self.begin()

    def _partitions_named(self) -> bool:
        return len(self._session) > 0

    def _answer(self, results: list[FetchableTopicResponse]) -> None:
        self.leave()
        hints = self._hints(results)
        news = []
        for topic in results:
            told = tuple(data for data in topic.partitions if self._session.is_worth_telling(topic.topic_id, data))
            if told:
                news.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=told))
        response = FetchResponse(responses=tuple(news), node_endpoints=hints, session_id=self._session.session_id)
        _send(response, self._context, self._reply)

    def leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._waiting = False
            if self._session.on_wake == self.wake:
                # The follower may have come again, on another connection, before this one was seen to be gone.
                self._session.on_wake = None


def _must_be_told(data: PartitionData) -> bool:
    """Whether an answer has something to say besides records, which does not wait for them."""
    return bool(data.error_code) or data.diverging_epoch.epoch >= 0 or data.preferred_read_replica != NO_BROKER
