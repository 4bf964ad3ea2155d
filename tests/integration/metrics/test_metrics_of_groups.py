"""Metrics of those who work together: groups, share groups, transactions."""

import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace import Admin
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from tests.support.metrics import Watch, write
from tests.support.raw import RawClient, batch
from tests.support.share_member import ShareMember, set_of_group
from tests.support.share_requests import ACCEPT, REJECT, RELEASE
from tests.support.waiting import until


def test_groups_and_how_far_they_are_behind(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    write(client, topic, batch(b"one", b"two", b"three"))
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = until(lambda: consumer.poll(0.1))
    consumer.commit(found, asynchronous=False)

    named = {"group": topic, "topic": topic, "partition": 0}
    assert watch.moved("headrace_groups", protocol="classic", state="Stable") == 1
    assert watch.moved("headrace_group_members") == 1
    assert watch.now("headrace_group_members_by_group", group=topic) == 1
    assert watch.moved("headrace_group_offsets") == 1
    assert watch.moved("headrace_group_rebalance_seconds" + "_count") >= 1
    assert watch.now("headrace_group_committed_offset", **named) == 1
    assert watch.now("headrace_group_lag_records", **named) == 2
    assert watch.now("headrace_groups_lag_records_max") >= 2
    written_at = 1_700_000_000
    assert watch.now("headrace_group_lag_seconds", **named) == pytest.approx(time.time() - written_at, abs=60)
    consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    assert watch.now("headrace_group_lag_records", **named) == 0
    assert watch.now("headrace_group_lag_seconds", **named) == 0
    consumer.close()


def test_transactions(broker: Broker, topic: str) -> None:
    watch = Watch(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"one")
    producer.flush(30)
    assert watch.moved("headrace_transactions_open") == 1
    until(lambda: watch.now("headrace_transactions_oldest_seconds") > 0)
    producer.commit_transaction(30)

    until(lambda: watch.moved("headrace_transactions_total", outcome="committed") == 1)
    assert watch.moved("headrace_transactions_open") == 0
    producer.begin_transaction()
    producer.produce(topic, b"two")
    producer.flush(30)
    producer.abort_transaction(30)
    until(lambda: watch.moved("headrace_transactions_total", outcome="aborted") == 1)


def test_share_groups_at_work(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    member = ShareMember(client, topic, topic).join()
    member.produce(b"a", b"b", b"c", b"d")
    member.take()
    for offset, word in enumerate((ACCEPT, RELEASE, REJECT)):
        assert member.say(offset, offset, word) == ErrorCode.NONE

    assert watch.moved("headrace_groups", protocol="share", state="Stable") == 1
    assert watch.moved("headrace_share_sessions") == 1
    assert watch.moved("headrace_share_records_in_flight") == 1
    assert watch.moved("headrace_share_deliveries_total") == 4
    for outcome in ("accepted", "released", "given_up"):
        assert watch.moved("headrace_share_outcomes_total", outcome=outcome) == 1
    one = {"group": topic, "topic": topic}
    assert watch.now("headrace_share_group_lag_records", partition=0, **one) == 2
    assert watch.moved("headrace_share_lag_records") == 2
    assert watch.now("headrace_share_group_in_flight_records", partition=0, **one) == 1
    assert watch.now("headrace_share_group_dead_records_total", **one) == 1
    # Those of `batch` are of long ago.
    assert watch.now("headrace_share_group_oldest_seconds", partition=0, **one) > 3600
    assert watch.now("headrace_share_oldest_seconds") > 3600


def test_what_a_share_group_has_not_done_is_told_also_when_nobody_works(broker: Broker, client: RawClient, topic: str) -> None:
    member = ShareMember(client, topic, topic).join()
    member.produce(b"a", b"b", b"c")
    member.take()
    assert member.say(0, 0, ACCEPT) == ErrorCode.NONE
    watch = Watch(broker)
    broker.run(lambda real: [led.close(ErrorCode.NOT_LEADER_OR_FOLLOWER) for led in real.parts.share_partitions.all()])
    broker.run(lambda real: real.parts.share_partitions.close())

    assert watch.now("headrace_share_group_lag_records", group=topic) == 2
    assert watch.now("headrace_share_group_in_flight_records", group=topic) == 0


def test_a_share_group_that_its_breaker_pauses(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    limits = {"headrace_share_breaker_percent": "50", "headrace_share_breaker_records": "2"}
    assert set_of_group(client, topic, **limits) == ErrorCode.NONE
    member = ShareMember(client, topic, topic).join()
    member.produce(b"a", b"b")
    member.take()
    assert member.say(0, 1, REJECT) == ErrorCode.NONE

    assert watch.moved("headrace_share_breaker_trips_total") == 1
    assert watch.now("headrace_share_breakers_open") == 1


def test_a_dead_letter_that_its_topic_takes_at_no_size(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    with Admin(broker.bootstrap) as admin:
        small = {"errors.deadletterqueue.group.enable": "true", "max.message.bytes": "50"}
        admin.create_topic(f"dlq.{topic}", settings=small)
    assert set_of_group(client, topic, errors_deadletterqueue_topic_name=f"dlq.{topic}") == ErrorCode.NONE
    member = ShareMember(client, topic, topic).join()
    member.produce(b"a")
    member.take()
    assert member.say(0, 0, REJECT) == ErrorCode.NONE

    assert watch.moved("headrace_share_letters_lost_total") == 1
