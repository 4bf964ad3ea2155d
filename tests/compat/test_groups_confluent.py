"""Groups with confluent-kafka (librdkafka): assignors, patterns, static members, both protocols in one group, administration."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.compat.group_members import WAIT_S

PARTITIONS = 6


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def group(topic: str) -> str:
    return f"group-of-{topic}"


@pytest.fixture
def consumers(bootstrap: str, group: str) -> Iterator[Callable[..., "Reader"]]:
    with ExitStack() as stack:
        yield lambda *topics, **properties: stack.enter_context(closing(Reader(bootstrap, group, topics, properties)))


class Reader:
    """A consumer with its assignment and what it has read, by partition."""

    def __init__(self, bootstrap: str, group: str, topics: tuple[str, ...], properties: dict[str, Any]) -> None:
        given = {name.replace("_", "."): value for name, value in properties.items()}
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 2,
                **given,
            }
        )
        self.read: list[tuple[str, int, int]] = []
        self.revocations = 0
        self.errors: list[KafkaError] = []
        self.consumer.subscribe(list(topics), on_revoke=self._revoked)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.revocations += 1

    @property
    def owned(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is None:
            return
        if message.error() is not None:
            self.errors.append(message.error())
        else:
            self.read.append((message.topic(), message.partition(), message.offset()))

    def close(self) -> None:
        self.consumer.close()


def poll_until(condition: Callable[[], bool], *readers: Reader, seconds: float = WAIT_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, [(sorted(reader.owned), len(reader.read), reader.errors) for reader in readers]
        for reader in readers:
            reader.poll()


def fill(bootstrap: str, admin: AdminClient, topic: str, records: int = 0, partitions: int = PARTITIONS) -> None:
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_S)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(records):
        producer.produce(topic, str(number).encode(), partition=number % partitions)
    assert producer.flush(WAIT_S) == 0


# --- sharing ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "properties",
    [
        {"partition_assignment_strategy": "range"},
        {"partition_assignment_strategy": "roundrobin"},
        {"partition_assignment_strategy": "cooperative-sticky"},
        {"group_protocol": "consumer", "group_remote_assignor": "uniform"},
        {"group_protocol": "consumer", "group_remote_assignor": "range"},
    ],
    ids=lambda properties: "-".join(properties.values()),
)
def test_members_share_a_topic_and_the_one_that_stays_takes_over(
    bootstrap: str, admin: AdminClient, topic: str, consumers: Callable[..., Reader], properties: dict[str, str]
) -> None:
    fill(bootstrap, admin, topic, records=60)
    first, second = consumers(topic, **properties), consumers(topic, **properties)

    poll_until(lambda: len(first.owned) == len(second.owned) == 3, first, second)
    poll_until(lambda: len(set(first.read + second.read)) == 60, first, second)
    assert not first.owned & second.owned
    second.close()

    poll_until(lambda: len(first.owned) == PARTITIONS, first)


def test_a_pattern_finds_topics_and_those_that_come_later(
    bootstrap: str, admin: AdminClient, topic: str, consumers: Callable[..., Reader]
) -> None:
    fill(bootstrap, admin, f"{topic}-one", records=5, partitions=1)
    classic = consumers(f"^{topic}-.*", topic_metadata_refresh_interval_ms=200)

    poll_until(lambda: len(classic.read) == 5, classic)
    fill(bootstrap, admin, f"{topic}-two", records=5, partitions=1)

    poll_until(lambda: len(classic.read) == 10, classic)


def test_a_pattern_of_the_consumer_protocol_is_resolved_by_the_broker(
    bootstrap: str, admin: AdminClient, topic: str, consumers: Callable[..., Reader]
) -> None:
    fill(bootstrap, admin, f"{topic}-one", records=5, partitions=1)
    fill(bootstrap, admin, f"other-{topic}", records=5, partitions=1)
    reader = consumers(f"^{topic}-[a-z]+", group_protocol="consumer")

    poll_until(lambda: len(reader.read) == 5, reader)

    assert {name for name, *_ in reader.read} == {f"{topic}-one"}


def test_new_partitions_are_given_out(bootstrap: str, admin: AdminClient, topic: str, consumers: Callable[..., Reader]) -> None:
    fill(bootstrap, admin, topic, partitions=2)
    modern = consumers(topic, group_protocol="consumer")
    poll_until(lambda: len(modern.owned) == 2, modern)

    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(WAIT_S)

    poll_until(lambda: len(modern.owned) == 4, modern)


def test_a_group_moves_from_the_classic_to_the_consumer_protocol_and_back_member_by_member(
    bootstrap: str, admin: AdminClient, topic: str, group: str, consumers: Callable[..., Reader]
) -> None:
    fill(bootstrap, admin, topic, records=60)
    old = [consumers(topic, heartbeat_interval_ms=200), consumers(topic, heartbeat_interval_ms=200)]
    poll_until(lambda: all(len(each.owned) == 3 for each in old), *old)

    new = [consumers(topic, group_protocol="consumer")]
    poll_until(lambda: sorted(len(each.owned) for each in old + new) == [2, 2, 2], *old, *new)
    assert kind_of(admin, group) == ConsumerGroupType.CONSUMER
    old.pop().close()
    poll_until(lambda: sorted(len(each.owned) for each in old + new) == [3, 3], *old, *new)
    new.pop().close()
    poll_until(lambda: len(old[0].owned) == PARTITIONS, *old)

    assert kind_of(admin, group) == ConsumerGroupType.CLASSIC


def kind_of(admin: AdminClient, group: str) -> ConsumerGroupType:
    listed = admin.list_consumer_groups().result(WAIT_S).valid
    return next(each.type for each in listed if each.group_id == group)


# --- static members ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_member_that_restarts_gets_its_partitions_back_without_a_rebalance(
    bootstrap: str, admin: AdminClient, topic: str, consumers: Callable[..., Reader], protocol: str
) -> None:
    fill(bootstrap, admin, topic)
    arm, leg = (consumers(topic, group_protocol=protocol, group_instance_id=name) for name in ("arm", "leg"))
    poll_until(lambda: len(arm.owned) == len(leg.owned) == 3, arm, leg)
    share, revocations = leg.owned, arm.revocations
    leg.close()

    again = consumers(topic, group_protocol=protocol, group_instance_id="leg")
    poll_until(lambda: len(again.owned) == 3, arm, again)

    assert again.owned == share
    assert arm.revocations == revocations


def test_the_older_of_two_members_with_one_instance_id_is_fenced(
    bootstrap: str, admin: AdminClient, topic: str, consumers: Callable[..., Reader]
) -> None:
    fill(bootstrap, admin, topic)
    first = consumers(topic, group_instance_id="arm", heartbeat_interval_ms=200)
    poll_until(lambda: len(first.owned) == PARTITIONS, first)

    second = consumers(topic, group_instance_id="arm")
    poll_until(lambda: bool(first.errors) and len(second.owned) == PARTITIONS, first, second)

    assert first.errors[0].code() == KafkaError._FATAL


# --- offsets ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_where_it_committed(
    bootstrap: str, admin: AdminClient, topic: str, consumers: Callable[..., Reader], protocol: str
) -> None:
    fill(bootstrap, admin, topic, records=60)
    first = consumers(topic, group_protocol=protocol)
    poll_until(lambda: len(first.read) == 60, first)
    offsets = [TopicPartition(topic, partition, 4, metadata=f"note {partition}") for partition in range(PARTITIONS)]
    first.consumer.commit(offsets=offsets, asynchronous=False)
    committed = first.consumer.committed(offsets, timeout=WAIT_S)
    assert [(each.offset, each.metadata) for each in committed] == [(4, f"note {index}") for index in range(PARTITIONS)]
    first.close()

    second = consumers(topic, group_protocol=protocol)
    poll_until(lambda: len(second.read) == 36, second)

    assert min(offset for *_, offset in second.read) == 4


def test_a_consumer_that_assigns_itself_commits_and_reads_back(
    bootstrap: str, admin: AdminClient, topic: str, group: str
) -> None:
    fill(bootstrap, admin, topic)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0)])
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)

    assert consumer.committed([TopicPartition(topic, 0)], timeout=WAIT_S)[0].offset == 7
    consumer.close()


# --- administration ---------------------------------------------------------------------------------------------------------


def test_an_administrator_sees_groups_by_state_and_kind(
    bootstrap: str, admin: AdminClient, topic: str, group: str, consumers: Callable[..., Reader]
) -> None:
    fill(bootstrap, admin, topic)
    reader = consumers(topic, group_protocol="consumer", client_id="app")
    poll_until(lambda: len(reader.owned) == PARTITIONS, reader)

    def listed(**filters: Any) -> set[str]:
        return {each.group_id for each in admin.list_consumer_groups(**filters).result(WAIT_S).valid}

    assert group in listed()
    assert group in listed(states={ConsumerGroupState.STABLE}, types={ConsumerGroupType.CONSUMER})
    assert group not in listed(types={ConsumerGroupType.CLASSIC})
    assert group not in listed(states={ConsumerGroupState.EMPTY})
    described = admin.describe_consumer_groups([group])[group].result(WAIT_S)
    assert described.state == ConsumerGroupState.STABLE
    assert described.members[0].client_id == "app"
    assert {each.partition for each in described.members[0].assignment.topic_partitions} == set(range(PARTITIONS))


def test_an_administrator_sees_the_members_of_a_classic_group(
    bootstrap: str, admin: AdminClient, topic: str, group: str, consumers: Callable[..., Reader]
) -> None:
    fill(bootstrap, admin, topic)
    reader = consumers(topic, client_id="app", group_instance_id="arm")
    poll_until(lambda: len(reader.owned) == PARTITIONS, reader)

    described = admin.describe_consumer_groups([group])[group].result(WAIT_S)

    assert described.type == ConsumerGroupType.CLASSIC
    assert described.partition_assignor == "range"
    assert described.members[0].group_instance_id == "arm"
    assert {each.partition for each in described.members[0].assignment.topic_partitions} == set(range(PARTITIONS))


def test_an_administrator_sets_offsets_of_an_empty_group_and_deletes_it(
    bootstrap: str, admin: AdminClient, topic: str, group: str, consumers: Callable[..., Reader]
) -> None:
    fill(bootstrap, admin, topic, records=60)
    reader = consumers(topic)
    poll_until(lambda: len(reader.read) == 60, reader)
    reader.consumer.commit(asynchronous=False)
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups([group])[group].result(WAIT_S)
    assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    reader.close()

    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 2)])
    admin.alter_consumer_group_offsets([wanted])[group].result(WAIT_S)
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(WAIT_S).topic_partitions
    assert {each.partition: each.offset for each in found} == {0: 2, **dict.fromkeys(range(1, PARTITIONS), 10)}

    admin.delete_consumer_groups([group])[group].result(WAIT_S)

    assert group not in {each.group_id for each in admin.list_consumer_groups().result(WAIT_S).valid}
