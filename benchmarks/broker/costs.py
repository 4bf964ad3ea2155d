"""What one thing costs the broker that is asked for it, in CPU seconds: for comparisons, in which it is asked again and again."""

import socket
from typing import Any

from benchmarks.broker.requests import exchange
from benchmarks.broker.target import Target
from benchmarks.broker.throughput import run_client, temporary_topic

REQUESTS_S = 0.3
PARTITIONS = 12


def of_a_request(target: Target, connection: socket.socket, frame: bytes, in_flight: int) -> float:
    """Of one request, with so many under way."""
    before = target.cpu_seconds()
    answered, _ = exchange(connection, frame, in_flight, REQUESTS_S)
    used = target.cpu_seconds() - before
    _drain(connection)
    return used / answered


def _drain(connection: socket.socket) -> None:
    """The replies of requests that were under way when the time was over."""
    connection.settimeout(0.1)
    try:
        while connection.recv(1 << 18):
            pass
    except TimeoutError:
        connection.settimeout(10)


def of_a_million(target: Target, size: int, count: int) -> tuple[float, float]:
    """Of a million messages by librdkafka: written, and read."""
    with temporary_topic(target, PARTITIONS) as topic:
        began = target.cpu_seconds()
        run_client("produce", size=size, codec="none", **_asked_for(target, topic, count))
        return (target.cpu_seconds() - began) / count * 1e6, of_a_million_read(target, topic, count)


def of_a_million_read(target: Target, topic: str, count: int) -> float:
    """Of a million messages by librdkafka, of so many that are there."""
    began = target.cpu_seconds()
    run_client("consume", **_asked_for(target, topic, count))
    return (target.cpu_seconds() - began) / count * 1e6


def _asked_for(target: Target, topic: str, count: int) -> dict[str, Any]:
    return {"bootstrap": target.bootstrap, "topic": topic, "partitions": PARTITIONS, "count": count}
