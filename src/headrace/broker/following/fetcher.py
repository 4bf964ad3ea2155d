"""Followers: one task for each leader that this broker follows, fetching all their common partitions in one request.

What to do with an answer is decided in `replication.follower`.  With flush mode `ack` the next fetch, which tells the leader
how far this replica has got, waits until everything appended is flushed: what a leader counts, a crash cannot take back.  The
same holds for where this replica's log begins.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from headrace.broker.cluster.peers import Peers, PeerUnreachable
from headrace.broker.following.throttle import ReplicationThrottle
from headrace.broker.housekeeping.file_removal import FileRemoval
from headrace.broker.partitions.cutting import LogCutter
from headrace.broker.partitions.log_starts import LogStarts
from headrace.broker.partitions.partition import Partition
from headrace.broker.supervision.supervision import Rule, Scope
from headrace.controller.image import CurrentImage
from headrace.declaring import dataclass
from headrace.log.interface import PartitionLog
from headrace.log.log import Log
from headrace.metadata.membership import BrokerMembership
from headrace.metrics.log_lines import REQUEST_LOG
from headrace.model.errors import ErrorCode, NoRoom, RequestError, StorageError
from headrace.model.identity import NO_BROKER, TopicPartition
from headrace.model.live_config import LiveConfig
from headrace.replication.follower import (
    EpochEnd,
    FetchAnswer,
    Next,
    Step,
    after_out_of_range,
    next_step,
    watermark_after,
)
from headrace.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from headrace.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

logger = logging.getLogger(__name__)
request_log = logging.getLogger(REQUEST_LOG)

FETCH_VERSION = 17
LIST_OFFSETS_VERSION = 7
LATEST, EARLIEST = -1, -2
PURPOSE = "replication"
ANSWER_SLACK_S = 5.0
THROTTLE_PAUSE_S = 0.05
ASIDE_SECONDS_MAX = 300.0
NAMED_MAX = 500  # in one request, so that ten thousand new partitions are not one long silence, here and at the leader
EPOCH_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What it takes to follow: how this broker reaches leaders, and what it does with what they answer."""

    broker_id: int
    membership: BrokerMembership
    image: CurrentImage
    config: LiveConfig
    peers: Peers
    throttle: ReplicationThrottle
    cutter: LogCutter
    removal: FileRemoval
    log_starts: LogStarts
    # Called with a partition that cannot keep up, as the disk is full.
    step_back: Callable[[Partition], None]
    # The event loop's time.
    now: Callable[[], float]
    scope: Scope


class ReplicaFetchers:
    """Gives each follower on this broker to the fetcher of its leader."""

    def __init__(self, following: Following) -> None:
        self._following = following
        self._fetchers: dict[int, Fetcher] = {}
        self._leader_of: dict[TopicPartition, int] = {}

    def on_role(self, partition: Partition) -> None:
        """A partition's role may have changed: fetch it from its leader, or from nobody."""
        leader = partition.state.leader
        if partition.is_leader or leader in (NO_BROKER, self._following.broker_id) or partition.failure is not None:
            self.on_removed(partition)
            return
        before = self._leader_of.get(partition.identity)
        if before is not None and before != leader:
            self._fetchers[before].remove(partition)
        self._leader_of[partition.identity] = leader
        if leader not in self._fetchers:
            self._fetchers[leader] = Fetcher(self._following, leader)
        self._fetchers[leader].add(partition)

    def on_removed(self, partition: Partition) -> None:
        leader = self._leader_of.pop(partition.identity, None)
        if leader is not None:
            self._fetchers[leader].remove(partition)


