"""Quotas as librdkafka meets them: throttle times in the replies, a rate that holds, a topic that is full."""

import socket
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.client.admin.wire_admin import WireAdmin
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from tests.support import raw
from tests.support.raw import RawClient, frame

RECORD = bytes(10_000)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def limit(broker: Broker, kind: str, name: str, quota: str, value: float) -> None:
    entry = EntryData(
        entity=(EntityData(entity_type=kind, entity_name=name),), ops=(OpData(key=quota, value=value, remove=False),)
    )
    with WireAdmin(broker.bootstrap) as admin:
        reply = admin.call(AlterClientQuotasRequest(entries=(entry,), validate_only=False))
    assert reply.entries[0].error_code == ErrorCode.NONE, reply


def end_of(topic: str, broker: Broker) -> int:
    """How many records there are."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "end"})
    end: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]
    consumer.close()
    return end


def produce(broker: Broker, client_id: str, count: int) -> tuple[float, list[float], list[KafkaError]]:
    """How long it took, which throttle times were told, and what failed."""
    throttled: list[float] = []
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client_id,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    began = time.monotonic()
    for _ in range(count):
        producer.produce("t", RECORD, on_delivery=delivered)
    assert producer.flush(30) == 0
    return time.monotonic() - began, throttled, failed


def test_a_producer_is_held_to_its_rate_and_others_are_not(broker: Broker) -> None:
    limit(broker, "client-id", "greedy", "producer_byte_rate", 100_000)
    free, told, _ = produce(broker, "modest", 30)
    assert told == []
    held, told, failed = produce(broker, "greedy", 30)

    # 300 kB at 100 kB/s, the first second's worth for free.
    assert held > 1.5
    assert held > free
    assert max(told) > 0
    assert failed == []


def test_what_a_producer_sent_before_it_was_told_to_wait_waits_too() -> None:
    """On a disk, where replies wait for a flush and requests do not."""
    with Broker(memory=False) as broker:
        produce(broker, "anybody", 1)
        limit(broker, "client-id", "raw", "producer_byte_rate", 100_000)
        with RawClient(broker.bootstrap) as client:
            client.send(b"".join(frame(raw.produce("t", raw.batch(RECORD)), 7, number) for number in range(30)))
            client.receive()
            written = end_of("t", broker)

    # A second's worth of 100 kB is free; the rest would be written with it if only replies were counted.
    assert written < 15


def test_a_consumer_is_held_to_its_rate(broker: Broker) -> None:
    produce(broker, "anybody", 40)
    limit(broker, "client-id", "hungry", "consumer_byte_rate", 150_000)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "client.id": "hungry", "group.id": "g", "fetch.message.max.bytes": 50_000}
    )
    consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
    began, read = time.monotonic(), 0
    while read < 40:
        read += sum(message.error() is None for message in consumer.consume(40, timeout=0.5))
        assert time.monotonic() - began < 30
    seconds = time.monotonic() - began
    consumer.close()

    assert seconds > 1.0


def test_a_topic_is_held_to_its_rate_whoever_writes(broker: Broker) -> None:
    limit(broker, "topic", "t", "producer_byte_rate", 100_000)
    first, _, _ = produce(broker, "one", 15)
    second, told, _ = produce(broker, "another", 15)

    assert first + second > 1.5
    assert max(told) > 0


def test_a_topic_that_used_up_its_storage_takes_no_more(broker: Broker) -> None:
    limit(broker, "topic", "t", "storage_bytes", 100_000)
    _, _, failed = produce(broker, "one", 20)

    assert 5 <= len(failed) <= 12
    assert {error.code() for error in failed} == {KafkaError.POLICY_VIOLATION}


def test_a_client_is_held_to_its_share_of_the_processor(broker: Broker) -> None:
    produce(broker, "anybody", 1)
    limit(broker, "client-id", "busy", "request_percentage", 2.0)
    held, told, failed = produce(broker, "busy", 400)

    # 20 ms of each second; the first second's worth is free.
    assert held > 0.5
    assert max(told) > 0
    assert failed == []


def test_every_reply_tells_of_the_wait(broker: Broker) -> None:
    limit(broker, "user", "ANONYMOUS", "request_percentage", 0.2)
    with WireAdmin(broker.bootstrap) as admin:
        assert any(admin.metadata(None).throttle_time_ms > 0 for _ in range(500))


def test_the_clients_of_a_user_share_its_quota(broker: Broker) -> None:
    limit(broker, "user", "ANONYMOUS", "producer_byte_rate", 100_000)
    first, _, _ = produce(broker, "one", 15)
    second, told, _ = produce(broker, "another", 15)

    assert first + second > 1.5
    assert max(told) > 0


def test_a_producer_that_wants_no_replies_is_held_to_its_rate_all_the_same(broker: Broker) -> None:
    limit(broker, "client-id", "silent", "producer_byte_rate", 100_000)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "silent", "acks": 0, "batch.num.messages": 1})
    began = time.monotonic()
    for _ in range(30):
        producer.produce("t", RECORD)
    assert producer.flush(30) == 0
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    while reader.get_watermark_offsets(TopicPartition("t", 0), timeout=5)[1] < 30:
        assert time.monotonic() - began < 30
    reader.close()

    assert time.monotonic() - began > 1.5


def test_a_client_that_changes_the_cluster_too_fast_is_held_to_its_rate(broker: Broker) -> None:
    """librdkafka asks in a version that does not know THROTTLING_QUOTA_EXCEEDED: it is served, and then waits."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "client.id": "builder"})
    limit(broker, "client-id", "builder", "controller_mutation_rate", 5)
    began = time.monotonic()
    # 55 partitions are free.
    for name, partitions in (("t0", 60), ("t1", 5), ("t2", 1)):
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(20)
    admin.delete_topics(["t0"])["t0"].result(20)

    assert time.monotonic() - began > 1.5


def test_an_address_that_connects_too_often_is_turned_away(broker: Broker) -> None:
    limit(broker, "ip", "127.0.0.1", "connection_creation_rate", 2)
    host, _, port = broker.bootstrap.rpartition(":")
    connections = [socket.create_connection((host, int(port)), timeout=10) for _ in range(30)]
    for connection in connections[20:]:
        connection.settimeout(5)
        # Not at once, and without an answer.
        connection.sendall(frame(raw.produce("t", raw.batch(RECORD)), 7, 1))
    turned_away = sum(ended(connection) for connection in connections[20:])
    for connection in connections:
        connection.close()

    assert turned_away >= 8
    # Who comes back later is let in.
    produce(broker, "anybody", 1)


def ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False
