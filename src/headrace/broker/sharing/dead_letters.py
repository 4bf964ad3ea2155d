"""Records that a share group gave up, written to the group's dead-letter topic before they count as done (KIP-1191).

The letter comes first, the state of the record second.  What a broker that died has left in between is found in the dead-letter
topic when the share-partition is loaded, and counts as done then.  So there is one letter for each record, and a record that has
one is delivered to nobody.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from headrace.broker.cluster.peers import Peers, PeerUnreachable
from headrace.broker.coordinators.partition_log import wait_for_high_watermark
from headrace.broker.coordinators.writing import in_batches
from headrace.broker.metrics.figures import ShareFigures
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.reading import is_warm, warm_up
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.sharing.ends import PartitionEnds
from headrace.controller.image import CurrentImage, Topic
from headrace.coordination.share.delivery import RecordState, StateBatch
from headrace.coordination.share.entries import ShareKey
from headrace.coordination.share.partition import GivenUp
from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.log.interface import Origin
from headrace.model.errors import ErrorCode, RequestError, StorageError
from headrace.model.identity import TopicPartition
from headrace.records.batch import build_batch, iterate_batches
from headrace.records.record import Headers, Record, read_records
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

logger = logging.getLogger(__name__)

ENABLED = "errors.deadletterqueue.group.enable"
# Kafka's names of headers, and those of the SDK's dead letters, by which `headrace dead-letter` reads both.
KAFKA_PREFIX = "__dlq.errors."
PREFIX = "headrace-dead-letter-"
STATE_EPOCH = f"{PREFIX}state-epoch"
TOPIC_ID = f"{PREFIX}topic-id"
# How many letters before the end are looked through for those of a broker that died: nobody else writes as many meanwhile.
LETTERS_BACK = 10_000
READ_BYTES = 1 << 20
PRODUCE_VERSION, FETCH_VERSION = 9, 12
REMOTE_S = 10.0
PURPOSE = "dead letters"
TRUNCATED = f"{PREFIX}truncated"
TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
REASONS = {"rejected": "Offset rejected by client.", "attempts": "Offset delivery count exceeded the threshold."}


class Burial(NamedTuple):
    """Where a group's dead letters go, and how they are written."""

    topic: str
    copies_record: bool
    delivery_count_limit: int


class Grave(NamedTuple):
    """Of what they are: a share-partition since its offsets were last moved by hand, which makes all of it new again."""

    key: ShareKey
    origin: TopicPartition
    state_epoch: int


class Known(NamedTuple):
    """What is known of records beside their state: why they were rejected, and when they were first delivered, on a clock that
    shows `now`."""

    reasons: Mapping[int, str]
    given_up: Sequence[GivenUp]
    now: float

    def age_ms(self, offset: int) -> int | None:
        """How long ago it was first delivered; None where a leader before this one did that."""
        found = next((each.first_at for each in self.given_up if each.first <= offset < each.end), 0.0)
        return round((self.now - found) * 1000) if found else None


