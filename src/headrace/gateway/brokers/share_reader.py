"""A member of a share group on an event loop: takes records of a topic, keeps their locks while they are worked on, and says what
became of each (KIP-932).

There is a session with every broker that leads a partition of the member's; a session is one request at a time, which asks for
records and brings word of others.  What a session that broke had yet to say is lost, and those records come again.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.client.admin.wire_admin import raise_for
from headrace.client.brokers.cluster import AGAIN_S, COORDINATOR_MOVED, MOVED
from headrace.client.errors import BrokerTimeout, HeadraceError
from headrace.gateway.brokers.tails import Shown
from headrace.gateway.serving.tasks import Tasks
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.records.compression import CompressionError
from headrace.records.header import BatchError, iterate_fetched_batches
from headrace.records.record import Record, read_records
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from headrace.wire.messages.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from headrace.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

if TYPE_CHECKING:
    from uuid import UUID

    from headrace.client.brokers.cluster import Cluster
    from headrace.client.brokers.connection import Connection

logger = logging.getLogger(__name__)

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
LEAVE: Final = -1
WAIT_MS: Final = 500
BYTES_MAX: Final = 1024 * 1024
LOCK_S: Final = 30.0  # before a broker has said it
RENEWS_FROM: Final = 2
RENEWED_AT: Final = 1 / 3  # of a lock's time
BROKEN: Final = frozenset({ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH})
REJOIN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class Taken(NamedTuple):
    """A record that is this member's for now, and how often it was delivered."""

    shown: Shown
    deliveries: int


class Session:
    """With one broker: which partitions it knows of, what is held from there, and what is yet to be said."""

    def __init__(self) -> None:
        self.epoch = 0
        self.partitions: set[int] = set()
        self.held: set[tuple[int, int]] = set()
        self.words: list[tuple[int, int, int]] = []  # partition, offset, what became of it
        self.renewed_at = asyncio.get_running_loop().time()

    def restart(self) -> None:
        self.epoch, self.partitions, self.words = 0, set(), []
        self.held.clear()


