"""Which partition a record goes to, as a strategy that a producer is given.

A partitioner is any callable `(topic, key, value, partition_count) -> partition`, with key and value as bytes.  `native`
names the same strategy inside librdkafka where there is one: then no Python runs for a record.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import ClassVar

from headrace.client.arguments import several, whole_number
from headrace.records.key_partition import partition_of_key

Partitioner = Callable[[str, bytes | None, bytes | None, int], int]


class KeyHash:
    """The same key always to the same partition, the one Kafka's Java client chooses.  Records without a key are spread in
    batches."""

    native: ClassVar[str] = "murmur2_random"

    def __repr__(self) -> str:
        return "KeyHash()"

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        return random.randrange(partition_count) if key is None else partition_of_key(key, partition_count)


class RoundRobin:
    """Each record to the next partition, whatever its key."""

    native: ClassVar[str | None] = None

    def __init__(self) -> None:
        self._next: defaultdict[str, int] = defaultdict(int)

    def __repr__(self) -> str:
        return "RoundRobin()"

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        turn = self._next[topic]
        self._next[topic] = turn + 1
        return turn % partition_count


class Sticky:
    """A run of records to one partition, then a run to another: full batches, whatever the keys."""

    native: ClassVar[str | None] = None

    def __init__(self, run: int = 100) -> None:
        self._run = whole_number("run", run, at_least=1)
        self._current: dict[str, tuple[int, int]] = {}

    def __repr__(self) -> str:
        return f"Sticky({self._run})"

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        partition, left = self._current.get(topic, (-1, 0))
        if left == 0 or partition >= partition_count:
            partition, left = self._another(partition, partition_count), self._run
        self._current[topic] = partition, left - 1
        return partition

    @staticmethod
    def _another(partition: int, partition_count: int) -> int:
        if not 0 <= partition < partition_count or partition_count == 1:
            return random.randrange(partition_count)
        return (partition + random.randrange(1, partition_count)) % partition_count


class Salted:
    """Each key over `ways` neighbouring partitions, so that a hot key is more than one partition's burden.

    Records of a salted key are in order only within each of its partitions.  `only` limits the salting to the keys named; all
    others keep their one partition and their order.
    """

    native: ClassVar[str | None] = None

    def __init__(self, ways: int, only: Collection[bytes | str] | None = None) -> None:
        self._ways = whole_number("ways", ways, at_least=1)
        keys = None if only is None else several("only", only, "keys")
        self._only = None if keys is None else frozenset(key.encode() if isinstance(key, str) else key for key in keys)

    def __repr__(self) -> str:
        return f"Salted({self._ways})" if self._only is None else f"Salted({self._ways}, only={sorted(self._only)})"

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        if key is None:
            return random.randrange(partition_count)
        home = partition_of_key(key, partition_count)
        if self._only is not None and key not in self._only:
            return home
        return (home + random.randrange(self._ways)) % partition_count

    def partitions_of(self, key: bytes | str, partition_count: int) -> list[int]:
        """Where the records of a key may be: what somebody who gathers them again has to read."""
        raw = key.encode() if isinstance(key, str) else key
        home = partition_of_key(raw, partition_count)
        ways = self._ways if self._only is None or raw in self._only else 1
        return [(home + salt) % partition_count for salt in range(min(ways, partition_count))]
