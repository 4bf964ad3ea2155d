"""How many messages a second go in and come out, and what a million of them costs the broker."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any
from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.broker.target import Target, fresh_broker

COLUMNS = ("broker", "bytes", "partitions", "codec", "produced/s", "MB/s", "CPU s/M", "consumed/s", "MB/s", "CPU s/M", "peak MB")


@dataclass(frozen=True)
class Shape:
    """One row of the table."""

    size: int
    partitions: int
    codec: str
    count: int


def shapes(quick: bool) -> Iterator[Shape]:
    for size, partitions, codec in product((100, 1024), (1, 12, 200), ("none", "lz4")):
        count = 2_000_000 if size == 100 else 300_000
        yield Shape(size, partitions, codec, count // 4 if quick else count)


def run_client(kind: str, **arguments: Any) -> dict[str, Any]:
    """Run one load in a process of its own; what it measured."""
    command = [sys.executable, "-m", "benchmarks.broker.load", kind, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise SystemExit(f"{kind} failed: {done.stderr}")
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def quiet_admin(target: Target) -> AdminClient:
    """A client that does not remark upon its broker going away, as it does after every row."""
    logger = logging.Logger("librdkafka")
    logger.addHandler(logging.NullHandler())
    return AdminClient({"bootstrap.servers": target.bootstrap, "logger": logger})


@contextmanager
def temporary_topic(target: Target, partitions: int) -> Iterator[str]:
    """A topic that nobody else uses, gone afterwards: a peer is left as it was found."""
    topic = f"bench-{uuid4().hex[:12]}"
    admin = quiet_admin(target)
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
    try:
        yield topic
    finally:
        admin.delete_topics([topic])[topic].result(30)


def rows(quick: bool, peers: list[Target]) -> Iterator[tuple[object, ...]]:
    """Every shape with a fresh broker for each flush mode, and with each peer."""
    for shape in shapes(quick):
        for flush in ("ack", "os"):
            with fresh_broker(flush) as target:
                yield measure(target, shape)
        for peer in peers:
            yield measure(peer, shape)


def measure(target: Target, shape: Shape) -> tuple[object, ...]:
    with temporary_topic(target, shape.partitions) as topic:
        return _measure(target, shape, topic)


def _measure(target: Target, shape: Shape, topic: str) -> tuple[object, ...]:
    settled = target.cpu_seconds()
    produced = run_client(
        "produce",
        bootstrap=target.bootstrap,
        topic=topic,
        partitions=shape.partitions,
        count=shape.count,
        size=shape.size,
        codec=shape.codec,
    )
    if produced["unacknowledged"]:
        raise SystemExit(f"{produced['unacknowledged']} messages were not acknowledged: the figures would be wrong")
    wrote = target.cpu_seconds()
    consumed = run_client(
        "consume", bootstrap=target.bootstrap, topic=topic, partitions=shape.partitions, count=produced["messages"]
    )
    if consumed["messages"] < produced["messages"]:
        raise SystemExit(f"only {consumed['messages']} of {produced['messages']} messages came back: the figures would be wrong")
    read = target.cpu_seconds()
    return (
        target.name,
        shape.size,
        shape.partitions,
        shape.codec,
        *_rates(produced, shape.size, wrote - settled),
        *_rates(consumed, shape.size, read - wrote),
        f"{target.memory_mb('VmHWM'):.0f}",
    )


def _rates(measured: dict[str, Any], size: int, cpu_seconds: float) -> tuple[str, str, str]:
    a_second = measured["messages"] / measured["seconds"]
    return f"{a_second:,.0f}", f"{a_second * size / 1e6:,.0f}", f"{cpu_seconds / measured['messages'] * 1e6:.2f}"