class ShareReader:
    """`taken` has what came; `settle` says what became of it."""

    def __init__(self, cluster: Cluster, group: str, topic: str, held_max: int) -> None:
        self._cluster = cluster
        self._group = group
        self._topic = topic
        self._held_max = held_max
        self._tasks = Tasks()
        self._member = str(uuid.uuid4())
        self._purpose = f"share {self._member}"
        self._member_epoch = 0
        self._topic_id: UUID = uuid.UUID(int=0)
        self._assigned: frozenset[int] = frozenset()
        self._sessions: dict[int, Session] = {}
        self._lock_s = LOCK_S
        self._changed = asyncio.Event()
        self.taken: asyncio.Queue[Taken] = asyncio.Queue()

    async def run(self) -> None:
        """For as long as it is let; raises what brokers refuse."""
        self._topic_id = await self._id_of_topic()
        running = [self._tasks.spawn(self._beat(), "be in a share group")]
        try:
            while True:
                for broker in {await self._cluster.leader(TopicPartition(self._topic, each)) for each in self._assigned}:
                    if broker not in self._sessions:
                        self._sessions[broker] = Session()
                        running.append(self._tasks.spawn(self._ask(broker), f"take records from broker {broker}"))
                self._changed.clear()
                waiting = self._tasks.spawn(self._changed.wait(), "wait for an assignment")
                done, _ = await asyncio.wait([*running, waiting], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                for task in done - {waiting}:
                    task.result()
                    running.remove(task)
        finally:
            await self._tasks.close()
            await self._leave()
            self._cluster.part_with(self._purpose)

    def settle(self, taken: Taken, how: int) -> None:
        """Say what became of a record; it is told with the next request to its broker."""
        place = (taken.shown.place.partition, taken.shown.record.offset)
        for session in self._sessions.values():
            if place in session.held:
                session.held.discard(place)
                session.words.append((*place, how))

    async def _id_of_topic(self) -> UUID:
        request = MetadataRequest(topics=(MetadataRequestTopic(name=self._topic),), allow_auto_topic_creation=False)
        (found,) = (await self._cluster.call(request)).topics
        raise_for(found.error_code, f"topic '{self._topic}'")
        topic_id: UUID = found.topic_id
        return topic_id

    # Membership

    async def _beat(self) -> None:
        while True:
            request = ShareGroupHeartbeatRequest(
                group_id=self._group,
                member_id=self._member,
                member_epoch=self._member_epoch,
                subscribed_topic_names=(self._topic,) if self._member_epoch == 0 else None,
            )
            try:
                reply = await self._cluster.call_coordinator(self._group, request)
            except BrokerTimeout:
                await asyncio.sleep(AGAIN_S)
                continue
            await asyncio.sleep(self._heard(reply))

    def _heard(self, reply: Any) -> float:
        """How long to wait before the next word."""
        if reply.error_code in COORDINATOR_MOVED:
            self._cluster.forget_coordinator(self._group)
            return AGAIN_S
        if reply.error_code in REJOIN:
            self._member_epoch = 0
            return AGAIN_S
        raise_for(reply.error_code, f"queue '{self._group}'", reply.error_message)
        self._member_epoch = reply.member_epoch
        if reply.assignment is not None:
            self._assigned = frozenset(index for topic in reply.assignment.topic_partitions for index in topic.partitions)
            self._changed.set()
        return float(reply.heartbeat_interval_ms) / 1000

    async def _leave(self) -> None:
        """Give back what is held, and go; others get it at once."""
        goodbye = ShareGroupHeartbeatRequest(group_id=self._group, member_id=self._member, member_epoch=LEAVE)
        try:
            async with asyncio.timeout(3):
                for broker, session in self._sessions.items():
                    session.words += [(*place, RELEASE) for place in session.held]
                    session.held.clear()
                    if session.epoch and session.words:
                        await self._say(broker, session)
                await self._cluster.call_coordinator(self._group, goodbye)
        except (HeadraceError, TimeoutError):
            pass  # locks and sessions end by themselves

    # Sessions

    async def _ask(self, broker: int) -> None:
        """Take, and tell, for as long as the broker leads anything of ours."""
        session = self._sessions[broker]
        try:
            while wanted := await self._led_by(broker):
                try:
                    await self._turn(broker, session, wanted)
                except BrokerTimeout:
                    session.restart()
                    self._cluster.forget(self._topic)
                    await asyncio.sleep(AGAIN_S)
        finally:
            self._sessions.pop(broker, None)
            self._changed.set()

    async def _led_by(self, broker: int) -> set[int]:
        try:
            leaders = await self._cluster.leaders(self._topic)
        except BrokerTimeout:
            return set(self._sessions[broker].partitions) or {0}
        return {each for each in self._assigned if leaders.get(each) == broker}

    async def _turn(self, broker: int, session: Session, wanted: set[int]) -> None:
        loop = asyncio.get_running_loop()
        if session.epoch and session.held and loop.time() - session.renewed_at > self._lock_s * RENEWED_AT:
            await self._renew(broker, session)
        elif (room := self._room()) > 0:
            await self._fetch(broker, session, wanted, room)
        elif session.words:
            await self._say(broker, session)
        else:
            await asyncio.sleep(AGAIN_S)

    def _room(self) -> int:
        return self._held_max - sum(len(session.held) for session in self._sessions.values())

    async def _connection(self, broker: int) -> Connection:
        return await self._cluster.connection(await self._cluster.endpoint_of(broker), self._purpose)

    async def _call(self, broker: int, request: Any) -> Any:
        return await (await self._connection(broker)).call(request)

    async def _fetch(self, broker: int, session: Session, wanted: set[int], room: int) -> None:
        words, session.words = (session.words, []) if session.epoch else ([], session.words)
        told = _batches(words)
        asked = sorted({*(wanted - session.partitions), *told})
        gone = session.partitions - wanted - told.keys()
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._member,
            share_session_epoch=session.epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=BYTES_MAX,
            max_records=room,
            batch_size=room,
            topics=self._topics(FetchTopic, FetchPartition, {each: told.get(each, ()) for each in asked}),
            forgotten_topics_data=(ForgottenTopic(topic_id=self._topic_id, partitions=tuple(sorted(gone))),) if gone else (),
        )
        reply = await self._call(broker, request)
        if not self._goes_on(session, reply):
            return
        session.partitions = (session.partitions | wanted) - gone
        self._lock_s = reply.acquisition_lock_timeout_ms / 1000 or self._lock_s
        for topic in reply.responses:
            for data in topic.partitions:
                self._take(session, data)

    def _take(self, session: Session, data: Any) -> None:
        if data.error_code in MOVED:
            self._cluster.forget(self._topic)
            session.partitions.discard(data.partition_index)
            return
        raise_for(data.error_code, f"partition {data.partition_index} of topic '{self._topic}'", data.error_message)
        if not data.acquired_records:
            return
        place = TopicPartition(self._topic, data.partition_index)
        records, unreadable = _records(data.records)
        if unreadable:
            logger.warning(
                "%s: %d records from offset %d on are rejected, as nobody can read them", place, len(unreadable), min(unreadable)
            )
        if not session.held:
            session.renewed_at = asyncio.get_running_loop().time()
        for each in data.acquired_records:
            for offset in range(each.first_offset, each.last_offset + 1):
                if (record := records.get(offset)) is None:
                    session.words.append((data.partition_index, offset, REJECT if offset in unreadable else GAP))
                    continue
                session.held.add((data.partition_index, offset))
                self.taken.put_nowait(Taken(Shown(place, record), each.delivery_count))

    async def _renew(self, broker: int, session: Session) -> None:
        session.renewed_at = asyncio.get_running_loop().time()
        connection = await self._connection(broker)
        if connection.version_of(ShareAcknowledgeRequest) >= RENEWS_FROM:  # older brokers give the record to somebody else
            await self._say(broker, session, [(*place, RENEW) for place in session.held])

    async def _say(self, broker: int, session: Session, more: Iterable[tuple[int, int, int]] = ()) -> None:
        words, session.words = [*session.words, *more], []
        request = ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._member,
            share_session_epoch=session.epoch,
            is_renew_ack=bool(more),
            topics=self._topics(AcknowledgeTopic, AcknowledgePartition, _batches(words)),
        )
        self._goes_on(session, await self._call(broker, request))

    def _goes_on(self, session: Session, reply: Any) -> bool:
        if reply.error_code in BROKEN:
            session.restart()
            return False
        raise_for(reply.error_code, f"queue '{self._group}'", reply.error_message)
        session.epoch = session.epoch % (2**31 - 1) + 1
        return True

    def _topics(self, topic: Any, partition: Any, told: dict[int, Any]) -> tuple[Any, ...]:
        partitions = tuple(partition(partition_index=each, acknowledgement_batches=words) for each, words in told.items())
        return (topic(topic_id=self._topic_id, partitions=partitions),) if partitions else ()


def _batches(words: Iterable[tuple[int, int, int]]) -> dict[int, tuple[AcknowledgementBatch, ...]]:
    """By partition, in order; a range for each run of offsets of which the same is said."""
    found: dict[int, list[list[int]]] = {}
    for partition, offset, how in sorted(words):
        runs = found.setdefault(partition, [])
        if runs and runs[-1][1] == offset - 1 and runs[-1][2] == how:
            runs[-1][1] = offset
        elif not runs or runs[-1][1] < offset:
            runs.append([offset, offset, how])
    return {
        partition: tuple(
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=(how,)) for first, last, how in runs
        )
        for partition, runs in found.items()
    }


def _records(raw: Any) -> tuple[dict[int, Record], set[int]]:
    """Records by their offsets, and the offsets of those that no reader can make sense of."""
    buffer = memoryview(raw or b"")
    found: dict[int, Record] = {}
    unreadable: set[int] = set()
    for header, at in iterate_fetched_batches(buffer):
        if header.is_control:
            continue
        try:
            found |= {record.offset: record for record in read_records(buffer[at : at + header.size])}
        except (BatchError, CompressionError):
            unreadable.update(range(header.base_offset, header.next_offset))
    return found, unreadable
