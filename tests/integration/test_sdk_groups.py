"""Groups: shared partitions, rebalances, and members that take their time."""

import sqlite3
import threading
import time
from typing import Any

import pytest

from headrace import Admin, Consumer, Producer, TopicPartition, exactly_once
from headrace.client.consumer import membership
from headrace.testing import Broker
from tests.support.waiting import until


class Reader:
    """A member that reads in a thread of its own."""

    def __init__(self, topic: str, bootstrap: str, **options: Any) -> None:
        self.seen: list[str] = []
        self.consumer: Consumer[bytes, str] = Consumer(topic, bootstrap=bootstrap, group=topic, values=str, **options)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        self.seen.extend(record.value for record in self.consumer)

    def close(self) -> None:
        self.consumer.close()
        self._thread.join()


@pytest.fixture
def six(bootstrap: str, topic: str) -> str:
    """A topic of six partitions."""
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=6)
    return topic


@pytest.mark.parametrize("assignor", ["cooperative-sticky", "range"])
def test_members_share_partitions_and_take_over_from_those_who_leave(bootstrap: str, six: str, assignor: Any) -> None:
    first = Reader(six, bootstrap, assignor=assignor, session_timeout=6)
    until(lambda: len(first.consumer.assignment) == 6)
    second = Reader(six, bootstrap, assignor=assignor, session_timeout=6)
    until(lambda: len(first.consumer.assignment) == len(second.consumer.assignment) == 3)
    assert not set(first.consumer.assignment) & set(second.consumer.assignment)

    second.close()
    until(lambda: len(first.consumer.assignment) == 6)
    first.close()


def test_nothing_is_lost_or_committed_twice_while_members_come_and_go(bootstrap: str, six: str) -> None:
    expected = [str(number) for number in range(600)]
    first = Reader(six, bootstrap, session_timeout=6, commit_interval=0.1)
    until(lambda: len(first.consumer.assignment) == 6)
    with Producer(bootstrap, linger=0) as producer:
        for number in expected[:200]:
            producer.send(six, number, partition=int(number) % 6)
        second = Reader(six, bootstrap, session_timeout=6, commit_interval=0.1)
        for number in expected[200:400]:
            producer.send(six, number, partition=int(number) % 6).result(10)
        until(lambda: second.consumer.assignment)
        for number in expected[400:]:
            producer.send(six, number, partition=int(number) % 6)
    until(lambda: {*first.seen, *second.seen} >= set(expected))
    second.close()
    first.close()

    with Admin(bootstrap) as admin:
        assert sum(admin.committed(six).values()) == 600
        assert sum(admin.lag(six).values()) == 0


def test_rebalance_callbacks_hear_of_what_comes_and_goes(bootstrap: str, six: str) -> None:
    heard: list[tuple[str, list[TopicPartition]]] = []
    first = Reader(
        six,
        bootstrap,
        session_timeout=6,
        on_assigned=lambda partitions: heard.append(("assigned", partitions)),
        on_revoked=lambda partitions: heard.append(("revoked", partitions)),
    )
    until(lambda: len(first.consumer.assignment) == 6)
    second = Reader(six, bootstrap, session_timeout=6)
    until(lambda: len(first.consumer.assignment) == 3)
    first.close()
    second.close()

    assert heard[0] == ("assigned", [TopicPartition(six, partition) for partition in range(6)])
    revoked = [partition for what, partitions in heard if what == "revoked" for partition in partitions]
    assert sorted(revoked) == [TopicPartition(six, partition) for partition in range(6)]


def test_a_record_that_takes_longer_than_the_poll_interval_does_not_cost_the_membership(broker: Broker, topic: str) -> None:
    bootstrap = broker.bootstrap  # ours, which allows so short a session
    with Producer(bootstrap) as producer:
        producer.send_many(topic, [str(number) for number in range(5)])
    lost: list[Any] = []
    limits = {"max.poll.interval.ms": 2500}
    with Consumer[bytes, str](
        topic, bootstrap=bootstrap, group=topic, values=str, session_timeout=2, on_revoked=lost.append, librdkafka=limits
    ) as consumer:
        seen = []
        for record in consumer.to_end():
            seen.append(record.value)
            if record.value == "1":
                time.sleep(4)
        assert lost == []
        consumer.commit()

    assert seen == ["0", "1", "2", "3", "4"]
    with Admin(bootstrap) as admin:
        assert admin.committed(topic) == {TopicPartition(topic, 0): 5}


