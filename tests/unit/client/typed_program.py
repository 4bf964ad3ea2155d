"""A user's program that uses the whole SDK, held to `mypy --strict` by `make lint`, and run by a test.

What is inferred without a single annotation is what `assert_type` says.
"""

import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from headrace import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Backoff,
    Consumer,
    DeadLetters,
    Delivery,
    Producer,
    Record,
    Reject,
    Salted,
    TopicPartition,
    exactly_once,
)
from headrace.testing import Api, Broker, ErrorCode


def send(bootstrap: str) -> None:
    with Producer(bootstrap, values="json", keys=str, partitioner=Salted(2)) as producer:
        future = producer.send("orders", 1.5, key="ann", headers={"trace": "1"}, ttl=timedelta(minutes=1))
        assert_type(future.result(10), Delivery)
        many = producer.send_many("orders", [2, 3]).result(10)
        assert_type(many[0], Delivery)
        assert_type([each.offset for each in many], list[int | None])
    with Producer(bootstrap, transactional_id="orders-1") as producer, producer.transaction() as transaction:
        assert_type(transaction.send("orders", b"4", key="bob").result(10), Delivery)


def read(bootstrap: str) -> None:
    def parse(data: bytes) -> float:
        return float(data)

    def write(number: float) -> bytes:
        return str(number).encode()

    with Consumer("orders", bootstrap=bootstrap, group="read", keys=str, values="json") as consumer:
        assert_type(consumer, Consumer[str, Any])
        for batch in consumer.batches(2, timeout=1):
            assert_type(batch[0], Record[str, Any])
            break
        for record in consumer.to_end():
            assert_type(record.key, str)
        consumer.commit()
        consumer.seek(TopicPartition("orders", 0), "earliest")
        consumer.seek_to_time(datetime.now(UTC))
        consumer.rewind()
        assert_type(consumer.lag(), dict[TopicPartition, int])
    with Consumer("orders", bootstrap=bootstrap, values=(write, parse)) as numbers:
        assert_type(numbers.poll(0), Record[Any, float] | None)


def push(bootstrap: str) -> None:
    def handle(record: Record[bytes, str]) -> None:
        raise Reject("not today")

    letters = DeadLetters(attempts=2, backoff=Backoff(first=0.1))
    with (
        Consumer("orders", bootstrap=bootstrap, group="push", keys=bytes, values=str) as consumer,
        consumer.on_message(handle, workers=2, dead_letters=letters) as subscription,
    ):
        assert_type(subscription.wait(0.01), bool)


def book(bootstrap: str) -> None:
    def insert(record: Record[Any, str], cursor: sqlite3.Cursor) -> None:
        cursor.execute("INSERT INTO journal VALUES (?)", (record.value,))

    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE journal (line TEXT)")
    with Consumer("orders", bootstrap=bootstrap, group="book", values=str, delivery="exactly_once") as consumer:
        assert_type(exactly_once(consumer, database).run(insert, timeout=0.5), int)


async def on_a_loop(bootstrap: str) -> None:
    async with AsyncAdmin(bootstrap) as admin:
        await admin.create_topic("events", partitions=2, exist_ok=True)
    async with AsyncProducer(bootstrap, values="json", linger=0) as producer:
        assert_type(await producer.send("events", 1, key="k"), Delivery)
        assert_type(await (await producer.enqueue("events", 1, timestamp=1)), Delivery)
    async with AsyncConsumer("events", bootstrap=bootstrap, group="loop", values=str) as consumer:
        async for record in consumer:
            assert_type(record.value, str)
            break


def look(broker: Broker) -> None:
    with Admin(broker.bootstrap) as admin, broker.faults.on(Api.PRODUCE, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=1) as fault:
        assert_type(fault.hits, int)
        assert_type(admin.offsets("orders", "earliest"), dict[int, int])
        assert_type(admin.lag("read"), dict[TopicPartition, int])
        assert_type(admin.settings("orders")["retention.ms"].value, str | None)
    broker.clock.advance(days=1)
    broker.housekeep()
