"""How many brokers a load needs: a model of CPU, network and disk, fed with what was measured here.

The model is three sums.  A byte is taken in once, copied factor - 1 times and read by each consumer group; each of these costs
CPU seconds per gigabyte.  It crosses the network once to come in, once for each copy and once for each reader, and is written to
`factor` disks.  Partitions are spread evenly, so every broker carries its share.  `docs/capacity.md` says what that leaves out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import ceil

COLUMNS = ("in MB/s", "factor", "readers", "by CPU", "by network", "by disk", "brokers", "with one spare", "CPU cores busy")


@dataclass(frozen=True)
class Costs:
    """CPU seconds of brokers per gigabyte."""

    take_in: float
    copy: float  # by leader and follower together
    read: float


@dataclass(frozen=True)
class Machine:
    """One broker's machine, and how much of it may be used."""

    cores: float = 1.0  # the event loop is one thread; flushes and reads from disk wait beside it
    network_gb: float = 1.25  # each way, gigabytes a second: 10 Gbit
    disk_gb: float = 1.0  # written, gigabytes a second: one NVMe disk
    use: float = 0.7  # of each, so that a broker that fails, and a burst, find room


@dataclass(frozen=True)
class Load:
    """What a cluster is asked to carry."""

    gb: float  # taken in, gigabytes a second
    factor: int = 3
    readers: int = 1  # consumer groups that read everything


@dataclass(frozen=True)
class Need:
    """How many brokers each resource asks for."""

    cpu: float
    network: float
    disk: float
    cores_busy: float

    @property
    def brokers(self) -> int:
        return ceil(max(self.cpu, self.network, self.disk))


def cpu_seconds_per_gb(costs: Costs, factor: int, readers: int) -> float:
    return costs.take_in + (factor - 1) * costs.copy + readers * costs.read


def need(costs: Costs, load: Load, machine: Machine) -> Need:
    """Brokers for a load; at least as many as it has replicas."""
    busy = load.gb * cpu_seconds_per_gb(costs, load.factor, load.readers)
    incoming, outgoing = load.gb * load.factor, load.gb * (load.factor - 1 + load.readers)
    return Need(
        cpu=max(load.factor, busy / (machine.cores * machine.use)),
        network=max(load.factor, max(incoming, outgoing) / (machine.network_gb * machine.use)),
        disk=max(load.factor, load.gb * load.factor / (machine.disk_gb * machine.use)),
        cores_busy=busy,
    )


def throughput_gb(costs: Costs, brokers: int, factor: int, cores_each: float, readers: int = 0) -> float:
    """What so many brokers take in when CPU is what they lack, gigabytes a second."""
    return brokers * cores_each / cpu_seconds_per_gb(costs, factor, readers)


@cache
def measured_costs(quick: bool, size: int = 1024, batch: int | None = None) -> Costs:
    """From one broker and from three, with flush mode `os`: durable by replication."""
    from benchmarks.cluster.replication import figures

    count = (50_000 if quick else 200_000) * 1024 // (size if batch is None else 1024)
    alone, three = figures(1, "os", size, count, 1, batch), figures(3, "os", size, count, 1, batch)
    return Costs(take_in=alone.cpu_per_gb, copy=(three.cpu_per_gb - alone.cpu_per_gb) / 2, read=alone.read_cpu_per_gb)


def table(costs: Costs) -> Iterator[tuple[object, ...]]:
    for gigabytes in (0.05, 0.1, 0.3, 1.0):
        for readers in (1, 3):
            load = Load(gigabytes, readers=readers)
            found = need(costs, load, Machine())
            yield (
                *(f"{gigabytes * 1000:.0f}", load.factor, readers),
                *(f"{brokers:.1f}" for brokers in (found.cpu, found.network, found.disk)),
                *(found.brokers, found.brokers + 1, f"{found.cores_busy:.1f}"),
            )


def rows(quick: bool) -> Iterator[tuple[object, ...]]:
    costs = measured_costs(quick)
    print(f"CPU s/GB: {costs.take_in:.1f} to take in, {costs.copy:.1f} for each copy, {costs.read:.1f} for each reader")
    yield from table(costs)