class DeadLetters:
    """Of all groups, for the partitions that this broker leads."""

    def __init__(
        self,
        broker_id: int,
        replicas: Replicas,
        image: CurrentImage,
        peers: Peers,
        ends: PartitionEnds,
        clock: Clock,
        disk: Disk,
        figures: ShareFigures,
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._image = image
        self._peers = peers
        self._ends = ends
        self._clock = clock
        self._disk = disk
        self._figures = figures

    # --- writing ----------------------------------------------------------------------------------------------------------

    async def write(self, grave: Grave, origin: Partition, burial: Burial, given_up: Sequence[StateBatch], known: Known) -> None:
        """Return when the letters are committed.  Raises RequestError where they are not, as far as is known."""
        topic = self._topic(grave.key, burial)
        if topic is None:
            return
        for batch in given_up:
            if not is_warm(origin, batch.first):
                await warm_up(asyncio.get_running_loop(), self._disk, origin, batch.first, READ_BYTES)
        letters = [
            self._letter(grave, burial, record, batch.delivery_count, known)
            for batch in given_up
            for record in _records(origin, batch.first, batch.end)
        ]
        target = TopicPartition(topic.name, grave.key.partition % topic.partition_count)
        numbered = [letter._replace(offset=position) for position, letter in enumerate(letters)]
        for written in in_batches(numbered, None) if numbered else ():
            try:
                await self._append(target, written)
            except RequestError as error:
                if error.code not in TOO_LARGE:
                    raise
                await self._append_singly(target, read_records(written))

    async def _append_singly(self, target: TopicPartition, letters: Sequence[Record]) -> None:
        """One that its topic does not take as it is goes without the record; to try again would change nothing."""
        for letter in letters:
            told = tuple(each for each in letter.headers if each[0].startswith((KAFKA_PREFIX, PREFIX)))
            bare = Record(0, letter.timestamp, None, None, (*told, (TRUNCATED, b"true")))
            for form in (letter._replace(offset=0), bare):
                try:
                    await self._append(target, build_batch([form]))
                    break
                except RequestError as error:
                    if error.code not in TOO_LARGE:
                        raise
            else:
                self._figures.letters_lost += 1
                logger.error("a dead letter is lost, as %s takes none of its size: %s", target, dict(told))

    def _topic(self, key: ShareKey, burial: Burial) -> Topic | None:
        topic = self._image().topics.get(burial.topic)
        if topic is None or topic.configs.get(ENABLED) != "true":
            why = "does not exist" if topic is None else f"does not have {ENABLED}=true"
            logger.warning("share group %s: records are given up without a letter, as %s %s", key.group_id, burial.topic, why)
            return None
        return topic

    def _letter(self, grave: Grave, burial: Burial, record: Record, attempts: int, known: Known) -> Record:
        key, origin, state_epoch = grave
        now_ms = self._clock.wall_ms()
        given, age_ms = known.reasons.get(record.offset), known.age_ms(record.offset)
        cause = "rejected" if given is not None or attempts < burial.delivery_count_limit else "attempts"
        reason = given or REASONS[cause]
        told = {
            f"{KAFKA_PREFIX}topic": origin.topic,
            f"{KAFKA_PREFIX}partition": str(origin.partition),
            f"{KAFKA_PREFIX}offset": str(record.offset),
            f"{KAFKA_PREFIX}group": key.group_id,
            f"{KAFKA_PREFIX}delivery.count": str(attempts),
            f"{KAFKA_PREFIX}message": reason,
            STATE_EPOCH: str(state_epoch),
            TOPIC_ID: str(key.topic_id),
            f"{PREFIX}topic": origin.topic,
            f"{PREFIX}partition": str(origin.partition),
            f"{PREFIX}offset": str(record.offset),
            f"{PREFIX}timestamp": str(record.timestamp),
            f"{PREFIX}group": key.group_id,
            f"{PREFIX}cause": cause,
            f"{PREFIX}reason": reason,
            f"{PREFIX}attempts": str(attempts),
            f"{PREFIX}last-failed-at": _moment(now_ms),
        }
        if age_ms is not None:
            told[f"{PREFIX}first-delivered-at"] = _moment(now_ms - age_ms)
        headers: Headers = tuple((name, text.encode()) for name, text in told.items())
        if not burial.copies_record:
            return Record(0, now_ms, None, None, headers)
        return Record(0, now_ms, record.key, record.value, (*record.headers, *headers))

    async def _append(self, target: TopicPartition, batch: bytes) -> None:
        leader = self._leader(target)
        try:
            if leader == self._broker_id:
                partition = self._replicas.find(target.topic, target.partition)
                partition.require_leader()
                partition.require_replicas()
                # The same as where another leads it, who takes this for a client's.
                if len(batch) > partition.log.config.max_message_bytes:
                    raise RequestError(ErrorCode.MESSAGE_TOO_LARGE)
                appended = partition.append(batch, Origin.COORDINATOR)
                await wait_for_high_watermark(partition, appended.last_offset + 1)
                return
            data = PartitionProduceData(index=target.partition, records=batch)
            topic = TopicProduceData(name=target.topic, partition_data=(data,))
            request = ProduceRequest(acks=-1, timeout_ms=int(REMOTE_S * 1000), topic_data=(topic,))
            reply = await self._peers.call(leader, request, PRODUCE_VERSION, timeout=REMOTE_S, purpose=PURPOSE)
            result = reply.responses[0].partition_responses[0]
            if result.error_code != ErrorCode.NONE:
                raise RequestError(ErrorCode(result.error_code), result.error_message or "")
        except (RequestError, StorageError, PeerUnreachable) as error:
            if isinstance(error, RequestError) and error.code in TOO_LARGE:
                raise
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{target} takes no dead letters: {error}") from error

    def _leader(self, target: TopicPartition) -> int:
        state = self._image().partition(target.topic, target.partition)
        if state is None or state.leader not in self._image().brokers:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{target} has no leader to take dead letters.")
        return state.leader

    # --- finding again ----------------------------------------------------------------------------------------------------

    async def found(self, grave: Grave, burial: Burial, start: int) -> tuple[StateBatch, ...]:
        """Records from the start on of which there are letters.  Raises RequestError where the letters cannot be read now."""
        topic = self._image().topics.get(burial.topic)
        if topic is None:
            return ()
        target = TopicPartition(topic.name, grave.key.partition % topic.partition_count)
        end = await self._ends.of(target.topic, target.partition)
        if end is None:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{target} cannot be read now.")
        buried: dict[int, int] = {}
        offset = max(0, end - LETTERS_BACK)
        while offset < end:
            data, offset = await self._read(target, offset, end)
            buried.update(_letters(data, grave))
        return tuple(
            StateBatch(each, each + 1, RecordState.ARCHIVED, attempts)
            for each, attempts in sorted(buried.items())
            if each >= start
        )

    async def _read(self, target: TopicPartition, offset: int, end: int) -> tuple[bytes, int]:
        """What lies there, and where to read on."""
        leader = self._leader(target)
        try:
            if leader == self._broker_id:
                log = self._replicas.find(target.topic, target.partition).log
                offset = max(offset, log.start_offset)
                if offset >= end:
                    return b"", end
                data = bytes(log.read(offset, max_bytes=READ_BYTES, up_to=end, at_least_one=True).data)
            else:
                wanted = FetchPartition(partition=target.partition, fetch_offset=offset, partition_max_bytes=READ_BYTES)
                topics = (FetchTopic(topic=target.topic, partitions=(wanted,)),)
                request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=READ_BYTES, topics=topics)
                reply = await self._peers.call(leader, request, FETCH_VERSION, timeout=REMOTE_S, purpose=PURPOSE)
                answer = reply.responses[0].partitions[0]
                if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and offset < answer.log_start_offset:
                    return b"", answer.log_start_offset
                if answer.error_code != ErrorCode.NONE:
                    raise RequestError(ErrorCode(answer.error_code))
                data = bytes(answer.records or b"")
        except (RequestError, StorageError, PeerUnreachable) as error:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{target} cannot be read now: {error}") from error
        return data, max((header.next_offset for header, _ in iterate_batches(data)), default=end)


