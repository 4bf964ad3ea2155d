"""Redis and RabbitMQ with the same jobs, as safe as they can be made: on disk before a put is acknowledged."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.broker.target import Target, data_directory, free_port
from benchmarks.queues.ours import JOB, RATE, WORKERS, Row, spread

START_S = 60.0
PREFETCH = 100


def redis_rates(quick: bool) -> Iterator[Row]:
    """A list; each job is moved to a second one while somebody works on it, and taken from there when it is done."""
    count = 10_000 if quick else 50_000
    with _redis() as target:
        if target is None:
            yield "Redis is not installed (redis-server)", "", "", ""
            return
        for workers in WORKERS:
            client = _redis_client(target)
            pipe = client.pipeline()
            for _ in range(count):
                pipe.lpush("jobs", JOB)
            pipe.execute()
            began, cpu = time.perf_counter(), target.cpu_seconds()
            _beside(workers, lambda: _drain_redis(_redis_client(target)))
            took = time.perf_counter() - began
            yield _row(target, workers, count, took, cpu)


def _drain_redis(client: Any) -> None:
    while (job := client.lmove("jobs", "working", "RIGHT", "LEFT")) is not None:
        client.lrem("working", 1, job)


def redis_latency(quick: bool) -> Iterator[Row]:
    count = RATE * (3 if quick else 20)
    delays: list[float] = []
    with _redis() as target:
        if target is None:
            return

        def work() -> None:
            client = _redis_client(target)
            while len(delays) < count:
                job = client.blmove("soon", "working", 1, "RIGHT", "LEFT")
                if job is not None:
                    delays.append(time.time() - float(job))
                    client.lrem("working", 1, job)

        putting = _redis_client(target)
        _steadily(count, lambda: putting.lpush("soon", b"%f" % time.time()), 8, work)
    yield spread("Redis (appendfsync always), 8 workers", delays)


def rabbitmq_rates(quick: bool) -> Iterator[Row]:
    """A durable queue, persistent messages with publisher confirms, each acknowledged by itself."""
    count = 5_000 if quick else 50_000
    with _rabbitmq() as target:
        if target is None:
            yield "RabbitMQ is not installed (rabbitmq-server)", "", "", ""
            return
        for workers in WORKERS:
            _fill_rabbitmq(target, count)
            left = [count]
            began, cpu = time.perf_counter(), target.cpu_seconds()
            _beside(workers, lambda: _drain_rabbitmq(target, left))  # noqa: B023 - it has ended when the next begins
            yield _row(target, workers, count, time.perf_counter() - began, cpu)


def _fill_rabbitmq(target: Target, count: int) -> None:
    import pika

    channel = _rabbitmq_channel(target)
    for _ in range(count):
        channel.basic_publish("", "jobs", JOB, pika.BasicProperties(delivery_mode=2))
    channel.connection.close()


def _drain_rabbitmq(target: Target, left: list[int]) -> None:
    channel = _rabbitmq_channel(target)
    channel.basic_qos(prefetch_count=PREFETCH)
    for method, _, _ in channel.consume("jobs", inactivity_timeout=0.5):
        if method is None:
            break
        channel.basic_ack(method.delivery_tag)
        left[0] -= 1
    channel.cancel()
    channel.connection.close()


def rabbitmq_latency(quick: bool) -> Iterator[Row]:
    if _rabbitmq_binary() is None:
        return
    import pika

    count = RATE * (3 if quick else 20)
    delays: list[float] = []
    with _rabbitmq() as target:
        assert target is not None

        def work() -> None:
            channel = _rabbitmq_channel(target)
            channel.basic_qos(prefetch_count=1)
            for method, _, body in channel.consume("jobs", inactivity_timeout=1):
                if method is not None:
                    delays.append(time.time() - float(body))
                    channel.basic_ack(method.delivery_tag)
                if len(delays) >= count:
                    break
            channel.cancel()
            channel.connection.close()

        putting = _rabbitmq_channel(target)
        durable = pika.BasicProperties(delivery_mode=2)
        _steadily(count, lambda: putting.basic_publish("", "jobs", b"%f" % time.time(), durable), 8, work)
    yield spread("RabbitMQ, 8 workers", delays)


def _row(target: Target, workers: int, count: int, seconds: float, cpu_before: float) -> Row:
    cpu_s = target.cpu_seconds() - cpu_before
    return f"{target.name}, one by one", str(workers), f"{count / seconds:,.0f}", f"{cpu_s / count * 1e6:.1f}"


def _beside(workers: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _steadily(count: int, put: Callable[[], object], workers: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    began = time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, began + number / RATE - time.perf_counter()))
        put()
    for thread in threads:
        thread.join()


@contextmanager
def _redis() -> Iterator[Target | None]:
    binary = shutil.which("redis-server")
    if binary is None:
        yield None
        return
    port = free_port()
    with data_directory() as data:
        command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(data), "--save", ""]
        command += ["--appendonly", "yes", "--appendfsync", "always"]
        with _running(command, port, "Redis (appendfsync always)", data) as target:
            yield target


def _redis_client(target: Target) -> Any:
    import redis

    return redis.Redis(port=target.address[1])


def _rabbitmq_binary() -> str | None:
    return shutil.which("rabbitmq-server") or shutil.which("/usr/lib/rabbitmq/bin/rabbitmq-server")


@contextmanager
def _rabbitmq() -> Iterator[Target | None]:
    binary = _rabbitmq_binary()
    if binary is None:
        yield None
        return
    port, other = free_port(), free_port()
    with data_directory() as data:
        environment = {
            "RABBITMQ_NODENAME": f"bench-{port}@localhost",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": str(other),
            "RABBITMQ_MNESIA_BASE": str(data),
            "RABBITMQ_LOG_BASE": str(data),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(data / "none"),
            "HOME": str(data),
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        }
        with _running([binary], port, "RabbitMQ", data, environment) as target:
            yield target


def _rabbitmq_channel(target: Target) -> Any:
    import pika

    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", target.address[1]))
    channel = connection.channel()
    channel.queue_declare("jobs", durable=True)
    channel.confirm_delivery()
    return channel


@contextmanager
def _running(command: list[str], port: int, name: str, data: Path, environment: dict[str, str] | None = None) -> Iterator[Target]:
    with (data / "output").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
        try:
            deadline = time.monotonic() + START_S
            while time.monotonic() < deadline:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield Target(name, f"127.0.0.1:{port}", process.pid)
        finally:
            process.terminate()
            process.wait(START_S)
