"""The bare client, used as somebody would who wants to know what became of each record."""

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, Message, Producer

VALUE = b"x" * 100
CHUNK = 1000
FETCH = {"fetch.queue.backoff.ms": 5, "queued.min.messages": 1_000_000, "fetch.wait.max.ms": 100}


def settings(bootstrap: str, batch: int) -> dict[str, object]:
    """What the SDK sets too: the comparison is of the layers, not of the settings."""
    return {
        "bootstrap.servers": bootstrap,
        "linger.ms": 100,
        "batch.num.messages": batch,
        "enable.idempotence": True,
        "queue.buffering.max.messages": 100_000,
        "sticky.partitioning.linger.ms": 10,
        "partitioner": "murmur2_random",
    }


class Reports:
    """Counts what was acknowledged."""

    def __init__(self) -> None:
        self.delivered = 0

    def __call__(self, error: object, message: Message) -> None:
        assert error is None, error
        self.delivered += 1


def warm(bootstrap: str, topic: str, batch: int) -> Producer:
    """Connected, with its producer id and the topic's leader known: getting there takes part of a second."""
    producer = Producer(settings(bootstrap, batch))
    producer.produce(topic, b"warm")
    producer.flush()
    return producer


def produce(bootstrap: str, topic: str, count: int, batch: int) -> float:
    """One call for each record."""
    producer, reports = warm(bootstrap, topic, batch), Reports()
    begin = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, VALUE, on_delivery=reports)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    assert reports.delivered == count
    return time.perf_counter() - begin


def produce_batches(bootstrap: str, topic: str, count: int, batch: int) -> float:
    """A call for each thousand."""
    producer, reports = warm(bootstrap, topic, batch), Reports()
    begin = time.perf_counter()
    for _ in range(0, count, CHUNK):
        while len(producer) > 90_000:
            producer.poll(0.01)
        producer.produce_batch(topic, [{"value": VALUE} for _ in range(CHUNK)], on_delivery=reports)
        producer.poll(0)
    producer.flush()
    assert reports.delivered == count
    return time.perf_counter() - begin


def consume(bootstrap: str, topic: str, count: int) -> float:
    """Messages by the thousand, each looked at for an error and its value."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"bare-{time.time_ns()}", "auto.offset.reset": "earliest", **FETCH}
    )
    consumer.subscribe([topic])
    seen = len(first(consumer))
    begin = time.perf_counter()
    while seen < count:
        for message in consumer.consume(min(CHUNK, count - seen), 1.0):
            if message.error() is None and message.value():
                seen += 1
    took = time.perf_counter() - begin
    consumer.close()
    return took


def first(consumer: Consumer) -> list[Message]:
    """Joining the group is not part of reading."""
    while True:
        messages: list[Message] = [message for message in consumer.consume(1, 1.0) if message.error() is None]
        if messages:
            return messages


def round_trips(bootstrap: str, topic: str, count: int) -> Iterator[float]:
    """Seconds from a send to its acknowledgement, one at a time."""
    producer = Producer({**settings(bootstrap, 1), "linger.ms": 0})
    for _ in range(count):
        done: list[object] = []
        begin = time.perf_counter()
        producer.produce(topic, VALUE, on_delivery=lambda error, message, done=done: done.append(message))
        while not done:
            producer.poll(1)
        yield time.perf_counter() - begin
