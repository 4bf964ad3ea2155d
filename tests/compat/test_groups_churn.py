"""Twenty members that come and go at random: a partition never has two owners, and in the end it has one.

It used to fail now and then on a busy machine, for three reasons that are no more:

- A starved member's session ended, its partitions went to another, and it had not been scheduled to hear of it.  Sessions last
  longer now than anybody starves.
- The end was taken for reached when nothing had moved for a while, and only then looked at: a member that is slow to give up a
  partition looks the same.  Now the even spread itself is awaited, and then that it stays.
- A member that leaves before it has read the id it was given never joins under it, and the group waits for it until its session
  ends.  That may happen at the very end, so the wait for the end is several sessions long.
"""

import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.group_members import PROTOCOLS, WAIT_S, wait_for
from tests.support.process import BrokerProcess

MEMBERS = 20
PARTITIONS = 24
# Long enough for every member to come and go; `make torture` gives them a minute.
CHURN_S = 60.0 if "HEADRACE_TORTURE_ROUNDS" in os.environ else 10.0
# Everybody leaves politely here, so a session ends only when a thread starves; on a busy machine that takes a while.
SESSION_MS = 20_000
SETTLED_WITHIN_S = 6 * SESSION_MS / 1000
# Three heartbeats of the slower protocol.
QUIET_S = 1.5
EVEN_SHARES = [1] * (2 * MEMBERS - PARTITIONS) + [2] * (PARTITIONS - MEMBERS)
SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "2",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", SETTINGS) as running:
        yield running


class Ownership:
    """Who has which partition by the members' own account.  A second owner is noted the moment it appears."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.owners: dict[int, str] = {}
        self.clashes: list[str] = []
        self.changes = 0
        self._stories: dict[int, list[str]] = defaultdict(list)
        self._began = self._told_at = time.monotonic()

    def take(self, name: str, partitions: list[int]) -> None:
        with self._lock:
            self.changes += 1
            for partition in partitions:
                holder = self.owners.get(partition)
                self._tell(partition, f"{name} was given it")
                if holder is not None and holder != name:
                    story = "; ".join(self._stories[partition][-6:])
                    self.clashes.append(f"{name} was given {partition} while {holder} had it: {story}")
                self.owners[partition] = name

    def give_up(self, name: str, partitions: list[int], how: str) -> None:
        with self._lock:
            for partition in partitions:
                self._tell(partition, f"{name} {how} it")
                if self.owners.get(partition) == name:
                    del self.owners[partition]

    def note(self, name: str, what: str) -> None:
        """Something that happens to all that a member has."""
        with self._lock:
            for partition, owner in self.owners.items():
                if owner == name:
                    self._tell(partition, f"{name} {what}")

    def _tell(self, partition: int, what: str) -> None:
        self._told_at = time.monotonic()
        self._stories[partition].append(f"{self._told_at - self._began:.2f} s {what}")

    def is_settled(self) -> bool:
        """Every partition has an owner, all members have their share, and nothing moved for three heartbeats."""
        return self.shares() == EVEN_SHARES and time.monotonic() - self._told_at >= QUIET_S

    def shares(self) -> list[int]:
        """How many partitions each owner has, in rising order."""
        with self._lock:
            return sorted(Counter(self.owners.values()).values())


class Member(threading.Thread):
    """Joins, reads for a random while, leaves, rests, and joins again as another."""

    def __init__(self, number: int, bootstrap: str, topic: str, protocol: str, ownership: Ownership, seed: int) -> None:
        super().__init__(daemon=True, name=f"member {number}")
        self._random = random.Random(seed * 1000 + number)
        self._address, self._topic, self._protocol, self._ownership = bootstrap, topic, protocol, ownership
        self._number = number
        self.churning = threading.Event()
        self.churning.set()
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            life = 0
            while not self.stopping.is_set():
                life += 1
                self._live(f"{self._number}.{life}")
                self.stopping.wait(self._random.uniform(0, 2) if self.churning.is_set() else 0)
        except BaseException as error:
            self.failure = error

    def _live(self, name: str) -> None:
        consumer = Consumer(self._properties())

        def indexes(partitions: list[TopicPartition]) -> list[int]:
            return [each.partition for each in partitions]

        consumer.subscribe(
            [self._topic],
            on_assign=lambda _, partitions: self._ownership.take(name, indexes(partitions)),
            on_revoke=lambda _, partitions: self._ownership.give_up(name, indexes(partitions), "gave up"),
            on_lost=lambda _, partitions: self._ownership.give_up(name, indexes(partitions), "lost"),
        )
        end = time.monotonic() + self._random.uniform(0.5, 12)
        while not self.stopping.is_set() and (time.monotonic() < end or not self.churning.is_set()):
            consumer.poll(0.1)
        self._ownership.note(name, "leaves")
        with suppress(KafkaException):
            consumer.close()
        self._ownership.note(name, "has left, and was never asked to give it up")

    def _properties(self) -> dict[str, Any]:
        timeouts = {} if self._protocol == "consumer" else {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 300}
        return {
            "bootstrap.servers": self._address,
            "group.id": "crowd",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 2,
            **PROTOCOLS[self._protocol],
            **timeouts,
        }


# One after the other, and not beside the clusters: sixty clients at once starve each other.
@pytest.mark.xdist_group("cluster")
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
def test_twenty_members_come_and_go_and_no_partition_ever_has_two_owners(
    server: BrokerProcess, topic: str, protocol: str
) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(WAIT_S)
    ownership = Ownership()
    members = [Member(number, server.bootstrap, topic, protocol, ownership, seed=2026) for number in range(MEMBERS)]
    for member in members:
        member.start()
    assert not members[0].stopping.wait(CHURN_S)
    for member in members:
        member.churning.clear()

    wait_for(ownership.is_settled, SETTLED_WITHIN_S, what=lambda: (ownership.shares(), ownership.clashes))
    for member in members:
        member.stopping.set()
    for member in members:
        member.join(WAIT_S)

    assert [member.failure for member in members if member.failure is not None] == []
    assert ownership.clashes == []
    assert ownership.changes > MEMBERS
