"""Handlers of records, each called with just what it touches: partitions in memory, and a connection that takes the reply."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from headrace.broker.fetching.answering import Answers
from headrace.broker.fetching.fetch import Surroundings
from headrace.broker.handlers import delete_records, describe_producers, list_offsets, offset_for_leader_epoch
from headrace.broker.handlers.fetch import Fetches
from headrace.broker.handlers.produce import Producing
from headrace.broker.housekeeping.file_removal import FileRemoval
from headrace.broker.network.throttling import Throttling
from headrace.broker.partitions.log_starts import LogStarts
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.partitions.storage import MemoryStorage
from headrace.broker.partitions.waiting import Deadlines
from headrace.controller.image import ClusterImage
from headrace.host.clock import SystemClock
from headrace.model.errors import ErrorCode
from headrace.model.topic_settings import LogConfig
from headrace.records.record import read_records
from headrace.security.quotas import Quotas
from headrace.wire.codec import decode, encode
from headrace.wire.framing import response_header
from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headrace.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.unit.broker.handlers.replicas_in_memory import (
    ELSEWHERE,
    HERE,
    TOPIC_ID,
    TakingConnection,
    batch,
    image_of,
    replicas_of,
)
from tests.unit.broker.handlers.requests import context_of

UNTOUCHED: Any = None
PRODUCE_VERSION, FETCH_VERSION = 13, 17


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(5):
            await story()

    asyncio.run(within())


def unthrottled(image: ClusterImage) -> Throttling:
    return Throttling(Quotas(dict, lambda: 1), lambda: image, lambda: 0.0, lambda topic: 0)


def producing(image: ClusterImage, replicas: Replicas) -> Producing:
    nothing_to_verify: Any = SimpleNamespace(is_needed=lambda partition, records, transactional_id: False)
    return Producing(
        replicas=replicas,
        verification=nothing_to_verify,
        schemas=UNTOUCHED,
        staging=UNTOUCHED,
        schedules=UNTOUCHED,
        throttling=unthrottled(image),
        tasks=UNTOUCHED,
        image=lambda: image,
        clock=SystemClock(),
        loop=asyncio.get_running_loop(),
        deadlines=Deadlines(asyncio.get_running_loop()),
        broker_id=1,
    )


async def produced(
    image: ClusterImage, replicas: Replicas, index: int, records: bytes, acks: int = -1
) -> PartitionProduceResponse:
    data = TopicProduceData(topic_id=TOPIC_ID, partition_data=(PartitionProduceData(index=index, records=records),))
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=(data,))
    connection = TakingConnection()
    context = context_of(request, PRODUCE_VERSION, connection)
    producing(image, replicas).start(encode(request, PRODUCE_VERSION), 0, context, connection.reply())
    await connection.answered.wait()
    assert connection.closed_because is None, connection.closed_because
    header = response_header(ProduceRequest.api.key, PRODUCE_VERSION, 1)
    response = decode(ProduceResponse, connection.frame, PRODUCE_VERSION, len(header))
    return response.responses[0].partition_responses[0]


def test_what_is_produced_is_at_the_end_of_its_partition_and_the_answer_says_where() -> None:
    async def story() -> None:
        image = image_of(HERE)
        replicas = replicas_of(image)
        first = await produced(image, replicas, 0, batch(b"a", b"b"))
        second = await produced(image, replicas, 0, batch(b"c"), acks=1)

        assert [(each.error_code, each.base_offset) for each in (first, second)] == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 2)]
        assert replicas.find("t", 0).high_watermark == 3

    run(story)


def test_a_producer_is_told_what_is_wrong_with_each_partition_and_who_leads_it() -> None:
    async def story() -> None:
        image = image_of(HERE, ELSEWHERE)
        replicas = replicas_of(image)
        broken = bytearray(batch(b"a"))
        broken[-1] ^= 1

        assert (await produced(image, replicas, 0, bytes(broken))).error_code == ErrorCode.CORRUPT_MESSAGE
        assert (await produced(image, replicas, 1, batch(b"a"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await produced(image, replicas, 2, batch(b"a"))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await produced(image, replicas, 0, batch(b"a"), acks=7)).error_code == ErrorCode.INVALID_REQUIRED_ACKS

    run(story)


def test_a_write_that_may_fail_silently_ends_its_connection_when_it_fails() -> None:
    async def story() -> None:
        image = image_of(ELSEWHERE)
        data = TopicProduceData(topic_id=TOPIC_ID, partition_data=(PartitionProduceData(index=0, records=batch(b"a")),))
        request = ProduceRequest(acks=0, timeout_ms=1000, topic_data=(data,))
        connection = TakingConnection()
        context = context_of(request, PRODUCE_VERSION, connection)
        producing(image, replicas_of(image)).start(encode(request, PRODUCE_VERSION), 0, context, connection.reply())

        assert "NOT_LEADER_OR_FOLLOWER" in (connection.closed_because or "")
        assert connection.frame == b""

    run(story)


def values(data: PartitionData) -> list[bytes | None]:
    assert isinstance(data.records, bytes | memoryview)
    return [record.value for record in read_records(data.records)]


async def fetched(image: ClusterImage, replicas: Replicas, offset: int, *, max_wait_ms: int = 0) -> FetchResponse:
    wanted = FetchTopic(
        topic_id=TOPIC_ID, partitions=(FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20),)
    )
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=(wanted,))
    connection = TakingConnection()
    nobody_nearer: Any = SimpleNamespace(nearest=lambda *_: None, preferred=lambda *_: -1)
    fetches = Fetches(
        replicas=replicas,
        sessions=UNTOUCHED,
        throttle=UNTOUCHED,
        nearby=nobody_nearer,
        image=lambda: image,
        surroundings=Surroundings(
            loop=asyncio.get_running_loop(),
            disk=UNTOUCHED,
            run_task=UNTOUCHED,
            answers=Answers(1, lambda: image, unthrottled(image)),
            bytes_max=1 << 20,
            deadlines=Deadlines(asyncio.get_running_loop()),
        ),
    )
    context = context_of(request, FETCH_VERSION, connection)
    fetches.start(encode(request, FETCH_VERSION), 0, context, connection.reply())
    await connection.answered.wait()
    header = response_header(FetchRequest.api.key, FETCH_VERSION, 1)
    return decode(FetchResponse, connection.frame, FETCH_VERSION, len(header))


def test_a_consumer_gets_whole_batches_and_where_there_are_none_waits_for_the_next() -> None:
    async def story() -> None:
        image = image_of(HERE)
        replicas = replicas_of(image)
        await produced(image, replicas, 0, batch(b"a", b"b"))
        there = (await fetched(image, replicas, 1)).responses[0].partitions[0]
        waiting = asyncio.ensure_future(fetched(image, replicas, 2, max_wait_ms=60_000))
        await asyncio.sleep(0)
        assert bool(replicas.find("t", 0).readers)
        await produced(image, replicas, 0, batch(b"c"))
        later = (await waiting).responses[0].partitions[0]

        assert values(there) == [b"a", b"b"]
        assert values(later) == [b"c"]

    run(story)


def test_a_consumer_beyond_the_end_is_told_so_at_once() -> None:
    async def story() -> None:
        image = image_of(HERE)
        reply = await fetched(image, replicas_of(image), 5, max_wait_ms=60_000)

        assert reply.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    run(story)


async def offsets_at(replicas: Replicas, index: int, *timestamps: int, epoch: int = -1) -> list[tuple[ErrorCode, int]]:
    wanted = tuple(
        ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch) for timestamp in timestamps
    )
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=wanted),))
    disk: Any = UNTOUCHED
    response = await list_offsets.handle(request, context_of(request, 9), replicas, disk)
    return [(ErrorCode(each.error_code), each.offset) for each in response.topics[0].partitions]


def test_offsets_are_found_at_the_start_at_the_end_and_by_time() -> None:
    async def story() -> None:
        image = image_of(HERE, ELSEWHERE)
        replicas = replicas_of(image)
        partition = replicas.find("t", 0)
        partition.append(batch(b"a", timestamp=1000))
        partition.append(batch(b"b", timestamp=2000))
        partition.append(batch(b"c", timestamp=1500))
        partition.on_flushed(3)

        ok = ErrorCode.NONE
        assert await offsets_at(replicas, 0, -2, -1, -3, 1001, 9000) == [(ok, 0), (ok, 3), (ok, 1), (ok, 1), (ok, -1)]
        assert await offsets_at(replicas, 0, -1, epoch=2) == [(ErrorCode.FENCED_LEADER_EPOCH, -1)]
        assert await offsets_at(replicas, 1, -1) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]

    run(story)


def test_deleted_records_are_gone_and_the_answer_says_where_the_log_begins() -> None:
    async def story() -> None:
        image = image_of(HERE, ELSEWHERE)
        replicas = replicas_of(image)
        await produced(image, replicas, 0, batch(b"a", b"b", b"c"))
        loop = asyncio.get_running_loop()

        async def deleted(index: int, offset: int) -> tuple[ErrorCode, int]:
            wanted = DeleteRecordsTopic(name="t", partitions=(DeleteRecordsPartition(partition_index=index, offset=offset),))
            request = DeleteRecordsRequest(topics=(wanted,), timeout_ms=1000)
            response = await delete_records.handle(
                request,
                context_of(request, 2),
                replicas,
                LogStarts(MemoryStorage(SystemClock()), loop),
                FileRemoval(loop, UNTOUCHED),
            )
            answer = response.topics[0].partitions[0]
            return ErrorCode(answer.error_code), answer.low_watermark

        assert await deleted(0, 2) == (ErrorCode.NONE, 2)
        assert await deleted(0, -1) == (ErrorCode.NONE, 3)
        assert await deleted(0, 4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await deleted(1, 0) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        assert replicas.find("t", 0).log.start_offset == 3

    run(story)


def test_where_an_epoch_ended_is_told_by_the_leader_to_who_knows_its_epoch() -> None:
    async def story() -> None:
        image = image_of(HERE)
        replicas = replicas_of(image)
        replicas.find("t", 0).append(batch(b"a", b"b"))

        def end_of(epoch: int, current: int = -1) -> tuple[ErrorCode, int]:
            wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
            request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic="t", partitions=(wanted,)),))
            response = offset_for_leader_epoch.handle(request, context_of(request, 4), replicas)
            answer = response.topics[0].partitions[0]
            return ErrorCode(answer.error_code), answer.end_offset

        assert end_of(3) == (ErrorCode.NONE, 2)
        assert end_of(9) == (ErrorCode.NONE, -1)
        assert end_of(3, current=4) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1)

    run(story)


def test_producers_are_described_by_the_leader_of_the_partition() -> None:
    async def story() -> None:
        image = image_of(HERE, ELSEWHERE)
        request = DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0, 1, 9)),))

        response = describe_producers.handle(request, context_of(request, 0), replicas_of(image, LogConfig()))

        assert [each.error_code for each in response.topics[0].partitions] == [
            ErrorCode.NONE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]

    run(story)
