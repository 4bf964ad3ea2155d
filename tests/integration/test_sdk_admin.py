"""Administration in plain values."""

import gc
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import (
    Admin,
    BrokerError,
    Closed,
    Consumer,
    GroupNotFound,
    InvalidArgument,
    Producer,
    TopicExists,
    TopicNotFound,
    TopicPartition,
)
from headrace.client.positions import Position, ranges, resolve
from headrace.testing import Broker
from tests.support.callers import clients_here


@pytest.fixture
def admin(bootstrap: str) -> Any:
    with Admin(bootstrap) as opened:
        yield opened


def test_a_closed_admin_has_let_go_of_its_threads_without_a_collection(bootstrap: str, topic: str) -> None:
    gc.collect()
    before = clients_here()
    gc.disable()
    try:
        opened = [Admin(bootstrap) for _ in range(3)]
        errors = []
        for each in opened:
            with pytest.raises(BrokerError) as told:
                each.add_partitions(topic, 2)
            errors.append(told.value)  # somebody keeps it, and with it the frames that it came through
        assert clients_here() == before + 3
        for each in opened:
            each.close()
            each.close()

        assert clients_here() == before
    finally:
        gc.enable()
    with pytest.raises(Closed):
        opened[0].topic_names()


def test_a_topic_is_made_described_and_deleted(admin: Admin, topic: str) -> None:
    admin.create_topic(topic, partitions=3, settings={"retention.ms": 5000})

    found = admin.topic(topic)
    assert (found.name, [each.index for each in found.partitions]) == (topic, [0, 1, 2])
    assert all(each.leader is not None and each.in_sync == each.replicas for each in found.partitions)
    assert found.id.int != 0
    assert topic in admin.topics()
    assert admin.settings(topic)["retention.ms"].value == "5000"
    admin.delete_topic(topic)
    with pytest.raises(TopicNotFound, match=topic):
        admin.topic(topic)
    with pytest.raises(TopicNotFound):
        admin.delete_topic(topic)
    admin.delete_topic(topic, missing_ok=True)


@pytest.mark.parametrize(("name", "of"), [("__consumer_offsets", "group"), ("__transaction_state", "transaction")])
def test_a_topic_that_the_brokers_keep_for_themselves_is_not_deleted(
    admin: Admin, bootstrap: str, topic: str, name: str, of: str
) -> None:
    with Producer(bootstrap, transactional_id=topic) as producer, producer.transaction() as transaction:
        transaction.send(topic, "x")
    with Consumer(topic, bootstrap=bootstrap, group=topic) as consumer:
        consumer.batch(1, 10)

    with pytest.raises(
        BrokerError, match=f"could not delete topic '{name}': it is internal; deleting it would forget every {of}"
    ):
        admin.delete_topic(name)


def test_the_audit_trail_is_not_deleted_and_the_reason_is_its_own() -> None:
    with Broker(settings={"headrace.audit": "on"}) as broker, Admin(broker.bootstrap) as admin:
        admin.create_topic("orders")
        with pytest.raises(BrokerError, match="could not delete topic '__audit': it is internal; what was done stays written"):
            admin.delete_topic("__audit")


def test_a_topic_that_is_there_is_an_error_unless_that_is_fine(admin: Admin, topic: str) -> None:
    admin.create_topic(topic)

    with pytest.raises(TopicExists, match=topic):
        admin.create_topic(topic)
    admin.create_topic(topic, partitions=5, exist_ok=True)
    assert len(admin.topic(topic).partitions) == 1


def test_partitions_are_added_and_never_taken_away(admin: Admin, topic: str) -> None:
    admin.create_topic(topic)
    admin.add_partitions(topic, 4)

    assert len(admin.topic(topic).partitions) == 4
    with pytest.raises(BrokerError):
        admin.add_partitions(topic, 2)


def test_settings_are_changed_one_by_one_and_taken_back(admin: Admin, topic: str) -> None:
    admin.create_topic(topic, settings={"retention.ms": 5000})
    admin.change_settings(topic, {"cleanup.policy": "compact", "preallocate": True})

    settings = admin.settings(topic)
    assert (settings["cleanup.policy"].value, settings["preallocate"].value) == ("compact", "true")
    assert settings["retention.ms"].value == "5000"
    assert not settings["retention.ms"].is_default
    admin.change_settings(topic, {"retention.ms": None})
    assert admin.settings(topic)["retention.ms"].is_default


def test_a_setting_that_does_not_exist_is_named(admin: Admin, topic: str) -> None:
    with pytest.raises(BrokerError, match=r"no\.such\.setting"):
        admin.create_topic(topic, settings={"no.such.setting": 1})


def test_offsets_are_found_by_time(admin: Admin, bootstrap: str, topic: str) -> None:
    base = datetime.now(UTC) - timedelta(hours=5)
    with Producer(bootstrap) as producer:
        for hour in range(4):
            producer.send(topic, "x", timestamp=base + timedelta(hours=hour))

    assert admin.offsets(topic) == {0: 4}
    assert admin.offsets(topic, "earliest") == {0: 0}
    assert admin.offsets(topic, base + timedelta(hours=1, minutes=30)) == {0: 2}
    assert admin.offsets(topic, datetime.now(UTC)) == {0: 4}


