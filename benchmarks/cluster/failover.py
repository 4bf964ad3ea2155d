"""A leader is killed (`kill -9`), with default settings: how long a producer and a consumer of its partitions wait."""

import statistics
import time
from collections.abc import Iterator

from benchmarks.broker.target import data_directory
from headrace.testing.cluster import ProcessCluster
from headrace.testing.histories import Load, ReadAlong, check, create_topic, leader_of, longest_gap, read_all, wait_for_in_sync

COLUMNS = ("what", "rounds", "median s", "worst s", "records", "lost", "doubled")
PARTITIONS = 3


def rows(quick: bool) -> Iterator[tuple[object, ...]]:
    rounds = 3 if quick else 20
    with data_directory() as directory, ProcessCluster(directory / "cluster", etcd_members=3) as cluster:
        create_topic(cluster.bootstrap, "t", PARTITIONS, 3, min_insync_replicas="2")
        with (
            ReadAlong(cluster.bootstrap, "t", PARTITIONS) as along,
            Load(cluster.bootstrap, "t", PARTITIONS, per_second=1_000) as load,
        ):
            waits = [kill_one(cluster, load, along) for _ in range(rounds)]
        check(load, read_all(cluster.bootstrap, "t", PARTITIONS), along)
        records = sum(map(len, load.acknowledged.values()))
    # The check above ends all this when anything is lost or doubled.
    for what, seconds in (("a producer", [wait[0] for wait in waits]), ("a consumer", [wait[1] for wait in waits])):
        yield what, rounds, f"{statistics.median(seconds):.2f}", f"{max(seconds):.2f}", records, 0, 0


def kill_one(cluster: ProcessCluster, load: Load, along: ReadAlong) -> tuple[float, float]:
    """Seconds that the longest of all partitions was of no use, to whoever writes and to whoever reads."""
    load.wait_for(200)
    victim = leader_of(cluster.bootstrap, "t")
    since = time.monotonic() - 0.5
    cluster.brokers[victim].kill()
    load.wait_for(200)
    cluster.brokers[victim].start()
    cluster.brokers[victim].wait_until_ready()
    wait_for_in_sync(cluster.brokers[victim % 3 + 1].address, "t", 3)
    return (
        max(load.longest_gap(partition, since) for partition in range(PARTITIONS)),
        max(longest_gap([moment for moment in along.seen_at[p] if moment >= since]) for p in range(PARTITIONS)),
    )
