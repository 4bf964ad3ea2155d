"""What a worker does with one broker: a share session on one connection, on which records are fetched and words are sent.

Requests of a session have numbers, and a broker that leads many of them takes them up in the order in which they were sent: so a
word need not wait until a fetch that waits for records is answered.  What fails ends the session with its connection, and the
broker frees at once what it had given out on it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from uuid import UUID

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Message

from headrace.client.admin.wire_admin import raise_for
from headrace.client.brokers.connection import Connection
from headrace.client.errors import BrokerError, BrokerTimeout
from headrace.client.logs import log
from headrace.client.queue.job import Stage, name_of, said_of
from headrace.client.queue.words import PartitionWords, Said, Word, by_partition
from headrace.model.errors import ErrorCode
from headrace.records.batch import iterate_batches
from headrace.records.compression import CompressionError
from headrace.records.header import TIMESTAMP_TYPE_BIT, BatchError, BatchHeader
from headrace.records.record import Record, read_records
from headrace.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from headrace.wire.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, PartitionData, ShareFetchRequest

if TYPE_CHECKING:
    from headrace.client.queue.job import Job

WAIT_MS: Final = 500
FETCH_BYTES: Final = 4 * 1024 * 1024
RECORD_LIMIT: Final = 1  # a fetch brings no more records than it asks for (KIP-1206)
OPEN, FINAL = 0, -1
EPOCH_MAX: Final = 2**31 - 1
# Words that are on their way at a time; what is said meanwhile goes together with the next.
WORDS_UNDER_WAY_MAX: Final = 8
AGAIN_S: Final = 0.2
MOVED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID})


class Arrival(NamedTuple):
    """A record, the number of its delivery, and why it cannot be read where that is so."""

    message: Message
    delivery: int
    unreadable: str


class Owner(Protocol):
    """The member of the group that the links are a member's."""

    group: str
    member_id: str
    topic_id: UUID
    is_at_work: threading.Event  # there is a broker to fetch from

    def room(self, link: BrokerLink) -> int:
        """How many more jobs there is somebody for."""

    def arrived(self, link: BrokerLink, records: Iterable[Arrival], deadline: float) -> None:
        """Records to work on until the deadline."""

    def moved(self) -> None:
        """A partition is led elsewhere, as far as somebody says."""

    def turn(self, job: Job[Any, Any], before: tuple[Stage, ...], after: Stage) -> bool:
        """Whether the job was at such a stage and is at the other now; safe from any thread."""

    def wake(self) -> None:
        """Have every link look what there is to do; safe from any thread."""

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]: ...


