"""Which brokers hold a partition: consistent hashing over virtual nodes, with bounded load and racks spread.

A partition is a point on a ring of brokers; its replicas are the next brokers on the ring that have room.  "Room" has two bounds:
within a topic no broker gets more than its even share, and in the whole cluster no more than a quarter above it.  Where a bound
and the spread over racks cannot both be had, racks win: losing a rack must not lose a partition.  The same input gives the same
placement on every broker.
"""

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from headrace.model.errors import ErrorCode, RequestError

VIRTUAL_NODES = 64
CLUSTER_SLACK = 1.25


def place(
    name: str,
    indexes: range,
    replication_factor: int,
    racks: Mapping[int, str | None],
    replica_load: Mapping[int, int],
    leader_load: Mapping[int, int],
) -> list[tuple[int, ...]]:
    """Replicas for each partition of a topic, the preferred leader first.  `racks` names the brokers that may be chosen."""
    if replication_factor > len(racks):
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor {replication_factor} is larger than the number of available brokers, {len(racks)}.",
        )
    if replication_factor < 1:
        raise RequestError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    room = _Room(len(indexes), replication_factor, racks, replica_load, leader_load)
    placed = [room.choose(name, index) for index in indexes]
    room.even_out(placed)
    return room.lead(placed)


@lru_cache(maxsize=64)
def ring_of(brokers: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Points on the ring, sorted, and the broker at each."""
    points = sorted((_point(f"broker {broker} {node}"), broker) for broker in brokers for node in range(VIRTUAL_NODES))
    return tuple(point for point, _ in points), tuple(broker for _, broker in points)


def walk(brokers: tuple[int, ...], name: str) -> Iterator[int]:
    """Each broker once, in the order in which the ring meets them after the name's point."""
    points, owners = ring_of(brokers)
    start = bisect_right(points, _point(name))
    seen: set[int] = set()
    for position in range(start, start + len(owners)):
        broker = owners[position % len(owners)]
        if broker not in seen:
            seen.add(broker)
            yield broker


def _point(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")


class _Room:
    """How much each broker may still take while one topic is placed."""

    def __init__(
        self,
        partition_count: int,
        replication_factor: int,
        racks: Mapping[int, str | None],
        replica_load: Mapping[int, int],
        leader_load: Mapping[int, int],
    ) -> None:
        self._brokers = tuple(sorted(racks))
        self._racks = racks
        self._factor = replication_factor
        self._topic_replicas: Counter[int] = Counter()
        self._topic_leaders: Counter[int] = Counter()
        self._replicas = Counter({broker: replica_load.get(broker, 0) for broker in racks})
        self._leaders = Counter({broker: leader_load.get(broker, 0) for broker in racks})
        self._topic_share = -(-partition_count * replication_factor // len(racks))
        self._cluster_share = _share(self._replicas.total() + partition_count * replication_factor, len(racks))

    def choose(self, name: str, index: int) -> list[int]:
        """Brokers for one partition, in ring order."""
        order = list(walk(self._brokers, f"{name} {index}"))
        chosen: list[int] = []
        while len(chosen) < self._factor:
            chosen.append(self._next(order, chosen))
        for broker in chosen:
            self._topic_replicas[broker] += 1
            self._replicas[broker] += 1
        return sorted(chosen, key=order.index)

    def _next(self, order: Sequence[int], chosen: Sequence[int]) -> int:
        candidates = self._in_rarest_racks([broker for broker in order if broker not in chosen], chosen)
        for broker in candidates:
            if self._topic_replicas[broker] < self._topic_share and self._replicas[broker] < self._cluster_share:
                return broker
        return min(candidates, key=lambda broker: (self._topic_replicas[broker], self._replicas[broker]))

    def _in_rarest_racks(self, candidates: list[int], chosen: Sequence[int]) -> list[int]:
        """Only those whose rack holds the fewest replicas so far.  A broker without a rack is a rack of its own."""
        used = Counter(self._rack(broker) for broker in chosen)
        fewest = min(used[self._rack(broker)] for broker in candidates)
        return [broker for broker in candidates if used[self._rack(broker)] == fewest]

    def _rack(self, broker: int) -> str | int:
        rack = self._racks[broker]
        return broker if rack is None else rack

    def even_out(self, placed: list[list[int]]) -> None:
        """The last partitions may have found only full brokers: exchange single replicas until no two brokers differ by two."""
        while (exchange := self._exchange(placed)) is not None:
            replicas, source, target = exchange
            replicas[replicas.index(source)] = target
            for load in (self._topic_replicas, self._replicas):
                load[source] -= 1
                load[target] += 1

    def _exchange(self, placed: list[list[int]]) -> tuple[list[int], int, int] | None:
        by_load = sorted(self._brokers, key=lambda broker: self._topic_replicas[broker])
        for source in reversed(by_load):
            for target in by_load:
                if self._topic_replicas[source] - self._topic_replicas[target] < 2:
                    break
                for replicas in placed:
                    if source in replicas and target not in replicas and self._keeps_racks(replicas, source, target):
                        return replicas, source, target
        return None

    def _keeps_racks(self, replicas: list[int], source: int, target: int) -> bool:
        after = {self._rack(target if broker == source else broker) for broker in replicas}
        return len(after) >= len({self._rack(broker) for broker in replicas})

    def lead(self, placed: list[list[int]]) -> list[tuple[int, ...]]:
        """Put the preferred leader of each partition first: whoever leads least, the ring's order deciding between equals."""
        leaders = [self._least_leading(replicas) for replicas in placed]
        changed = True
        while changed:
            changed = False
            for index, replicas in enumerate(placed):
                self._count_leader(leaders[index], -1)
                better = self._least_leading(replicas, instead_of=leaders[index])
                changed = changed or better != leaders[index]
                leaders[index] = better
        return [
            (leader, *(broker for broker in replicas if broker != leader))
            for leader, replicas in zip(leaders, placed, strict=True)
        ]

    def _least_leading(self, replicas: list[int], instead_of: int | None = None) -> int:
        best = min(replicas, key=lambda broker: (self._topic_leaders[broker], self._leaders[broker]))
        if instead_of is not None and self._topic_leaders[best] >= self._topic_leaders[instead_of]:
            best = instead_of
        self._count_leader(best, 1)
        return best

    def _count_leader(self, broker: int, by: int) -> None:
        self._topic_leaders[broker] += by
        self._leaders[broker] += by


def _share(total: int, brokers: int) -> int:
    return max(1, int(-(-total * CLUSTER_SLACK // brokers)))
