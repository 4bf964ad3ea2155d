"""An idempotent producer: sends each record, under one sequence, until it is acknowledged by all in-sync replicas."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from headrace.model.errors import RETRIABLE, ErrorCode
from headrace.model.identity import NO_TOPIC_ID, TopicPartition
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from simulation.clients.client import ClusterClient, Unavailable
from simulation.clients.working import PacedWorker, Worker
from simulation.rules.history import Acknowledged, Refused, Sent
from simulation.world.host import EPOCH_MS

PRODUCE_VERSION = 11
INIT_PRODUCER_ID_VERSION = 4
PRODUCE_TIMEOUT_MS = 2000
BATCH_RECORDS_MAX = 3
OVERTAKES_EVERY = 3


@dataclass(slots=True)
class Identity:
    """Who writes: the producer's id and epoch, and the next sequence of each partition."""

    producer_id: int
    epoch: int
    sequences: dict[TopicPartition, int] = field(default_factory=dict)


def key_of(value: str) -> str:
    """The key of a record: what its value says behind the tilde or, where it says nothing, who sent it."""
    return value.partition("~")[2] or value.split("/")[0]


async def produce_batch(
    client: ClusterClient,
    partition: TopicPartition,
    values: Sequence[str],
    identity: Identity,
    sequence: int,
    *,
    acks: int = -1,
    transactional_id: str | None = None,
    version: int = PRODUCE_VERSION,
    topic_id: UUID = NO_TOPIC_ID,
) -> tuple[ErrorCode, int, int]:
    """Send one batch once; answer what the leader said, the offset, and who that leader is.  Raises Unavailable."""
    leader = await client.leader(partition)
    now_ms = EPOCH_MS + int(asyncio.get_running_loop().time() * 1000)
    batch = build_batch(
        [Record(0, now_ms, key_of(value).encode(), value.encode()) for value in values],
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=sequence,
        transactional=transactional_id is not None,
    )
    data = PartitionProduceData(index=partition.partition, records=batch)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=PRODUCE_TIMEOUT_MS,
        topic_data=(TopicProduceData(name=partition.topic, topic_id=topic_id, partition_data=(data,)),),
    )
    try:
        response: ProduceResponse = await client.call(leader, request, version)
    except Unavailable:
        client.forget_leader(partition)
        raise
    answer = response.responses[0].partition_responses[0]
    return ErrorCode(answer.error_code), answer.base_offset, leader


@dataclass(slots=True)
class Batch:
    """Records that travel together, under one sequence however often they are sent."""

    values: list[str]
    sequence: int
    attempts: int = 0
    is_acknowledged: bool = False


