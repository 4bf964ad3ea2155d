"""Ten partitions, two members, a death, two newcomers: told with librdkafka in processes of their own, under each protocol."""

import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.group_members import WAIT_S, MemberProcess, SteadyProducer, shares, wait_for
from tests.support.process import BrokerProcess

PARTITIONS = 10
GROUP = "readers"
SESSION_MS = 3_000
# A partition gets a record every twentieth of a second; a pause for a rebalance would last longer than this.
SILENCE_MAX_S = 1.5
SETTINGS = {
    "group.initial.rebalance.delay.ms": "200",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "4",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", SETTINGS) as running:
        yield running


def make_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(WAIT_S)


def member(bootstrap: str, topic: str, protocol: str) -> MemberProcess:
    timeouts = {} if protocol == "consumer" else {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 300}
    return MemberProcess(bootstrap, topic, GROUP, protocol, **timeouts)


def committed(bootstrap: str, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    found = consumer.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], timeout=WAIT_S)
    consumer.close()
    return {each.partition: each.offset for each in found}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
def test_partitions_are_shared_taken_over_and_shared_again_and_no_record_is_missed(
    server: BrokerProcess, topic: str, protocol: str
) -> None:
    make_topic(server.bootstrap, topic)
    producer = SteadyProducer(server.bootstrap, topic, PARTITIONS, per_second=200)
    with member(server.bootstrap, topic, protocol) as first, member(server.bootstrap, topic, protocol) as second:
        wait_for(lambda: shares([first, second]) == [5, 5], what=lambda: (first.owned, second.owned))

        second.kill()
        taken_after = wait_for(lambda: len(first.owned) == PARTITIONS, what=lambda: first.owned)
        # The session runs from the last heartbeat, and the survivor hears of it with its own next one.
        assert taken_after <= SESSION_MS / 1000 + 2.0

        before_third = time.monotonic()
        with member(server.bootstrap, topic, protocol) as third, member(server.bootstrap, topic, protocol) as fourth:
            living = [first, third, fourth]
            wait_for(lambda: shares(living) == [3, 3, 4], what=lambda: [each.owned for each in living])
            assert set().union(*(each.owned for each in living)) == set(range(PARTITIONS))
            if protocol != "eager":
                # What first still has, it has had all the time, and read all the time.
                assert not first.owned & first.revoked_since(before_third)
                assert longest_silence(first, first.owned, before_third) < SILENCE_MAX_S

            acknowledged = producer.stop()
            seen = {number for *_, number in acknowledged}
            everyone = [first, second, third, fourth]
            wait_for(lambda: seen <= {number for each in everyone for *_, number in each.handled()})
            ends = {partition: max(o for p, o, _ in acknowledged if p == partition) + 1 for partition in range(PARTITIONS)}
            wait_for(lambda: committed(server.bootstrap, topic) == ends, what=lambda: committed(server.bootstrap, topic))

    check_no_gap(everyone, acknowledged)


def longest_silence(member: MemberProcess, partitions: set[int], since: float) -> float:
    """The longest time in which a member handled nothing of one of these partitions, while records came all the time."""
    longest = 0.0
    for partition in partitions:
        events = [event for event in member.events if event["event"] == "handled" and event["time"] >= since]
        times = [event["time"] for event in events if any(record[0] == partition for record in event["records"])]
        longest = max(longest, *(later - earlier for earlier, later in pairwise([since, *times])))
    return longest


def check_no_gap(members: list[MemberProcess], acknowledged: list[tuple[int, int, int]]) -> None:
    """Every record was handled, and nobody went on behind a record that no one before had handled."""
    handled: dict[int, set[int]] = defaultdict(set)
    for each in members:
        for partition, offset, _ in each.handled():
            handled[partition].add(offset)
    for partition, offset, _ in acknowledged:
        assert offset in handled[partition]
    for each in members:
        last: dict[int, int] = {}
        for event in each.events:
            if event["event"] == "assigned":
                for partition in event["partitions"]:
                    last.pop(partition, None)
            for partition, offset, _ in event.get("records", ()):
                assert offset == last.get(partition, offset - 1) + 1, "a member skipped a record"
                last[partition] = offset
