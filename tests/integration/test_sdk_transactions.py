"""Transactions: records and offsets together, or not at all."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from headrace import Consumer, DeliveryFailed, Fenced, Producer, TopicPartition, TransactionAborted
from headrace.testing import Broker


def committed_values(bootstrap: str, topic: str) -> list[str]:
    with Consumer[str, str](topic, bootstrap=bootstrap, values=str) as consumer:
        return [record.value for record in consumer.to_end()]


def test_a_transaction_is_seen_whole_or_not_at_all(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, transactional_id=topic) as producer:
        with producer.transaction() as transaction:
            transaction.send(topic, "a")
            transaction.send(f"{topic}-other", "b")

        def fails() -> None:
            with producer.transaction() as transaction:
                transaction.send(topic, "never").result(10)
                raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            fails()
        with producer.transaction():
            producer.send_many(topic, ["c", "d"])

    assert committed_values(bootstrap, topic) == ["a", "c", "d"]
    assert committed_values(bootstrap, f"{topic}-other") == ["b"]


def test_a_reader_may_ask_for_the_end_of_a_transactional_topic_again_and_again(bootstrap: str, topic: str) -> None:
    """The mark that ends a transaction is no record: the end lies behind it, and librdkafka says only once that it is there."""
    with (
        Producer(bootstrap, transactional_id=topic) as producer,
        Consumer[str, str](topic, bootstrap=bootstrap, values=str, missing_topics="wait") as consumer,
    ):
        seen = []
        for value in ("a", "b"):
            with producer.transaction() as transaction:
                transaction.send(topic, value)
            seen += [[record.value for record in consumer.to_end()] for _ in range(2)]

    assert seen == [["a"], [], ["b"], []]


def test_consumed_offsets_are_part_of_the_transaction(bootstrap: str, topic: str) -> None:
    source, target = f"{topic}-in", f"{topic}-out"
    with Producer(bootstrap) as producer:
        producer.send_many(source, [str(number) for number in range(20)])
    with (
        Consumer[bytes, str](source, bootstrap=bootstrap, group=topic, values=str, delivery="exactly_once") as consumer,
        Producer(bootstrap, transactional_id=topic) as producer,
    ):
        while batch := consumer.batch(6, 2):
            with producer.transaction() as transaction:
                for record in batch:
                    transaction.send(target, f"done {record.value}")
                transaction.send_offsets(consumer)
        assert consumer.committed() == {TopicPartition(source, 0): 20}

    assert committed_values(bootstrap, target) == [f"done {number}" for number in range(20)]


def test_after_an_abort_the_consumer_reads_the_same_again(bootstrap: str, topic: str) -> None:
    source, target = f"{topic}-in", f"{topic}-out"
    with Producer(bootstrap) as producer:
        producer.send_many(source, [str(number) for number in range(9)])
    attempts = 0
    with (
        Consumer[bytes, str](source, bootstrap=bootstrap, group=topic, values=str, delivery="exactly_once") as consumer,
        Producer(bootstrap, transactional_id=topic) as producer,
    ):

        def work(batch: list[Any]) -> None:
            with producer.transaction(consumer):
                for record in batch:
                    producer.send(target, record.value)
                if attempts % 2 == 1:
                    raise RuntimeError("every other time")

        while batch := consumer.batch(3, 2):
            attempts += 1
            try:
                work(list(batch))
            except RuntimeError:
                continue

    assert attempts == 6
    assert committed_values(bootstrap, target) == [str(number) for number in range(9)]


def test_a_newer_instance_of_the_same_name_fences_the_older(bootstrap: str, topic: str) -> None:
    old, new = Producer(bootstrap, transactional_id=topic, linger=0), Producer(bootstrap, transactional_id=topic, linger=0)
    with old.transaction():
        old.send(topic, "old")
    begin = time.monotonic()

    def zombie() -> None:
        with old.transaction():
            old.send(topic, "zombie")
            with new.transaction():
                new.send(topic, "new")

    with pytest.raises((Fenced, TransactionAborted)):
        zombie()
    with pytest.raises((Fenced, TransactionAborted, DeliveryFailed)), old.transaction():
        old.send(topic, "zombie again").result(20)
    old.close()
    new.close()

    assert time.monotonic() - begin < 30
    assert committed_values(bootstrap, topic) == ["old", "new"]


def test_a_program_that_died_in_a_transaction_leaves_nothing_for_its_successor(bootstrap: str, topic: str) -> None:
    died = Producer(bootstrap, transactional_id=topic, linger=0)
    died.transaction().__enter__()
    died.send(topic, "half").result(20)

    with Producer(bootstrap, transactional_id=topic, linger=0) as successor, successor.transaction():
        successor.send(topic, "whole")

    assert committed_values(bootstrap, topic) == ["whole"]
    died.close()


def test_offsets_reach_the_transaction_after_the_only_broker_was_away() -> None:
    with Broker(memory=False) as broker:
        with Producer(broker.bootstrap) as producer:
            producer.send_many("in", [str(number) for number in range(10)])
        with (
            Consumer[bytes, str]("in", bootstrap=broker.bootstrap, group="g", values=str, delivery="exactly_once") as consumer,
            Producer(broker.bootstrap, transactional_id="copier") as producer,
        ):

            def copy(while_open: Callable[[], None]) -> None:
                with producer.transaction(consumer):
                    for record in consumer.batch(5, 10):
                        producer.send("out", record.value)
                    while_open()

            def restart() -> None:
                broker.abandon()
                # Long enough for librdkafka to give up every broker it knew.
                time.sleep(3)
                broker.start()

            copy(lambda: None)
            copying = threading.Thread(target=copy, args=(restart,), daemon=True)
            copying.start()
            copying.join(60)

            assert not copying.is_alive(), "librdkafka waits for a coordinator it has forgotten"
        assert committed_values(broker.bootstrap, "out") == [str(number) for number in range(10)]