class Fetcher:
    """Follows one leader, in a fetch session: each request names only what has changed since the one before."""

    def __init__(self, following: Following, leader: int) -> None:
        self._following = following
        self._throttle = following.throttle
        self._leader = leader
        self._partitions: dict[TopicPartition, Partition] = {}
        self._not_before: dict[TopicPartition, float] = {}
        # Not yet known to the session as they are now: new, grown, cut, or led in another epoch.
        self._touched: dict[TopicPartition, None] = {}
        # Their logs begin elsewhere since the last fetch, and the leader does not know it yet.
        self._moved_starts: dict[Partition, None] = {}
        self._session = _Session(following.membership.epoch)
        self._changed = asyncio.Event()
        # By what the leader knows the request that is being taken in, while requests are logged.
        self._asked_in = ""
        following.scope.start("follow broker", self._run, Rule.RESTART, subject=str(leader))

    def add(self, partition: Partition) -> None:
        self._partitions[partition.identity] = partition
        self._not_before.pop(partition.identity, None)
        self._touched[partition.identity] = None
        self._changed.set()

    def remove(self, partition: Partition) -> None:
        self._partitions.pop(partition.identity, None)
        self._not_before.pop(partition.identity, None)
        self._touched.pop(partition.identity, None)
        self._session.drop(partition.identity)

    @property
    def _back_off_s(self) -> float:
        seconds: float = self._following.config.now["replica.fetch.backoff.ms"] / 1000
        return seconds

    async def _run(self) -> None:
        failures = 0
        self._start_session()
        while True:
            try:
                await self._fetch_once()
                failures = 0
            except PeerUnreachable as error:
                failures += 1
                # Once for each time it goes away, not once for each attempt.
                logger.log(logging.INFO if failures == 1 else logging.DEBUG, "cannot follow broker %d: %s", self._leader, error)
                self._start_session()
                await asyncio.sleep(self._back_off_s)

    async def _fetch_once(self) -> None:
        if self._session.broker_epoch != self._following.membership.epoch:
            self._start_session()  # the leader knows us in another life
        named = self._to_name()
        if not named and not self._session:
            await self._wait_for_work()
            return
        # With more to say, there is nothing to wait for yet.
        wait_ms: int = 0 if self._touched else self._following.config.now["replica.fetch.wait.max.ms"]
        request = self._request(named, wait_ms)
        self._session.name(named)
        response: FetchResponse = await self._following.peers.call(
            self._leader, request, FETCH_VERSION, timeout=wait_ms / 1000 + ANSWER_SLACK_S, purpose=PURPOSE
        )
        if response.error_code in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
            self._start_session()
            return
        if response.error_code != ErrorCode.NONE:
            raise PeerUnreachable(f"broker {self._leader} answers {ErrorCode(response.error_code).name}")
        self._session.on_answer(response.session_id)
        if request_log.isEnabledFor(logging.DEBUG):
            self._asked_in = self._following.peers.last_request(self._leader, PURPOSE)
        appended = await self._take_all(response, self._session.named)
        await asyncio.gather(_flushed(appended), self._write_log_starts())
        if response.session_id == 0:
            self._start_session()  # a leader that keeps none is told everything each time

    def _start_session(self) -> None:
        self._session = _Session(self._following.membership.epoch)
        self._touched = dict.fromkeys(self._partitions)

    def _to_name(self) -> list[Partition]:
        """What the next request says anew; what may not be fetched for now leaves the session."""
        now = self._following.now()
        for identity in [identity for identity, moment in self._not_before.items() if moment <= now]:
            del self._not_before[identity]
            self._touched[identity] = None
        named = []
        touched = list(islice(self._touched, NAMED_MAX))
        for identity in touched:
            del self._touched[identity]
            partition = self._partitions[identity]
            if partition.failure is not None or partition.is_leader or identity in self._not_before:
                self._session.drop(identity)
            elif self._throttle.holds_back(partition, self._following.broker_id):
                self._session.drop(identity)
                self._not_before[identity] = now + THROTTLE_PAUSE_S
            else:
                named.append(partition)
        return named

    async def _wait_for_work(self) -> None:
        self._changed.clear()
        pause = min(self._back_off_s, THROTTLE_PAUSE_S) if self._not_before else self._back_off_s
        try:
            async with asyncio.timeout(pause if self._partitions else None):
                await self._changed.wait()
        except TimeoutError:
            return

    def _request(self, named: Iterable[Partition], wait_ms: int) -> FetchRequest:
        config = self._following.config.now
        by_topic: dict[UUID, list[FetchPartition]] = {}
        for partition in named:
            by_topic.setdefault(partition.topic_id, []).append(self._wanted(partition, config["replica.fetch.max.bytes"]))
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self._following.broker_id, replica_epoch=self._following.membership.epoch),
            max_wait_ms=wait_ms,
            min_bytes=config["replica.fetch.min.bytes"],
            max_bytes=config["replica.fetch.response.max.bytes"],
            session_id=self._session.session_id,
            session_epoch=self._session.epoch,
            topics=tuple(FetchTopic(topic_id=topic_id, partitions=tuple(wanted)) for topic_id, wanted in by_topic.items()),
            forgotten_topics_data=self._session.forgotten(named),
        )

    def _wanted(self, partition: Partition, max_bytes: int) -> FetchPartition:
        log = partition.log
        return FetchPartition(
            partition=partition.identity.partition,
            current_leader_epoch=partition.leader_epoch,
            fetch_offset=log.end_offset,
            last_fetched_epoch=_epoch_of_last_record(log),
            log_start_offset=partition.durable_start,
            partition_max_bytes=max_bytes,
        )

    async def _take_all(self, response: FetchResponse, named: "Mapping[TopicPartition, _Named]") -> list[Partition]:
        """Act on each partition's part; answer those that have grown."""
        grown = []
        for topic in response.responses:
            known = self._following.image().topics_by_id.get(topic.topic_id)
            if known is None:
                continue
            for data in topic.partitions:
                identity = TopicPartition(known.name, data.partition_index)
                partition, asked = self._partitions.get(identity), named.get(identity)
                if partition is None or asked is None or not self._still_follows(partition, asked.leader_epoch):
                    continue
                if partition.log.end_offset != asked.offset:
                    # It was cut while this was under way, or has grown since it was named: what came does not follow what it has.
                    self._touch(partition)
                    continue
                try:
                    if await self._take(partition, data):
                        grown.append(partition)
                except NoRoom as error:
                    partition.on_storage_failure(error)
                    self._back_off(partition)
                    self._following.step_back(partition)
                except StorageError as error:
                    partition.on_storage_failure(error)
                except RequestError as error:
                    logger.error("%s: the leader's records do not fit: %s", partition.identity, error)
                    self._back_off(partition)
        return grown

    def _still_follows(self, partition: Partition, epoch: int) -> bool:
        """Whether the answer still concerns us: the role may have changed while it was under way."""
        mine = self._partitions.get(partition.identity) is partition
        return mine and not partition.is_leader and partition.leader_epoch == epoch and partition.failure is None

    async def _take(self, partition: Partition, data: PartitionData) -> bool:
        log = partition.log
        answer = _answer_of(data)
        step = next_step(answer, log.epochs, log.start_offset, log.end_offset)
        if step.next is Next.START_OVER:
            epoch = partition.leader_epoch
            step = await self._out_of_range(partition)
            if not self._still_follows(partition, epoch):
                return False
        match step.next:
            case Next.APPEND:
                return self._append(partition, data)
            case Next.TRUNCATE:
                self._touch(partition)
                await self._truncate(partition, step.offset)
            case Next.START_OVER:
                self._touch(partition)
                await self._start_over(partition, step.offset)
            case Next.GO_ON_BEHIND_REMOTE:
                # An object store takes its time, which is not that of the other partitions.
                self._not_before[partition.identity] = self._following.now() + ASIDE_SECONDS_MAX
                self._touch(partition)
                self._following.scope.spawn("go on behind remote part", self._go_on_behind_remote(partition))
            case _:
                logger.debug("%s: broker %d answers %s", partition.identity, self._leader, answer.error.name)
                self._back_off(partition)
        return False

    def _append(self, partition: Partition, data: PartitionData) -> bool:
        log = partition.log
        grown = bool(data.records)
        refused: NoRoom | None = None
        if data.records:
            self._touch(partition)
            assert not isinstance(data.records, list), "records of a reply that was read are one buffer"
            first = log.end_offset
            try:
                partition.append_as_follower(data.records)
                if request_log.isEnabledFor(logging.DEBUG):
                    self._log_written(partition, first)
                self._throttle.on_bytes(partition, self._following.broker_id, len(data.records))
                partition.after_append()
            except NoRoom as error:
                refused, grown = error, False
        # First what the leader has not any more: it may differ here, and must not lie below a high watermark.
        start = min(data.log_start_offset, watermark_after(data.high_watermark, log.end_offset, partition.high_watermark))
        if start > log.start_offset:
            self._following.removal.unlink_soon(log.delete_before(start))
        # Also where retention was here first, which writes nothing down.
        if min(data.log_start_offset, log.start_offset) > partition.durable_start:
            self._moved_starts[partition] = None
        partition.follow_high_watermark(data.high_watermark)
        if refused is not None:
            # What the leader deleted may make the room, so that much is taken all the same.
            raise refused
        return grown

    def _log_written(self, partition: Partition, first: int) -> None:
        place, last = partition.identity, partition.log.end_offset - 1
        request_log.debug(
            "wrote %s-%d from %d to %d, read from broker %d by request %s",
            *(place.topic, place.partition, first, last, self._leader, self._asked_in),
        )

    async def _truncate(self, partition: Partition, offset: int) -> None:
        log = partition.log
        if offset < log.end_offset:
            logger.info("%s: gives up [%d, %d), which its leader does not have", partition.identity, offset, log.end_offset)
            await self._following.cutter.truncate_to(partition, offset, self._while_followed(partition))
        else:
            # Nothing to cut and yet not a prefix: only a leader that is confused answers so.
            self._back_off(partition)

    async def _start_over(self, partition: Partition, offset: int) -> None:
        logger.info("%s: starts over at offset %d, where its leader's log begins", partition.identity, offset)
        if await self._following.cutter.start_over_at(partition, offset, self._while_followed(partition)):
            self._moved_starts[partition] = None

    async def _go_on_behind_remote(self, partition: Partition) -> None:
        """What the leader has no more on its disk stays in the object store: this log begins behind it (KIP-1023)."""
        is_wanted = self._while_followed(partition)
        try:
            beginning = await partition.remote.beginning() if partition.remote is not None else None
            log = partition.log
            if beginning is None or not isinstance(log, Log) or beginning.offset <= log.end_offset or not is_wanted():
                return
            logger.info("%s: goes on at offset %d, behind what is in the object store", partition.identity, beginning.offset)
            if await self._following.cutter.start_over_at(partition, beginning.offset, is_wanted):
                log.continue_remote(beginning.epochs, beginning.producers)
                self._moved_starts[partition] = None
        except StorageError as error:
            partition.on_storage_failure(error)
        finally:
            if is_wanted():
                self._back_off(partition)

    def _while_followed(self, partition: Partition) -> Callable[[], bool]:
        epoch = partition.leader_epoch
        return lambda: self._still_follows(partition, epoch)

    async def _write_log_starts(self) -> None:
        """The leader is told of a log start only once no crash can take it back."""
        moved, self._moved_starts = self._moved_starts, {}
        if not moved:
            return
        try:
            await self._following.log_starts.write(moved)
        except StorageError as error:
            logger.error("new log starts are not told to broker %d yet: %s", self._leader, error)
            self._moved_starts = moved | self._moved_starts
            return
        for partition in moved:
            self._touch(partition)

    async def _out_of_range(self, partition: Partition) -> Step:
        end = await self._leader_offset(partition, LATEST)
        start = await self._leader_offset(partition, EARLIEST)
        if end < 0 or start < 0:
            return Step(Next.BACK_OFF)
        return after_out_of_range(partition.log.end_offset, start, end)

    async def _leader_offset(self, partition: Partition, which: int) -> int:
        wanted = ListOffsetsPartition(
            partition_index=partition.identity.partition, current_leader_epoch=partition.leader_epoch, timestamp=which
        )
        request = ListOffsetsRequest(
            replica_id=self._following.broker_id, topics=(ListOffsetsTopic(name=partition.identity.topic, partitions=(wanted,)),)
        )
        response: ListOffsetsResponse = await self._following.peers.call(
            self._leader, request, LIST_OFFSETS_VERSION, timeout=ANSWER_SLACK_S, purpose=PURPOSE
        )
        answer = response.topics[0].partitions[0]
        return answer.offset if answer.error_code == ErrorCode.NONE else -1

    def _touch(self, partition: Partition) -> None:
        if partition.identity in self._partitions:
            self._touched[partition.identity] = None

    def _back_off(self, partition: Partition) -> None:
        if partition.identity in self._partitions:
            self._not_before[partition.identity] = self._following.now() + self._back_off_s
            self._touched[partition.identity] = None


