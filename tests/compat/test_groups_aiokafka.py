"""Groups with aiokafka: its assignors, static members, offsets, administration."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.structs import OffsetAndMetadata

from tests.compat.group_members import WAIT_S

PARTITIONS = 6


@pytest.fixture
def group(topic: str) -> str:
    return f"group-of-{topic}"


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(2 * WAIT_S):
            await story()

    asyncio.run(bounded())


@asynccontextmanager
async def member(bootstrap: str, group: str, topic: str, **properties: Any) -> AsyncIterator[AIOKafkaConsumer]:
    given = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 200, "enable_auto_commit": False, **properties}
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", **given)
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def fill(bootstrap: str, topic: str, records: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    for number in range(records):
        await producer.send_and_wait(topic, str(number).encode(), partition=number % PARTITIONS)
    await producer.stop()


async def poll_until(condition: Callable[[set[tuple[int, int]]], bool], *consumers: AIOKafkaConsumer) -> set[tuple[int, int]]:
    read: set[tuple[int, int]] = set()
    deadline = time.monotonic() + WAIT_S
    while not condition(read):
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            for records in (await consumer.getmany(timeout_ms=50)).values():
                read |= {(record.partition, record.offset) for record in records}
    return read


def owned(consumer: AIOKafkaConsumer) -> set[int]:
    return {each.partition for each in consumer.assignment()}


@pytest.mark.parametrize(
    "assignor",
    [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor],
    ids=lambda assignor: assignor.name,
)
def test_members_share_a_topic_and_the_one_that_stays_takes_over(bootstrap: str, topic: str, group: str, assignor: type) -> None:
    async def story() -> None:
        await fill(bootstrap, topic, 60)
        strategy = {"partition_assignment_strategy": [assignor]}
        async with member(bootstrap, group, topic, **strategy) as first:
            async with member(bootstrap, group, topic, **strategy) as second:
                read = await poll_until(lambda read: len(owned(first)) == len(owned(second)) == 3, first, second)
                assert not owned(first) & owned(second)
                read |= await poll_until(lambda more: len(read | more) == 60, first, second)
            await poll_until(lambda read: len(owned(first)) == PARTITIONS, first)

            assert len(read) == 60

    run(story)


def test_a_group_goes_on_where_it_committed_and_the_note_comes_back(bootstrap: str, topic: str, group: str) -> None:
    async def story() -> None:
        await fill(bootstrap, topic, 60)
        async with member(bootstrap, group, topic) as first:
            await poll_until(lambda read: len(read) == 60, first)
            await first.commit(
                {TopicPartition(topic, index): OffsetAndMetadata(4, f"note {index}") for index in range(PARTITIONS)}
            )
        async with member(bootstrap, group, topic) as second:
            read = await poll_until(lambda read: len(read) == 36, second)

            assert read == {(partition, offset) for partition in range(PARTITIONS) for offset in range(4, 10)}
            assert await second.committed(TopicPartition(topic, 2)) == 4

    run(story)


def test_a_static_member_that_restarts_keeps_its_partitions(bootstrap: str, topic: str, group: str) -> None:
    async def story() -> None:
        await fill(bootstrap, topic, 0)
        async with member(bootstrap, group, topic, group_instance_id="arm") as arm:
            async with member(bootstrap, group, topic, group_instance_id="leg") as leg:
                await poll_until(lambda read: len(owned(arm)) == len(owned(leg)) == 3, arm, leg)
                share, generation = owned(leg), arm._coordinator.generation
            async with member(bootstrap, group, topic, group_instance_id="leg") as again:
                await poll_until(lambda read: len(owned(again)) == 3, arm, again)

                assert owned(again) == share
                assert arm._coordinator.generation == generation

    run(story)


def test_an_administrator_sees_and_describes_groups_and_their_offsets(bootstrap: str, topic: str, group: str) -> None:
    async def story() -> None:
        await fill(bootstrap, topic, 6)
        async with member(bootstrap, group, topic, client_id="app") as consumer:
            await poll_until(lambda read: len(read) == 6, consumer)
            await consumer.commit()
            admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            await admin.start()
            try:
                assert group in {name for name, *_ in await admin.list_consumer_groups()}
                offsets = await admin.list_consumer_group_offsets(group)
                assert {each.partition: found.offset for each, found in offsets.items()} == dict.fromkeys(range(PARTITIONS), 1)
                described = (await admin.describe_consumer_groups([group]))[0].groups[0]
                assert described[1:3] == (group, "Stable")
            finally:
                await admin.close()

    run(story)
