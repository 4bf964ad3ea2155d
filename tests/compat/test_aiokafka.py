"""aiokafka, the asyncio client: what goes in comes out, and what it administers it can read back."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.compat.compat_cases import CODECS, LARGE_TOPIC_BYTES, TIMES_MS, Sent, records

WAIT_S = 20
Result = TypeVar("Result")


def run(story: Awaitable[Result]) -> Result:
    async def bounded() -> Result:
        return await asyncio.wait_for(story, WAIT_S)

    return asyncio.run(bounded())


async def with_admin(bootstrap: str, use: Callable[[AIOKafkaAdminClient], Awaitable[Result]]) -> Result:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        return await use(admin)
    finally:
        await admin.close()


async def create(bootstrap: str, topic: str, partitions: int = 1, **configs: str) -> None:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    new = NewTopic(topic, partitions, 1, topic_configs=settings)
    reply = await with_admin(bootstrap, lambda admin: admin.create_topics([new]))
    assert [error[1] for error in reply.topic_errors] == [0]


async def produce(
    bootstrap: str, topic: str, sent: tuple[Sent, ...], timestamps: tuple[int, ...] = (), **settings: Any
) -> list[int]:
    """Send all to partition 0; the offsets as acknowledged."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, max_request_size=LARGE_TOPIC_BYTES, **settings)
    await producer.start()
    try:
        futures = []
        for number, record in enumerate(sent):
            at = timestamps[number] if timestamps else None
            future = await producer.send(topic, record.value, record.key, 0, timestamp_ms=at, headers=list(record.headers))
            futures.append(future)
            if timestamps:
                await future  # a batch of its own
        return [(await future).offset for future in futures]
    finally:
        await producer.stop()


async def read(bootstrap: str, topic: str, offset: int, count: int) -> list[Any]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, offset)
        return [await consumer.getone() for _ in range(count)]
    finally:
        await consumer.stop()


def as_sent(message: Any) -> Sent:
    return Sent(message.key, message.value, tuple(message.headers))


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_shape_come_back_as_they_were_sent(bootstrap: str, topic: str, codec: str) -> None:
    sent = records()

    async def story() -> tuple[list[int], list[Any]]:
        await create(bootstrap, topic, max_message_bytes=str(LARGE_TOPIC_BYTES))
        compression = None if codec == "none" else codec
        offsets = await produce(bootstrap, topic, sent, compression_type=compression, linger_ms=50)
        return offsets, await read(bootstrap, topic, 0, len(sent))

    offsets, got = run(story())

    assert offsets == list(range(len(sent)))
    assert [as_sent(message) for message in got] == list(sent)


@pytest.mark.parametrize("settings", [{"acks": 1}, {"acks": "all"}, {"acks": "all", "enable_idempotence": True}], ids=str)
def test_every_kind_of_acknowledgement_writes_in_order(bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    sent = tuple(Sent(None, str(number).encode()) for number in range(200))

    async def story() -> list[Any]:
        await create(bootstrap, topic)
        await produce(bootstrap, topic, sent, **settings)
        return await read(bootstrap, topic, 0, len(sent))

    assert [message.value for message in run(story())] == [record.value for record in sent]


def test_a_seek_by_time_finds_the_first_record_at_or_after_it(bootstrap: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)

    async def story() -> tuple[Any, Any]:
        await create(bootstrap, topic)
        await produce(bootstrap, topic, tuple(Sent(None, str(at).encode()) for at in TIMES_MS), TIMES_MS)
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        try:
            found = await consumer.offsets_for_times({partition: TIMES_MS[1] + 1})
            after_all = await consumer.offsets_for_times({partition: TIMES_MS[-1] + 1})
            return found[partition], after_all[partition]
        finally:
            await consumer.stop()

    found, after_all = run(story())

    assert (found.offset, found.timestamp) == (2, TIMES_MS[2])
    assert after_all is None


async def config_values(bootstrap: str, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    (reply,) = await with_admin(bootstrap, lambda admin: admin.describe_configs([resource]))
    return {entry[0]: entry[1] for entry in reply.resources[0][4]}


def test_what_it_administers_is_read_back(bootstrap: str, topic: str) -> None:
    async def story() -> tuple[dict[str, str], dict[str, str], Any]:
        await create(bootstrap, topic, partitions=2, retention_ms="3600000")
        before = await config_values(bootstrap, topic)
        changed = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"max.message.bytes": "5000"})
        await with_admin(bootstrap, lambda admin: admin.alter_configs([changed]))
        await with_admin(bootstrap, lambda admin: admin.create_partitions({topic: NewPartitions(4)}))
        (described,) = await with_admin(bootstrap, lambda admin: admin.describe_topics([topic]))
        return before, await config_values(bootstrap, topic), described

    before, after, described = run(story())

    assert before["retention.ms"] == "3600000"
    assert after["max.message.bytes"] == "5000"
    assert len(described["partitions"]) == 4


def test_deleted_records_and_deleted_topics_are_gone(bootstrap: str, topic: str) -> None:
    async def story() -> tuple[list[Any], list[str]]:
        await create(bootstrap, topic)
        await produce(bootstrap, topic, tuple(Sent(None, str(number).encode()) for number in range(10)))
        wanted = {TopicPartition(topic, 0): RecordsToDelete(before_offset=6)}
        await with_admin(bootstrap, lambda admin: admin.delete_records(wanted))
        rest = await read(bootstrap, topic, 6, 4)
        await with_admin(bootstrap, lambda admin: admin.delete_topics([topic]))
        return rest, await with_admin(bootstrap, lambda admin: admin.list_topics())

    rest, topics = run(story())

    assert [message.value for message in rest] == [b"6", b"7", b"8", b"9"]
    assert topic not in topics
