"""Three brokers on one machine, factor 3, against one broker: throughput, latency, and what replication costs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.broker.load import WARM_UP_S
from benchmarks.broker.target import data_directory
from benchmarks.broker.throughput import run_client
from headrace.testing.cluster import ProcessCluster
from headrace.testing.histories import create_topic

COLUMNS = (
    *("brokers", "flush", "bytes", "produced/s", "MB/s", "to one", "consumed/s"),
    *("p50 ms", "p99 ms", "brokers' CPU s/GB", "replication CPU s/GB copied"),
)
PARTITIONS = 6
PACE = 1_000


@dataclass(frozen=True)
class Figures:
    """What one cluster did."""

    produced: float  # messages per second
    consumed: float
    megabytes: float  # produced per second
    cpu_per_gb: float  # of all brokers, to take a gigabyte in
    read_cpu_per_gb: float  # of all brokers, to hand a gigabyte to a consumer
    p50_ms: float
    p99_ms: float


def rows(quick: bool) -> Iterator[tuple[object, ...]]:
    for size, count in ((100, 1_000_000), (1024, 200_000)):
        for flush in ("ack", "os"):
            alone = figures(1, flush, size, count // 4 if quick else count, 3 if quick else 10)
            yield _row(1, flush, size, alone, alone)
            yield _row(3, flush, size, figures(3, flush, size, count // 4 if quick else count, 3 if quick else 10), alone)


def _row(brokers: int, flush: str, size: int, found: Figures, alone: Figures) -> tuple[object, ...]:
    # Two followers copy what the leader takes in; what three brokers spend beyond what one spends is the price of that.
    copied = f"{(found.cpu_per_gb - alone.cpu_per_gb) / (brokers - 1):.1f}" if brokers > 1 else "-"
    return (
        *(brokers, flush, size, f"{found.produced:,.0f}", f"{found.megabytes:.0f}", f"{found.produced / alone.produced:.2f}"),
        *(f"{found.consumed:,.0f}", f"{found.p50_ms:.2f}", f"{found.p99_ms:.2f}", f"{found.cpu_per_gb:.1f}", copied),
    )


@contextmanager
def cluster_of(brokers: int, flush: str) -> Iterator[ProcessCluster]:
    settings = {"headrace.flush": flush, "min.insync.replicas": str(min(2, brokers))}
    with data_directory() as directory, ProcessCluster(directory / "cluster", broker_count=brokers, settings=settings) as cluster:
        yield cluster


def figures(brokers: int, flush: str, size: int, count: int, seconds: int, batch: int | None = None) -> Figures:
    with cluster_of(brokers, flush) as cluster:
        create_topic(cluster.bootstrap, "t", PARTITIONS, min(3, brokers))
        settled = cpu_seconds(cluster)
        shape = {"bootstrap": cluster.bootstrap, "topic": "t", "partitions": PARTITIONS}
        produced = run_client("produce", **shape, count=count, size=size, codec="none", batch=batch)
        if produced["unacknowledged"]:
            raise SystemExit(f"{produced['unacknowledged']} messages were not acknowledged: the figures would be wrong")
        spent = cpu_seconds(cluster) - settled
        consumed = run_client("consume", **shape, count=produced["messages"])
        spent_reading = cpu_seconds(cluster) - settled - spent
        create_topic(cluster.bootstrap, "paced", 1, min(3, brokers))
        latency = paced(cluster.bootstrap, seconds)
    return Figures(
        produced=produced["messages"] / produced["seconds"],
        consumed=consumed["messages"] / consumed["seconds"],
        megabytes=produced["messages"] * size / produced["seconds"] / 1e6,
        cpu_per_gb=spent / (produced["messages"] * size / 1e9),
        read_cpu_per_gb=spent_reading / (produced["messages"] * size / 1e9),
        p50_ms=latency["p50"],
        p99_ms=latency["p99"],
    )


def paced(bootstrap: str, seconds: int) -> dict[str, float]:
    """From the producer's hand to the consumer's, at a steady rate."""
    arguments = {
        "bootstrap": bootstrap,
        "topic": "paced",
        "count": int(PACE * (seconds + WARM_UP_S)),
        "skip": int(PACE * WARM_UP_S),
    }
    command = [sys.executable, "-m", "benchmarks.broker.load", "arrivals", json.dumps(arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
        assert consumer.stdout is not None
        consumer.stdout.readline()
        run_client("pace", bootstrap=bootstrap, topic="paced", rate=PACE, seconds=seconds)
        measured: dict[str, float] = json.loads(consumer.stdout.readline())
    return measured


def cpu_seconds(cluster: ProcessCluster) -> float:
    """What the brokers, not etcd, have used so far."""
    ticks = 0
    for broker in cluster.brokers.values():
        assert broker.process is not None
        with open(f"/proc/{broker.process.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