def _moment(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _records(origin: Partition, first: int, end: int) -> Iterator[Record]:
    """Those that the log still has, read as consumers read them."""
    offset = max(first, origin.log.start_offset)
    while offset < end:
        data = bytes(origin.log.read(offset, max_bytes=READ_BYTES, up_to=origin.high_watermark, at_least_one=True).data)
        batches = list(iterate_batches(data))
        if not batches:
            return
        for header, batch in batches:
            if not header.is_control and header.base_offset < end:
                yield from (record for record in read_records(batch) if offset <= record.offset < end)
        offset = batches[-1][0].next_offset


def _letters(data: bytes, grave: Grave) -> Iterable[tuple[int, int]]:
    """The offsets of which letters tell, and after how many deliveries."""
    wanted = {
        TOPIC_ID: str(grave.key.topic_id).encode(),  # one of the same name that was made anew has other records
        f"{KAFKA_PREFIX}partition": str(grave.origin.partition).encode(),
        f"{KAFKA_PREFIX}group": grave.key.group_id.encode(),
        STATE_EPOCH: str(grave.state_epoch).encode(),
    }
    for header, batch in iterate_batches(data):
        for record in () if header.is_control else read_records(batch):
            told = dict(record.headers)
            if all(told.get(name) == value for name, value in wanted.items()):
                offset, attempts = told.get(f"{KAFKA_PREFIX}offset"), told.get(f"{KAFKA_PREFIX}delivery.count")
                if offset and attempts and offset.isdigit() and attempts.isdigit():
                    yield int(offset), int(attempts)