def test_a_busy_member_takes_part_in_a_rebalance(bootstrap: str, six: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send(six, "slow", partition=0)
    busy = Consumer[bytes, str](six, bootstrap=bootstrap, group=six, values=str, session_timeout=6)
    assert busy.poll(20) is not None
    begin = time.monotonic()
    other = Reader(six, bootstrap, session_timeout=6)

    # Nobody polls `busy` here: a thread of its own answers for it.
    until(lambda: len(other.consumer.assignment) == len(busy.assignment) == 3)
    assert time.monotonic() - begin < 20
    other.close()
    busy.close()


def test_reading_goes_on_without_a_gap_after_a_long_pause(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "BUSY_AFTER_S", 0.2)
    monkeypatch.setattr(membership, "TICK_S", 0.05)
    with Producer(bootstrap) as producer:
        producer.send_many(topic, [str(number) for number in range(3000)])
    with Consumer[bytes, str](topic, bootstrap=bootstrap, group=topic, values=str) as consumer:
        seen = []
        for record in consumer.to_end():
            seen.append(int(record.value))
            if int(record.value) % 700 == 0:
                time.sleep(0.7)

    assert seen == list(range(3000))


def test_a_partition_taken_away_is_not_handed_out_any_more(bootstrap: str, six: str) -> None:
    with Producer(bootstrap) as producer:
        for number in range(600):
            producer.send(six, str(number), partition=number % 6)
    first = Consumer[bytes, str](six, bootstrap=bootstrap, group=six, values=str, session_timeout=6)
    handed_out = [first.poll(20)]
    other = Reader(six, bootstrap, session_timeout=6)
    until(lambda: len(first.assignment) == 3)
    mine = set(first.assignment)

    handed_out += first.batch(300, 5)

    assert {record.topic_partition for record in handed_out[1:] if record is not None} <= mine
    other.close()
    first.close()


def test_a_static_member_comes_back_to_its_partitions(bootstrap: str, six: str) -> None:
    for _ in range(2):
        with Consumer(six, bootstrap=bootstrap, group=six, instance_id="one", session_timeout=6) as consumer:
            until(lambda consumer=consumer: consumer.poll(0.1) is None and len(consumer.assignment) == 6)  # type: ignore[misc]


def test_the_time_a_group_takes_to_form_is_no_silence(topic: str) -> None:
    with Broker(settings={"group.initial.rebalance.delay.ms": 800}) as broker:
        with Producer(broker.bootstrap) as producer:
            producer.send(topic, "x")
        with Consumer(topic, bootstrap=broker.bootstrap, group="reading", values=str) as consumer:
            assert [record.value for record in consumer.records(timeout=0.3)] == ["x"]
        bank = sqlite3.connect(":memory:")
        with Consumer(topic, bootstrap=broker.bootstrap, group="bank", delivery="exactly_once") as consumer:
            assert exactly_once(consumer, bank).run(lambda record, cursor: None, timeout=0.3) == 1


def test_the_newer_group_protocol_reads_commits_and_goes_on(bootstrap: str, six: str) -> None:
    with Producer(bootstrap) as producer:
        for number in range(60):
            producer.send(six, str(number), partition=number % 6)
    with Consumer[bytes, str](six, bootstrap=bootstrap, group=six, values=str, protocol="consumer") as consumer:
        first = [record.value for record in consumer.to_end()]
        assert len(consumer.assignment) == 6
    with Consumer[bytes, str](six, bootstrap=bootstrap, group=six, values=str, protocol="consumer") as consumer:
        again = list(consumer.to_end())

    assert sorted(first, key=int) == [str(number) for number in range(60)]
    assert again == []
    with Admin(bootstrap) as admin:
        assert admin.group(six).protocol == "consumer"
