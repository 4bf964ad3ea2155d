"""The SDK, used as its guides say."""

import threading
import time
from collections.abc import Callable, Iterator

from benchmarks.sdk.bare import CHUNK, VALUE
from headrace import Consumer, Producer


def send(bootstrap: str, topic: str, count: int, batch: int) -> float:
    """A future for each record."""
    with Producer(bootstrap, batch_messages=batch) as producer:
        producer.send(topic, b"warm").result(30)
        begin = time.perf_counter()
        for _ in range(count):
            producer.send(topic, VALUE)
        producer.flush()
        return time.perf_counter() - begin


def send_many(bootstrap: str, topic: str, count: int, batch: int) -> float:
    """A future for each thousand."""
    with Producer(bootstrap, batch_messages=batch) as producer:
        producer.send(topic, b"warm").result(30)
        begin = time.perf_counter()
        futures = [producer.send_many(topic, [VALUE] * CHUNK) for _ in range(0, count, CHUNK)]
        producer.flush()  # as the bare client does: without it the last batch would wait for its linger
        assert sum(len(future.result(60)) for future in futures) == count
        return time.perf_counter() - begin


def batches(bootstrap: str, topic: str, count: int) -> float:
    """Lists of a thousand records, each looked at for its value."""
    with Consumer(topic, bootstrap=bootstrap, group=f"ours-{time.time_ns()}") as consumer:
        assert consumer.poll(30) is not None
        seen, begin = 1, time.perf_counter()
        while seen < count:
            for record in consumer.batch(min(CHUNK, count - seen), 1.0):
                if record.value:
                    seen += 1
        return time.perf_counter() - begin


def iterate(bootstrap: str, topic: str, count: int) -> float:
    """One record after the other."""
    with Consumer(topic, bootstrap=bootstrap, group=f"ours-{time.time_ns()}") as consumer:
        assert consumer.poll(30) is not None
        begin = time.perf_counter()
        for seen, record in enumerate(consumer, 2):
            assert record.value
            if seen >= count:
                break
        return time.perf_counter() - begin


def push(bootstrap: str, topic: str, count: int, workers: int, work: Callable[[], object]) -> float:
    """Callbacks from several threads."""
    done, seen, lock = threading.Event(), 0, threading.Lock()
    begin = 0.0

    def handle(_record: object) -> None:
        nonlocal seen, begin
        work()
        with lock:
            begin = begin or time.perf_counter()
            seen += 1
            if seen == count:
                done.set()

    with (
        Consumer(topic, bootstrap=bootstrap, group=f"push-{time.time_ns()}") as consumer,
        consumer.on_message(handle, workers=workers),
    ):
        assert done.wait(300)
        return time.perf_counter() - begin


def round_trips(bootstrap: str, topic: str, count: int) -> Iterator[float]:
    """Seconds from a send to its acknowledgement, one at a time."""
    with Producer(bootstrap, linger=0) as producer:
        for _ in range(count):
            begin = time.perf_counter()
            producer.send(topic, VALUE).result(10)
            yield time.perf_counter() - begin
