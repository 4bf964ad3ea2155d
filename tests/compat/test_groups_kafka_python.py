"""Groups with kafka-python: all its assignors, static members, offsets, administration."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import FencedInstanceIdError
from kafka.structs import OffsetAndMetadata

from tests.compat.group_members import WAIT_S

PARTITIONS = 6
ASSIGNORS = [
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
    StickyPartitionAssignor,
    CooperativeStickyAssignor,
]


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as client:
        yield client


@pytest.fixture
def group(topic: str) -> str:
    return f"group-of-{topic}"


@pytest.fixture
def consumers(bootstrap: str, group: str, topic: str) -> Iterator[Callable[..., KafkaConsumer]]:
    def make(**properties: Any) -> KafkaConsumer:
        given = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 200, "enable_auto_commit": False, **properties}
        consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", **given)
        # It may assign before it knows the topic, and then does not notice: see FINDINGS.md.
        consumer.partitions_for_topic(topic)
        return stack.enter_context(closing(consumer))

    with ExitStack() as stack:
        yield make


def fill(bootstrap: str, admin: KafkaAdminClient, topic: str, records: int) -> None:
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for number in range(records):
            producer.send(topic, str(number).encode(), partition=number % PARTITIONS)
        producer.flush(WAIT_S)


def poll_until(condition: Callable[[], bool], *consumers: KafkaConsumer) -> list[tuple[int, int]]:
    """Poll all until the condition holds; what they read."""
    read: list[tuple[int, int]] = []
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            for records in consumer.poll(timeout_ms=50).values():
                read += [(record.partition, record.offset) for record in records]
    return read


def owned(consumer: KafkaConsumer) -> set[int]:
    return {each.partition for each in consumer.assignment()}


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda assignor: assignor.name)
def test_members_share_a_topic_and_the_one_that_stays_takes_over(
    bootstrap: str, admin: KafkaAdminClient, topic: str, consumers: Callable[..., KafkaConsumer], assignor: type
) -> None:
    fill(bootstrap, admin, topic, 60)
    first = consumers(partition_assignment_strategy=[assignor])
    read = poll_until(lambda: len(owned(first)) == PARTITIONS, first)
    second = consumers(partition_assignment_strategy=[assignor])

    read += poll_until(lambda: len(owned(first)) == len(owned(second)) == 3, first, second)
    assert not owned(first) & owned(second)
    second.close()
    poll_until(lambda: len(owned(first)) == PARTITIONS, first)
    deadline = time.monotonic() + WAIT_S
    while len(set(read)) < 60 and time.monotonic() < deadline:
        for records in first.poll(timeout_ms=50).values():
            read += [(record.partition, record.offset) for record in records]

    assert len(set(read)) == 60


def test_a_group_goes_on_where_it_committed_and_the_note_comes_back(
    bootstrap: str, admin: KafkaAdminClient, topic: str, consumers: Callable[..., KafkaConsumer]
) -> None:
    fill(bootstrap, admin, topic, 60)
    first = consumers()
    poll_until(lambda: len(owned(first)) == PARTITIONS, first)
    first.commit({TopicPartition(topic, index): OffsetAndMetadata(4, f"note {index}", -1) for index in range(PARTITIONS)})
    assert first.committed(TopicPartition(topic, 2), metadata=True).metadata == "note 2"
    first.close()

    second = consumers()
    read: list[tuple[int, int]] = []
    deadline = time.monotonic() + WAIT_S
    while len(read) < 36 and time.monotonic() < deadline:
        for records in second.poll(timeout_ms=50).values():
            read += [(record.partition, record.offset) for record in records]

    assert sorted(read) == [(partition, offset) for partition in range(PARTITIONS) for offset in range(4, 10)]


def test_a_static_member_that_restarts_keeps_its_partitions(
    bootstrap: str, admin: KafkaAdminClient, topic: str, group: str, consumers: Callable[..., KafkaConsumer]
) -> None:
    fill(bootstrap, admin, topic, 0)
    arm, leg = consumers(group_instance_id="arm"), consumers(group_instance_id="leg")
    poll_until(lambda: len(owned(arm)) == len(owned(leg)) == 3, arm, leg)
    share, generation = owned(leg), arm._coordinator.generation_if_stable().generation_id
    leg.close()

    again = consumers(group_instance_id="leg")
    poll_until(lambda: len(owned(again)) == 3, arm, again)

    assert owned(again) == share
    assert arm._coordinator.generation_if_stable().generation_id == generation


def test_the_older_of_two_members_with_one_instance_id_is_fenced(
    bootstrap: str, admin: KafkaAdminClient, topic: str, consumers: Callable[..., KafkaConsumer]
) -> None:
    fill(bootstrap, admin, topic, 0)
    first = consumers(group_instance_id="arm")
    poll_until(lambda: len(owned(first)) == PARTITIONS, first)
    second = consumers(group_instance_id="arm")
    poll_until(lambda: len(owned(second)) == PARTITIONS, second)

    # Its poll says nothing of it: see FINDINGS.md.
    with pytest.raises(FencedInstanceIdError):
        first.commit({TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)})


def test_an_administrator_sees_describes_and_deletes_groups(
    bootstrap: str, admin: KafkaAdminClient, topic: str, group: str, consumers: Callable[..., KafkaConsumer]
) -> None:
    fill(bootstrap, admin, topic, 6)
    consumer = consumers(client_id="app")
    poll_until(lambda: len(owned(consumer)) == PARTITIONS, consumer)
    consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)})

    assert group in {each["group_id"] for each in admin.list_groups()}
    described = admin.describe_groups([group])[group]
    assert described["group_state"] == "Stable"
    assert described["members"][0]["client_id"] == "app"
    offsets = admin.list_group_offsets([group])[group]
    assert offsets[TopicPartition(topic, 0)].offset == 1
    consumer.close()
    admin.delete_groups([group])

    assert group not in {each["group_id"] for each in admin.list_groups()}