class BrokerLink:
    """Lives as long as the member, whether its partitions are led there just now or not."""

    def __init__(self, owner: Owner, broker: int, connect: Callable[[int], Coroutine[Any, Any, Connection]]) -> None:
        self.broker = broker
        self.held: dict[tuple[int, int], Job[Any, Any]] = {}
        self.asked_for = 0  # records that a fetch on its way may bring
        self.lock_s = 0.0
        self._owner = owner
        self._connect = connect
        self._wanted: frozenset[int] = frozenset()
        self._named: frozenset[int] = frozenset()
        self._said: deque[tuple[Job[Any, Any], Said]] = deque()  # filled by any thread
        self._refused: deque[list[Said]] = deque()  # what did not count together, to be said by halves
        self._epoch = OPEN
        self._changed = asyncio.Event()
        self._is_closing = False
        self._words_under_way = 0
        self._failure: Exception | None = None
        self._connection: Connection | None = None

    # --- from outside -----------------------------------------------------------------------------------------------------

    def want(self, partitions: Iterable[int]) -> None:
        self._wanted = frozenset(partitions)
        self.wake()

    def wake(self) -> None:
        self._changed.set()

    def say(self, job: Job[Any, Any], word: Word, reason: str = "") -> bool:
        """From any thread; False where something was said before."""
        if not self._owner.turn(job, (Stage.WORKING, Stage.WAITING), Stage.OVER):
            return False
        self._said.append((job, said_of(job, word, reason)))
        self._owner.wake()
        return True

    def renew(self, job: Job[Any, Any]) -> None:
        self._said.append((job, said_of(job, Word.RENEW)))
        job._deadline = asyncio.get_running_loop().time() + self.lock_s
        self.wake()

    def close(self) -> None:
        """Say what is to be said, give back the rest, and end."""
        self._is_closing = True
        self.wake()

    # --- a session after the other ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        while not self._is_closing:
            try:
                self._connection = await self._connect(self.broker)
                self._owner.is_at_work.set()
                await self._serve(self._connection)
            except (BrokerTimeout, BrokerError) as error:
                if not self._is_closing:
                    log.warning("the session with broker %d ended, and begins anew: %s", self.broker, error)
                    self._owner.moved()
            finally:
                self._forget()
            if not self._is_closing:
                await asyncio.sleep(AGAIN_S)

    def _forget(self) -> None:
        """With the connection the broker takes back what it gave: what is still worked on, others get as well."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._epoch, self._named, self._failure = OPEN, frozenset(), None
        self._words_under_way = self.asked_for = 0
        self._said.clear()
        self._refused.clear()
        held, self.held = self.held, {}
        for job in held.values():
            self._owner.turn(job, (Stage.WAITING,), Stage.OVER)

    async def _serve(self, connection: Connection) -> None:
        while self._failure is None:
            self._changed.clear()
            if self._is_closing:
                await self._end(connection)
                return
            if not self._send_fetch(connection) and not self._send_words(connection):
                await self._changed.wait()
        raise self._failure

    async def _end(self, connection: Connection) -> None:
        if self._epoch == OPEN:
            return
        said = self._taken()
        self._epoch = FINAL
        await self._exchange_words(connection, self._words_request(by_partition(said)), said)

    # --- fetching ---------------------------------------------------------------------------------------------------------

    def _send_fetch(self, connection: Connection) -> bool:
        if self.asked_for or not self._wanted:
            return False
        self.asked_for = self._owner.room(self)
        if self.asked_for <= 0:
            self.asked_for = 0
            return False
        said = self._taken() if self._epoch != OPEN and not any(each.word is Word.RENEW for _, each in self._said) else []
        request = self._fetch_request(self.asked_for, by_partition(said))
        self._count()
        self._owner.spawn(self._exchange_fetch(connection, request, said), "fetch of a queue")
        return True

    def _fetch_request(self, count: int, words: Mapping[int, PartitionWords]) -> ShareFetchRequest:
        added = self._wanted - self._named
        forgotten = self._named - self._wanted
        self._named = self._wanted
        partitions = tuple(
            FetchPartition(partition_index=index, acknowledgement_batches=batches, reasons=reasons)
            for index, (batches, reasons) in {**dict.fromkeys(sorted(added), PartitionWords((), ())), **words}.items()
        )
        return ShareFetchRequest(
            group_id=self._owner.group,
            member_id=self._owner.member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            max_records=count,
            batch_size=count,
            share_acquire_mode=RECORD_LIMIT,
            topics=(FetchTopic(topic_id=self._owner.topic_id, partitions=partitions),) if partitions else (),
            forgotten_topics_data=(ForgottenTopic(topic_id=self._owner.topic_id, partitions=tuple(sorted(forgotten))),)
            if forgotten
            else (),
        )

    async def _exchange_fetch(self, connection: Connection, request: ShareFetchRequest, said: list[Said]) -> None:
        # Locks begin when the broker gives records out, which may be as soon as it is asked.
        asked_at = asyncio.get_running_loop().time()
        try:
            reply = await connection.call(request)
            raise_for(reply.error_code, "the share session", reply.error_message)
            self.lock_s = reply.acquisition_lock_timeout_ms / 1000
            partitions = [partition for topic in reply.responses for partition in topic.partitions]
            self._note(said, {each.partition_index: each.acknowledge_error_code for each in partitions})
            for partition in partitions:
                if partition.error_code in MOVED:
                    self._owner.moved()
                elif partition.error_code:
                    raise_for(partition.error_code, f"partition {partition.partition_index}", partition.error_message)
                if partition.acquired_records:
                    self._owner.arrived(self, _records(partition), asked_at + self.lock_s)
        except Exception as error:
            self._fail(connection, error)
        finally:
            if connection is self._connection:
                self.asked_for = 0
            self._changed.set()

    # --- words ------------------------------------------------------------------------------------------------------------

    def _taken(self) -> list[Said]:
        """Without what is said of records that were another session's: it would take those beside it down with it."""
        said = []
        while self._said:
            job, word = self._said.popleft()
            key = word.partition, word.offset
            if self.held.get(key) is job:
                said.append(word)
                if word.word is not Word.RENEW:
                    # Not when it is answered: what is released may have come again by then.
                    del self.held[key]
            elif word.word is not Word.RENEW:
                log.warning("%s was not ours any more when it was over; somebody else may get it, too", name_of(job))
        return said

    def _send_words(self, connection: Connection) -> bool:
        if not (self._said or self._refused) or self._epoch == OPEN or self._words_under_way >= WORDS_UNDER_WAY_MAX:
            return False
        said = self._refused.popleft() if self._refused else self._taken()
        if not said:
            return False
        request = self._words_request(by_partition(said), renews=any(each.word is Word.RENEW for each in said))
        self._count()
        self._words_under_way += 1
        self._owner.spawn(self._exchange_words(connection, request, said), "word of a queue")
        return True

    def _words_request(self, words: Mapping[int, PartitionWords], *, renews: bool = False) -> ShareAcknowledgeRequest:
        partitions = tuple(
            AcknowledgePartition(partition_index=index, acknowledgement_batches=batches, reasons=reasons)
            for index, (batches, reasons) in words.items()
        )
        return ShareAcknowledgeRequest(
            group_id=self._owner.group,
            member_id=self._owner.member_id,
            share_session_epoch=self._epoch,
            is_renew_ack=renews,
            topics=(AcknowledgeTopic(topic_id=self._owner.topic_id, partitions=partitions),) if partitions else (),
        )

    async def _exchange_words(self, connection: Connection, request: ShareAcknowledgeRequest, said: list[Said]) -> None:
        try:
            reply = await connection.call(request)
            raise_for(reply.error_code, "the share session", reply.error_message)
            answers = {each.partition_index: each.error_code for topic in reply.responses for each in topic.partitions}
            self._note(said, answers)
        except Exception as error:
            if said and not isinstance(error, BrokerTimeout | BrokerError):
                log.exception("word of jobs could not be sent")
            self._fail(connection, error)
        finally:
            if connection is self._connection:
                self._words_under_way = max(0, self._words_under_way - 1)
            self._changed.set()

    def _note(self, said: list[Said], answers: Mapping[int, int]) -> None:
        """What became of what was said, by partition."""
        for partition, code in answers.items():
            if code == ErrorCode.NONE:
                continue
            refused = [each for each in said if each.partition == partition]
            if code == ErrorCode.INVALID_RECORD_STATE and len(refused) > 1:
                # One lock that ran out makes all of them not count: by halves it is found.
                self._refused.extend((refused[: len(refused) // 2], refused[len(refused) // 2 :]))
                continue
            name = ErrorCode(code).name if code in ErrorCode._value2member_map_ else str(code)
            offsets = ", ".join(str(each.offset) for each in refused)
            log.warning(
                "partition %d: what was said of offset %s does not count (%s); it is delivered again", partition, offsets, name
            )
            for each in refused:
                self.held.pop((each.partition, each.offset), None)
            if code in MOVED:
                self._owner.moved()

    def _count(self) -> None:
        self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1

    def _fail(self, connection: Connection, error: Exception) -> None:
        """What was under way on an earlier connection says nothing of this one."""
        if connection is self._connection and self._failure is None:
            self._failure = error if isinstance(error, BrokerTimeout | BrokerError) else BrokerTimeout(f"{error!r}")


def _records(partition: PartitionData) -> Iterator[Arrival]:
    """The records that are ours of what was read."""
    given = partition.records
    ours = {
        offset: each.delivery_count
        for each in partition.acquired_records
        for offset in range(each.first_offset, each.last_offset + 1)
    }
    for header, batch in iterate_batches(b"".join(given) if isinstance(given, list) else given):
        if header.is_control:
            continue
        try:
            records, why = read_records(batch), ""
        except (BatchError, CompressionError) as error:
            # Whoever gets it cannot read it either: the dead letters tell of it.
            records = [Record(offset, header.base_timestamp) for offset in range(header.base_offset, header.next_offset)]
            why = f"the batch cannot be read: {error}"
        for record in records:
            if (delivery := ours.get(record.offset)) is not None:
                yield Arrival(_message(partition.partition_index, header, record), delivery, why)


def _message(partition: int, header: BatchHeader, record: Record) -> Message:
    kind = TIMESTAMP_LOG_APPEND_TIME if header.attributes & TIMESTAMP_TYPE_BIT else TIMESTAMP_CREATE_TIME
    return Message(
        partition=partition,
        offset=record.offset,
        key=record.key,
        value=record.value,
        headers=list(record.headers) or None,
        timestamp=(kind, record.timestamp),
    )
