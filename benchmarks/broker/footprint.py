"""How soon it serves, and how much memory it takes: idle, with 1,000 connections, with a backlog of 2 GiB being read."""

import socket
import statistics
from collections.abc import Iterator
from contextlib import ExitStack

from confluent_kafka.admin import NewTopic

from benchmarks.broker.target import API_VERSIONS_FRAME, Target, data_directory, serving
from benchmarks.broker.throughput import quiet_admin, run_client

COLUMNS = ("what", "figure", "unit")
CONNECTIONS = 1_000


def rows(quick: bool, peers: list[Target]) -> Iterator[tuple[object, ...]]:
    """Only of ours: a peer is not ours to start and stop."""
    yield "start to first answer, empty (median of 5)", f"{statistics.median(_start_seconds() for _ in range(5)):.2f}", "s"
    with data_directory() as data, serving(data, "ack") as (target, _):
        yield "memory, idle", f"{target.memory_mb():.0f}", "MB"
        yield f"memory, {CONNECTIONS:,} connections", f"{_with_connections(target):.0f}", "MB"
    yield from _backlog(256 << 20 if quick else 2 << 30)


def _start_seconds() -> float:
    with data_directory() as data, serving(data, "ack") as (_, seconds):
        return seconds


def _with_connections(target: Target) -> float:
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            connection = stack.enter_context(socket.create_connection(target.address, 10))
            connection.sendall(API_VERSIONS_FRAME)
            connection.recv(65536)
        return target.memory_mb()


def _backlog(size_bytes: int) -> Iterator[tuple[object, ...]]:
    """Write a backlog, start anew so that the peak is the reader's, and read all of it."""
    name = f"{size_bytes / (1 << 30):.3g} GiB"
    count = size_bytes // 1024
    with data_directory() as data:
        with serving(data, "os") as (target, _):
            admin = quiet_admin(target)
            admin.create_topics([NewTopic("backlog", 12, 1)])["backlog"].result(30)
            run_client(
                "produce", bootstrap=target.bootstrap, topic="backlog", partitions=12, count=count, size=1024, codec="none"
            )
            yield f"peak memory, {name} written", f"{target.memory_mb('VmHWM'):.0f}", "MB"
        with serving(data, "os") as (target, seconds):
            yield f"start to first answer, {name} there", f"{seconds:.2f}", "s"
            run_client("consume", bootstrap=target.bootstrap, topic="backlog", partitions=12, count=count)
            yield f"peak memory, {name} read", f"{target.memory_mb('VmHWM'):.0f}", "MB"
