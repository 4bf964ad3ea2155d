"""The client's side of a measurement, in a process of its own: `python -m benchmarks.broker.load KIND JSON` prints JSON.

librdkafka with the settings of someone who wants throughput, or, for latency, of someone who wants that.
"""

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

MESSAGES_PER_CALL = 10_000
DISTINCT_VALUES = 1_000
WAIT_S = 120.0
WARM_UP_S = 1.0
QUEUED_MAX = 800_000
FAST = {
    "linger.ms": 10,
    "batch.size": 1_000_000,
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1_000_000,
}


def values(size: int) -> list[bytes]:
    """Values as events have them: alike, but no two the same; lz4 makes them about half as large."""
    made = []
    for number in range(DISTINCT_VALUES):
        text = (
            f'{{"order":{number * 7919},"user":"u{number * 31 % 977}","amount":{number * 13 % 9973}.{number % 100:02d},"note":"'
        )
        filler = f"{number * 2654435761 % 2**64:016x}" * (size // 16 + 1)
        made.append((text + filler)[: size - 2].encode() + b'"}')
    return made


def produce(
    bootstrap: str,
    topic: str,
    partitions: int,
    count: int,
    size: int,
    codec: str,
    acks: str = "all",
    batch: int | None = None,
    security: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Send `count` messages as fast as they go; evenly over the partitions, and at most so many in one batch."""
    settings: dict[str, Any] = {**FAST, "batch.num.messages": batch} if batch is not None else dict(FAST)
    settings = {**settings, **(security or {})}
    producer = Producer({**settings, "bootstrap.servers": bootstrap, "acks": acks, "compression.type": codec})
    producer.list_topics(topic, timeout=10)
    prepared = values(size)
    call = [
        {"value": prepared[number % DISTINCT_VALUES], "partition": number % partitions} for number in range(MESSAGES_PER_CALL)
    ]
    began = time.perf_counter()
    sent = 0
    while sent < count:
        try:
            taken = producer.produce_batch(topic, call)
        except BufferError:
            taken = 0
        sent += taken
        # What was delivered leaves the queue, which is limited in bytes too, only when it is looked at.
        if taken < len(call) or len(producer) > QUEUED_MAX:
            producer.poll(0.01)
    left = producer.flush(WAIT_S)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "messages": sent - left, "unacknowledged": left}


def in_parts(
    bootstrap: str, topic: str, partitions: int, count: int, size: int, each: int, transactional: bool, producers: int
) -> dict[str, Any]:
    """Send `count` messages from so many producers at once, each on its own in parts of so many messages.

    Every part is acknowledged, and committed if asked, before the next begins; `each` 0 is one part of everything.
    """
    prepared = values(size)
    length = each or MESSAGES_PER_CALL
    call = [{"value": prepared[number % DISTINCT_VALUES], "partition": number % partitions} for number in range(length)]
    share = count // producers
    settings = {**FAST, "bootstrap.servers": bootstrap, "acks": "all"}
    everyone = [
        Producer({**settings, "transactional.id": f"{topic}-{number}"} if transactional else settings)
        for number in range(producers)
    ]
    for producer in everyone:
        if transactional:
            producer.init_transactions(WAIT_S)
        producer.list_topics(topic, timeout=10)
    send = _send_committed if transactional else _send_acknowledged if each else _send_on
    began = time.perf_counter()
    with ThreadPoolExecutor(producers) as threads:
        sent = sum(threads.map(lambda producer: _send_all(producer, topic, call, share, send), everyone))
    return {
        "seconds": time.perf_counter() - began,
        "messages": sent,
        "unacknowledged": sum(len(producer) for producer in everyone),
    }


Call = list[dict[str, Any]]


def _send_all(producer: Producer, topic: str, call: Call, count: int, send: Callable[[Producer, str, Call], int]) -> int:
    sent = 0
    while sent < count:
        sent += send(producer, topic, call)
    producer.flush(WAIT_S)
    return sent


def _send_on(producer: Producer, topic: str, call: Call) -> int:
    if len(producer) > QUEUED_MAX:
        producer.poll(0.01)
        return 0
    return int(producer.produce_batch(topic, call))


def _send_acknowledged(producer: Producer, topic: str, call: Call) -> int:
    taken = int(producer.produce_batch(topic, call))
    assert taken == len(call), "a part fits into the queue"
    producer.flush(WAIT_S)
    return taken


def _send_committed(producer: Producer, topic: str, call: Call) -> int:
    producer.begin_transaction()
    taken = _send_acknowledged(producer, topic, call)
    producer.commit_transaction(WAIT_S)
    return taken


def consume(bootstrap: str, topic: str, partitions: int, count: int, security: dict[str, str] | None = None) -> dict[str, Any]:
    """Read `count` messages from the beginning as fast as they come."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 500_000,
            "fetch.queue.backoff.ms": 5,
            "fetch.message.max.bytes": 4_000_000,
            "check.crcs": False,
            **(security or {}),
        }
    )
    began = time.perf_counter()
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    got = size = 0
    deadline = time.monotonic() + WAIT_S
    while got < count and time.monotonic() < deadline:
        messages = consumer.consume(MESSAGES_PER_CALL, timeout=1.0)
        got += len(messages)
        if messages:
            size = len(messages[-1].value() or b"")
    seconds = time.perf_counter() - began
    consumer.close()
    return {"seconds": seconds, "messages": got, "size": size}


def pace(bootstrap: str, topic: str, rate: int, seconds: float, acks: str = "all") -> dict[str, Any]:
    """Send at a steady rate, each message with the time it was due: a producer that falls behind shows in the figures."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0})
    producer.list_topics(topic, timeout=10)
    total = int(rate * (seconds + WARM_UP_S))
    began = time.monotonic_ns()
    for number in range(total):
        due = began + number * 1_000_000_000 // rate
        while (wait := due - time.monotonic_ns()) > 0:
            producer.poll(0)
            if wait > 200_000:
                time.sleep(wait / 2e9)
        producer.produce(topic, due.to_bytes(8, "big") + bytes(92), partition=0)
    return {"unacknowledged": producer.flush(WAIT_S), "messages": total, "warm_up": int(rate * WARM_UP_S)}


def arrivals(bootstrap: str, topic: str, count: int, skip: int) -> dict[str, Any]:
    """Read what `pace` sends: the percentiles of due time to hand, in milliseconds."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False, "fetch.wait.max.ms": 100}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    taken: list[int] = []
    print("ready", flush=True)
    deadline = time.monotonic() + WAIT_S
    while len(taken) < count and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            taken.append(time.monotonic_ns() - int.from_bytes(message.value()[:8], "big"))
    consumer.close()
    measured = sorted(taken[skip:])
    return {name: measured[int(len(measured) * share)] / 1e6 for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))}


KINDS: dict[str, Callable[..., object]] = {
    "produce": produce,
    "in_parts": in_parts,
    "consume": consume,
    "pace": pace,
    "arrivals": arrivals,
}


if __name__ == "__main__":
    print(json.dumps(KINDS[sys.argv[1]](**json.loads(sys.argv[2]))), flush=True)
