"""What a run consists of: the cluster, its clients and its faults, chosen by the seed."""

import random
from dataclasses import dataclass, field

from simulation.faults.nemesis import Faults
from simulation.side_topics import SOMETIMES

TOPIC = "events"
REPLICATION_FACTOR = 3
# Most stories are short; what takes several crashes of the same disk to go wrong takes a long one.
FAULT_SECONDS = (6.0, 6.0, 6.0, 6.0, 6.0, 30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run consists of; by default the seed decides."""

    brokers: int = 3
    partitions: int = 2
    min_insync_replicas: int = 2
    flush: str = "ack"
    segment_bytes: int = 1 << 20
    producers: int = 2
    in_flight_max: int = 1
    careless: int = 0
    transactors: int = 1
    shared_transactional_id: bool = False
    transaction_version: int = 2
    consumers: int = 1
    members: int = 0
    heartbeating: int = 0
    racks: bool = False
    side_topics: tuple[str, ...] = ()
    isolated: bool = True
    # Everybody signs in, and rules say who may do what.
    is_closed: bool = False
    fault_seconds: float = FAULT_SECONDS[0]
    pause_s: tuple[float, float] = (0.2, 0.9)
    faults: Faults = field(default_factory=Faults)

    def described(self) -> list[str]:
        """For people."""
        clients = {
            "producers": self.producers,
            "careless producers": self.careless,
            f"transactional producers (version {self.transaction_version})": self.transactors,
            "consumers": self.consumers,
            "members of a classic group": self.members,
            "members of a KIP-848 group": self.heartbeating,
        }
        return [
            f"{self.brokers} brokers{', in racks' if self.racks else ''}{', closed' if self.is_closed else ''}; "
            f"{TOPIC} has {self.partitions} partition(s), "
            f"min.insync.replicas {self.min_insync_replicas}, flush {self.flush}, segments of {self.segment_bytes} bytes",
            "clients: " + ", ".join(f"{count} {what}" for what, count in clients.items() if count),
            f"beside it: {', '.join(self.side_topics) or 'nothing'}; for {self.fault_seconds:g} s there is {self.faults}",
        ]

    @staticmethod
    def of_seed(chance: random.Random, fault_seconds: float | None = None) -> "Plan":
        # Where nothing is flushed before it is acknowledged, a power failure of several brokers may lose it, and is not tried.
        flush = chance.choice(["ack", "ack", "ack", "os"])
        # Where one broker alone may acknowledge, what its disk forgets is lost.
        minimum = chance.choice([1, 2, 2, 2])
        return Plan(
            brokers=chance.choice([3, 3, 4]),
            partitions=chance.choice([1, 2, 3]),
            flush=flush,
            min_insync_replicas=minimum,
            segment_bytes=chance.choice([1 << 20, 2048, 700]),
            careless=chance.choice([0, 1]),
            in_flight_max=chance.choice([1, 1, 4]),
            transactors=chance.choice([0, 1, 1, 2]),
            shared_transactional_id=chance.choice([True, False]),
            transaction_version=chance.choice([1, 2, 2]),
            consumers=chance.choice([0, 1, 1]),
            members=chance.choice([0, 0, 2]),
            heartbeating=chance.choice([0, 0, 2]),
            racks=chance.choice([True, False, False]),
            side_topics=tuple(chance.sample(list(SOMETIMES), chance.choice([0, 1, 1, 2]))),
            isolated=chance.choice([True, False]),
            fault_seconds=chance.choice(FAULT_SECONDS) if fault_seconds is None else fault_seconds,
            faults=Faults(power_failures=flush == "ack", disk_errors=flush == "ack", rot=flush == "ack" and minimum > 1),
        )