class _Named(NamedTuple):
    """What the leader was last told of a partition: it sends what follows this offset."""

    topic_id: UUID
    leader_epoch: int
    offset: int


class _Session:
    """What the leader was told (KIP-227).  A request that goes unanswered ends it: nobody knows what the leader heard."""

    def __init__(self, broker_epoch: int) -> None:
        self.broker_epoch = broker_epoch
        self.session_id = 0
        self.epoch = 0
        self.named: dict[TopicPartition, _Named] = {}
        self._leaving: dict[tuple[UUID, int], None] = {}

    def __len__(self) -> int:
        return len(self.named)

    def name(self, partitions: Iterable[Partition]) -> None:
        """These are named, and with them whatever was to be forgotten."""
        for partition in partitions:
            self.named[partition.identity] = _Named(partition.topic_id, partition.leader_epoch, partition.log.end_offset)
        self._leaving = {}

    def drop(self, identity: TopicPartition) -> None:
        if (named := self.named.pop(identity, None)) is not None:
            self._leaving[named.topic_id, identity.partition] = None

    def forgotten(self, named: Iterable[Partition]) -> tuple[ForgottenTopic, ...]:
        """What the leader should forget: all that left, unless it comes back in the same request."""
        back = {(partition.topic_id, partition.identity.partition) for partition in named}
        by_topic: dict[UUID, list[int]] = {}
        for topic_id, index in self._leaving:
            if (topic_id, index) not in back:
                by_topic.setdefault(topic_id, []).append(index)
        return tuple(ForgottenTopic(topic_id=topic_id, partitions=tuple(indexes)) for topic_id, indexes in by_topic.items())

    def on_answer(self, session_id: int) -> None:
        self.session_id = session_id
        self.epoch = self.epoch % EPOCH_MAX + 1