class Producer(Worker):
    """One producer with a lane for each partition: in each, a few batches under way at a time."""

    def __init__(self, client: ClusterClient, *, pause_s: tuple[float, float], in_flight_max: int = 1, keys: int = 0) -> None:
        super().__init__(client)
        self._pause_s = pause_s
        self._in_flight_max = in_flight_max
        # How many keys it uses; 0 for one, its name.
        self._keys = keys
        self._sent = 0

    async def run(self, partitions: Sequence[TopicPartition]) -> None:
        identity = await self._identity()
        if identity is not None:
            await asyncio.gather(*(self._lane(partition, identity) for partition in partitions))

    async def _identity(self) -> Identity | None:
        while not self._stopping:
            try:
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
                response: InitProducerIdResponse = await self._client.call_any(request, INIT_PRODUCER_ID_VERSION)
                if response.error_code == ErrorCode.NONE:
                    return Identity(response.producer_id, response.producer_epoch)
            except Unavailable:
                pass
            await self._client.back_off()
        return None

    async def _lane(self, partition: TopicPartition, identity: Identity) -> None:
        client = self._client
        while not self._stopping:
            await asyncio.sleep(client.chance.uniform(*self._pause_s))
            batches = [self._next_batch(partition, identity) for _ in range(client.chance.randrange(self._in_flight_max) + 1)]
            while not all(batch.is_acknowledged for batch in batches):
                if not await self._send_all(partition, batches, identity):
                    return

    def _next_batch(self, partition: TopicPartition, identity: Identity) -> Batch:
        client = self._client
        batch = Batch([], identity.sequences.get(partition, 0))
        for _ in range(client.chance.randrange(BATCH_RECORDS_MAX) + 1):
            self._sent += 1
            key = f"~key-{client.chance.randrange(self._keys)}" if self._keys else ""
            batch.values.append(f"{client.name}/{self._sent}{key}")
            client.history.record(Sent(producer=client.name, partition=partition, value=batch.values[-1]))
        identity.sequences[partition] = batch.sequence + len(batch.values)
        return batch

    async def _send_all(self, partition: TopicPartition, batches: Sequence[Batch], identity: Identity) -> bool:
        """Send what is not acknowledged, in order, without waiting in between; False when the lane must not go on."""
        client = self._client
        try:
            # Known beforehand, so that nobody has to ask for it between two batches and lose its turn.
            await client.leader(partition)
        except Unavailable:
            await client.back_off()
            return True
        waiting = [batch for batch in batches if not batch.is_acknowledged]
        overtakes = self._overtakes(waiting)
        if overtakes:
            waiting.reverse()
        for batch in waiting:
            batch.attempts += 1
        answers = await asyncio.gather(
            *(produce_batch(client, partition, batch.values, identity, batch.sequence) for batch in waiting),
            return_exceptions=True,
        )
        complete = True
        for batch, answer in zip(waiting, answers, strict=True):
            if isinstance(answer, Unavailable):
                complete = False
                continue
            if isinstance(answer, BaseException):
                raise answer
            error, offset, broker = answer
            if error is ErrorCode.NONE:
                self._note_acknowledged(partition, batch, offset, broker)
                continue
            # Behind a batch that did not arrive, the next is out of order: that is no more than was to be expected.
            out_of_order = error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if error not in RETRIABLE and not (out_of_order and (overtakes or not complete)):
                self._note_refused(partition, batch, error)
                return False
            complete = False
            client.forget_leader(partition)
        if not complete:
            await client.back_off()
        return True

    def _overtakes(self, waiting: Sequence[Batch]) -> bool:
        """Now and then the last batch is sent first: it leaves a gap that the broker must refuse.

        Not among the first of all: a producer that is not known yet may begin anywhere."""
        return len(waiting) > 1 and waiting[0].attempts == 0 and waiting[0].sequence > 0 and self._sent % OVERTAKES_EVERY == 0

    def _note_refused(self, partition: TopicPartition, batch: Batch, error: ErrorCode) -> None:
        client = self._client
        client.history.record(Refused(producer=client.name, partition=partition, value=batch.values[0], reason=error.name))

    def _note_acknowledged(self, partition: TopicPartition, batch: Batch, offset: int, broker: int) -> None:
        batch.is_acknowledged = True
        for position, value in enumerate(batch.values):
            self._client.history.record(
                Acknowledged(
                    producer=self._client.name, partition=partition, value=value, offset=offset + position, broker=broker
                )
            )


class CarelessProducer(PacedWorker):
    """Asks for the leader's acknowledgement only and never tries again: its records may be lost, but leave tails that differ."""

    def __init__(self, client: ClusterClient, *, pause_s: tuple[float, float]) -> None:
        super().__init__(client, pause_s=pause_s)
        self._sent = 0

    async def _act(self, partitions: Sequence[TopicPartition]) -> None:
        client = self._client
        partition = client.chance.choice(partitions)
        self._sent += 1
        value = f"{client.name}/{self._sent}"
        client.history.record(Sent(producer=client.name, partition=partition, value=value))
        try:
            error, _, _ = await produce_batch(client, partition, [value], Identity(-1, -1), -1, acks=1)
        except Unavailable:
            return
        if error is not ErrorCode.NONE:
            client.forget_leader(partition)