def test_records_are_deleted_below_an_offset(admin: Admin, bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send_many(topic, ["x"] * 10)

    assert admin.delete_records(topic, {0: 6}) == {0: 6}
    assert admin.offsets(topic, "earliest") == {0: 6}


def test_all_records_of_a_partition_are_deleted_when_no_offset_is_said(admin: Admin, bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send_many(topic, [b"a", b"b"])

    assert admin.delete_records(topic, {0: None}) == {0: 2}


def test_of_the_topics_named_those_there_are_are_described(admin: Admin, topic: str) -> None:
    admin.create_topic(topic, partitions=None)

    found = admin.topics([topic, f"{topic}-misspelt"])

    assert list(found) == [topic]
    assert topic in admin.topic_names()
    assert all(each.leader_address is not None and ":" in each.leader_address for each in found[topic].partitions)


def test_offsets_are_found_in_single_partitions(admin: Admin, bootstrap: str, topic: str) -> None:
    admin.create_topic(topic, partitions=2)
    with Producer(bootstrap) as producer:
        for moment in (1_000, 2_000):
            producer.send(topic, b"x", partition=0, timestamp=moment).result()
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    assert admin.find_offsets({first: "latest", second: "latest"}) == {first: 2, second: 0}
    assert admin.find_offsets({first: 1_500}, isolation="read_committed") == {first: 1}
    assert admin.find_offsets({first: 2_500, second: "earliest"}) == {first: None, second: 0}
    assert admin.find_offsets({}) == {}
    places = {first: Position("time", 2_500), second: Position("offset", 7)}
    assert resolve(admin, places) == {first: 2, second: 7}
    assert ranges(admin, [first, second]) == {first: (0, 2), second: (0, 0)}


def test_a_setting_says_who_set_it(admin: Admin, topic: str) -> None:
    admin.create_topic(topic, settings={"retention.ms": 5000})

    settings = admin.settings(topic)

    assert (settings["retention.ms"].source, settings["cleanup.policy"].source) == ("topic", "default")


def test_a_group_is_described_with_its_lag_and_moved(admin: Admin, bootstrap: str, topic: str) -> None:
    admin.create_topic(topic, partitions=2)
    with Producer(bootstrap) as producer:
        for number in range(10):
            producer.send(topic, "x", partition=number % 2)
    with Consumer(topic, bootstrap=bootstrap, group=topic, client_id="mine") as consumer:
        consumer.batch(10, 5)
        consumer.commit()
        group = admin.group(topic)
        assert (group.name, group.state) == (topic, "stable")
        (member,) = group.members
        assert (member.client_id, member.partitions) == ("mine", [TopicPartition(topic, 0), TopicPartition(topic, 1)])

    assert topic in admin.groups()
    assert admin.committed(topic) == {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 5}
    assert sum(admin.lag(topic).values()) == 0
    assert admin.reset_offsets(topic, topic, "earliest") == {0: 0, 1: 0}
    assert admin.lag(topic) == {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 5}
    admin.delete_group(topic)
    assert topic not in admin.groups()
    with pytest.raises(GroupNotFound):
        admin.delete_group(topic)
    admin.delete_group(topic, missing_ok=True)
    with pytest.raises(GroupNotFound, match=topic):
        admin.lag(topic)


def test_lag_counts_partitions_in_which_nothing_is_committed(admin: Admin, bootstrap: str, topic: str) -> None:
    admin.create_topic(topic, partitions=2)
    with Producer(bootstrap) as producer:
        for number in range(10):
            producer.send(topic, "x", partition=number % 2)
    admin.set_offsets(topic, {TopicPartition(topic, 0): 3})

    assert admin.lag(topic) == {TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 5}


def test_a_group_that_is_not_there_is_an_error(admin: Admin, topic: str) -> None:
    for ask in (admin.group, admin.lag, admin.delete_group):
        with pytest.raises(GroupNotFound, match=f"group '{topic}'"):
            ask(topic)

    assert admin.committed(topic) == {}


def test_the_cluster_says_who_is_there(admin: Admin, bootstrap: str) -> None:
    cluster = admin.cluster()

    assert cluster.id
    assert f"{cluster.brokers[0].host}:{cluster.brokers[0].port}" == bootstrap
    assert cluster.controller in [broker.id for broker in cluster.brokers]


@pytest.mark.parametrize(
    ("use", "named"),
    [
        (lambda admin: admin.create_topic("a/b"), "name='a/b'"),
        (lambda admin: admin.create_topic("t", partitions=0), "partitions=0"),
        (lambda admin: admin.create_topic("t", replication=0), "replication=0"),
        (lambda admin: admin.offsets("t", "noon"), "at='noon'"),
        (lambda admin: admin.group(""), "group=''"),
        (lambda admin: admin.group(5), "^group=5"),
        (lambda admin: admin.create_topic("t", settings=["compact"]), "settings=.* a dict of name to value"),
        (lambda admin: admin.delete_records("t", 5), "before=5 .* a dict of partition to offset"),
        (lambda admin: admin.delete_records("t", {0: "end"}), "before='end'"),
        (lambda admin: admin.set_offsets("g", {"t": 5}), "offsets='t' .* TopicPartition"),
        (lambda admin: admin.set_offsets("g", {TopicPartition("t", 0): -5}), "offsets=-5"),
    ],
)
def test_bad_arguments_are_named(admin: Admin, use: Any, named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        use(admin)
