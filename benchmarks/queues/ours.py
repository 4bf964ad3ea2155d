"""A queue of ours: the SDK's `Queue` on one broker, flush mode `ack`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from benchmarks.broker.target import Target, fresh_broker
from headrace import Consumer, Job, Queue

JOB = b"x" * 100
WORKERS = (1, 8, 64)
RATE = 1_000
BATCH = 1_000
REST_S = 5.0
Row = tuple[str, ...]


def rates(quick: bool) -> Iterator[Row]:
    count = 10_000 if quick else 100_000
    with fresh_broker("ack") as target:
        for workers in WORKERS:
            yield _row("one by one", workers, *_one_by_one(target, f"single-{workers}", count, workers), target)
        for workers in WORKERS[:2]:
            yield _row("in batches", workers, *_in_batches(target, f"batches-{workers}", count * 2, workers), target)


def _row(what: str, workers: int, count: int, seconds: float, cpu_s: float, target: Target) -> Row:
    return f"{target.name}, {what}", str(workers), f"{count / seconds:,.0f}", f"{cpu_s / count * 1e6:.1f}"


def _filled(target: Target, topic: str, count: int) -> Queue[bytes, bytes]:
    queue: Queue[bytes, bytes] = Queue(topic, group=topic, bootstrap=target.bootstrap)
    for begin in range(0, count, 10_000):
        queue.put_many([JOB] * min(10_000, count - begin))
    return queue


def _one_by_one(target: Target, topic: str, count: int, workers: int) -> tuple[int, float, float]:
    """A handler is called with each job."""
    done = 0
    lock = threading.Lock()

    def handler(job: Job[bytes, bytes]) -> None:
        nonlocal done
        with lock:
            done += 1
            is_last = done == count
        if is_last:
            queue.stop()

    queue = _filled(target, topic, count)
    first = queue.take(timeout=30)  # who joins a group waits for it; that is not what is measured
    assert first is not None
    first.release()
    began, cpu = time.perf_counter(), target.cpu_seconds()
    with queue:
        queue.work(handler, workers=workers)
    return count, time.perf_counter() - began, target.cpu_seconds() - cpu


def _in_batches(target: Target, topic: str, count: int, workers: int) -> tuple[int, float, float]:
    """Each worker takes what is there, up to a thousand jobs, and acknowledges them together."""
    left = count
    lock = threading.Lock()
    queue = _filled(target, topic, count)
    first = queue.take(timeout=30)
    assert first is not None
    first.release()

    def serve() -> None:
        nonlocal left
        while left > 0:
            jobs = queue.take_many(BATCH, timeout=0.5)
            for job in jobs:
                job.done()
            with lock:
                left -= len(jobs)

    began, cpu = time.perf_counter(), target.cpu_seconds()
    threads = [threading.Thread(target=serve) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.close()
    return count, time.perf_counter() - began, target.cpu_seconds() - cpu


def latency(quick: bool) -> Iterator[Row]:
    count = RATE * (3 if quick else 20)
    delays: list[float] = []

    def handler(job: Job[bytes, bytes]) -> None:
        delays.append(time.time() - float(job.value))
        if len(delays) == count:
            queue.stop()

    with fresh_broker("ack") as target, Queue("soon", group="soon", bootstrap=target.bootstrap) as queue:
        queue.put(b"%f" % time.time())
        first = queue.take(timeout=30)
        assert first is not None
        first.done()
        putting = threading.Thread(target=_put_steadily, args=(target, count))
        putting.start()
        queue.work(handler, workers=8)
        putting.join()
    yield spread(f"{target.name}, 8 workers", delays)


def _put_steadily(target: Target, count: int) -> None:
    from headrace import Producer

    with Producer(target.bootstrap, linger=0) as producer:
        began = time.perf_counter()
        for number in range(count):
            time.sleep(max(0.0, began + number / RATE - time.perf_counter()))
            producer.send("soon", b"%f" % time.time())


def spread(what: str, delays: list[float]) -> Row:
    ordered = sorted(delays)
    picked = (ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)], ordered[-1])
    return what, *(f"{each * 1000:.1f}" for each in picked)


def delayed(quick: bool) -> Iterator[Row]:
    """A million that wait an hour, then some that are due soon while they wait."""
    count = 10_000 if quick else 1_000_000
    due = 1_000
    with fresh_broker("ack") as target, Queue("later", group="later", bootstrap=target.bootstrap) as queue:
        queue.put(b"first", delay=3600)
        memory = target.memory_mb()
        began = time.perf_counter()
        _put_delayed(target, count)
        yield f"{count:,} put with a delay", f"{count / (time.perf_counter() - began):,.0f}", "jobs/s"
        yield "memory that they take", f"{target.memory_mb() - memory:.1f}", "MB"
        cpu = target.cpu_seconds()
        time.sleep(REST_S)
        yield "CPU while they wait", f"{(target.cpu_seconds() - cpu) / REST_S * 100:.2f}", "%"
        ordered = sorted(_late(target, due))
        yield f"late, p50 of {due:,}", f"{ordered[due // 2] * 1000:.1f}", "ms"
        yield f"late, p99 of {due:,}", f"{ordered[int(due * 0.99)] * 1000:.1f}", "ms"


def _put_delayed(target: Target, count: int) -> None:
    from headrace import Producer

    with Producer(target.bootstrap) as producer:
        for _ in range(count):
            producer.send("later", JOB, delay=3600)


def _late(target: Target, count: int) -> Iterator[float]:
    from headrace import Producer

    with (
        Consumer("later", bootstrap=target.bootstrap, start="latest") as consumer,
        Producer(target.bootstrap, linger=0) as producer,
    ):
        consumer.poll(0.5)
        begin = int(time.time() * 1000) + 3_000
        for number in range(count):
            at = begin + number * 5
            producer.send("later", b"%d" % at, at=at)
        producer.flush()
        for _, record in zip(range(count), consumer, strict=False):
            yield time.time() - int(record.value) / 1000
