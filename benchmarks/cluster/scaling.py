"""Throughput grows with brokers: each is held to a small share of a core, so that brokers, not the machine, are what is scarce.

The shares are enforced by the kernel (control groups), so this needs root.  What the capacity model predicts stands beside it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker.throughput import run_client
from benchmarks.cluster.capacity import measured_costs, throughput_gb
from benchmarks.cluster.replication import cluster_of
from headrace.testing.cluster import ProcessCluster
from headrace.testing.histories import create_topic

COLUMNS = ("brokers", "factor", "core each", "MB/s", "to one", "model MB/s", "off by")
GROUPS = Path("/sys/fs/cgroup/cpu")  # version 1
UNIFIED = Path("/sys/fs/cgroup")  # version 2
PERIOD_US = 20_000
SHARE = 0.15
PARTITIONS = 12
# Small batches cost brokers much and the client little, which has only what is left of the machine.
MESSAGE_BYTES = 100
BATCH = 20


@dataclass(frozen=True)
class Point:
    brokers: int
    factor: int


POINTS = (Point(1, 1), Point(2, 1), Point(3, 1), Point(3, 2), Point(3, 3))


def rows(quick: bool) -> Iterator[tuple[object, ...]]:
    if (reason := why_no_shares()) is not None:
        yield (reason, *("-",) * (len(COLUMNS) - 1))
        return
    costs = measured_costs(quick, MESSAGE_BYTES, BATCH)
    first = 0.0
    for point in POINTS:
        # As many for each broker, so that every point lasts about as long and its beginning weighs the same.
        megabytes = measure(point, (150_000 if quick else 600_000) * point.brokers // point.factor)
        first = first or megabytes
        model = throughput_gb(costs, point.brokers, point.factor, cores_each=SHARE) * 1000
        yield (
            *(point.brokers, point.factor, SHARE, f"{megabytes:.1f}", f"{megabytes / first:.2f}"),
            *(f"{model:.1f}", f"{(megabytes - model) / model:+.0%}"),
        )


def measure(point: Point, count: int) -> float:
    """Megabytes a second that the cluster takes in."""
    with cluster_of(point.brokers, "os") as cluster:
        create_topic(cluster.bootstrap, "t", PARTITIONS, point.factor)
        with held_back(cluster):
            shape = {"bootstrap": cluster.bootstrap, "topic": "t", "partitions": PARTITIONS}
            done = run_client("produce", **shape, count=count, size=MESSAGE_BYTES, codec="none", batch=BATCH)
    return float(done["messages"] * MESSAGE_BYTES / done["seconds"] / 1e6)


def why_no_shares() -> str | None:
    if os.geteuid() != 0:
        return "needs root"
    version_1 = (GROUPS / "cpu.cfs_quota_us").exists() or (GROUPS / "cgroup.procs").exists()
    version_2 = (UNIFIED / "cgroup.controllers").exists() and "cpu" in (UNIFIED / "cgroup.subtree_control").read_text()
    return None if version_1 or version_2 else "no control groups for CPU here"


@contextmanager
def held_back(cluster: ProcessCluster) -> Iterator[None]:
    """Let every broker have its share and no more."""
    groups = []
    try:
        for broker in cluster.brokers.values():
            assert broker.process is not None
            groups.append(_group(f"headrace-{os.getpid()}-{broker.broker_id}", broker.process.pid))
        yield
    finally:
        for broker in cluster.brokers.values():
            broker.kill()
        for group in groups:
            group.rmdir()


def _group(name: str, process: int) -> Path:
    quota = int(PERIOD_US * SHARE)
    if GROUPS.is_dir():
        group = GROUPS / name
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota))
    else:
        group = UNIFIED / name
        group.mkdir()
        (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
    (group / "cgroup.procs").write_text(str(process))
    return group
