"""Transactions with aiokafka."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced

from tests.compat.transaction_readers import WAIT_S, create_topic, read_all


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(2 * WAIT_S):
            await story()

    asyncio.run(bounded())


@asynccontextmanager
async def producing(bootstrap: str, transactional_id: str) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


def test_committed_transactions_are_read_and_aborted_ones_are_not(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)

    async def story() -> None:
        async with producing(bootstrap, topic) as producer:
            for number in range(4):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, str(number).encode())
                await (producer.abort_transaction() if number % 2 else producer.commit_transaction())

    run(story)
    assert read_all(bootstrap, topic) == [["0", "2"]]
    assert read_all(bootstrap, topic, isolation="read_uncommitted") == [["0", "1", "2", "3"]]


def test_its_consumer_leaves_out_what_was_aborted(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    found: list[str] = []

    async def story() -> None:
        async with producing(bootstrap, topic) as producer:
            for number in range(6):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, str(number).encode())
                await (producer.abort_transaction() if number % 3 == 1 else producer.commit_transaction())
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            while not found or found[-1] != "5":
                record = await consumer.getone()
                found.append((record.value or b"").decode())
        finally:
            await consumer.stop()

    run(story)
    assert found == ["0", "2", "3", "5"]


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_go_with_their_transaction(bootstrap: str, topic: str, committed: bool) -> None:
    create_topic(bootstrap, topic)
    partition, group = TopicPartition(topic, 0), f"group-{topic}"
    stored: list[int | None] = []

    async def story() -> None:
        async with producing(bootstrap, topic) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"x")
            await producer.send_offsets_to_transaction({partition: 7}, group)
            await (producer.commit_transaction() if committed else producer.abort_transaction())
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign([partition])
            stored.append(await consumer.committed(partition))
        finally:
            await consumer.stop()

    run(story)
    assert stored == [7 if committed else None]


def test_a_second_producer_fences_the_first(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)

    async def story() -> None:
        async with producing(bootstrap, topic) as first:
            await first.begin_transaction()
            await first.send_and_wait(topic, b"zombie")
            async with producing(bootstrap, topic) as second:
                with pytest.raises(ProducerFenced):
                    await first.commit_transaction()
                async with second.transaction():
                    await second.send_and_wait(topic, b"alive")

    run(story)
    assert read_all(bootstrap, topic) == [["alive"]]