def _epoch_of_last_record(log: PartitionLog) -> int:
    # An epoch in which this broker led and wrote nothing is known to the log, but to nobody else.
    return log.epochs.epoch_at(log.end_offset - 1) if log.end_offset > log.start_offset else -1


def _answer_of(data: PartitionData) -> FetchAnswer:
    diverging = data.diverging_epoch
    return FetchAnswer(
        error=ErrorCode(data.error_code),
        high_watermark=data.high_watermark,
        diverging=EpochEnd(diverging.epoch, diverging.end_offset) if diverging.epoch >= 0 else None,
    )


async def _flushed(partitions: list[Partition]) -> None:
    """Return when everything these replicas have is as durable as their topics ask."""
    waiting: list[asyncio.Future[ErrorCode]] = []
    for partition in partitions:
        if partition.is_retired or partition.failure is not None:
            continue  # since it has grown: nobody is told of its flushes any more
        if partition.config.flush != "ack" or partition.log.flushed_offset >= partition.log.end_offset:
            continue
        outcome: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        partition.flushed.wait(partition.log.end_offset, lambda code, outcome=outcome: _settle(outcome, code))  # type: ignore[misc]
        waiting.append(outcome)
    if waiting:
        await asyncio.wait(waiting)


def _settle(outcome: "asyncio.Future[ErrorCode]", code: ErrorCode) -> None:
    if not outcome.done():
        outcome.set_result(code)
