"""Transactions with kafka-python."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import InvalidProducerEpochError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

from tests.compat.transaction_readers import WAIT_S, create_topic, read_all


@pytest.fixture
def producers(bootstrap: str) -> Iterator[Callable[[str], KafkaProducer]]:
    def make(transactional_id: str) -> KafkaProducer:
        producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id, linger_ms=1)
        stack.callback(producer.close, timeout=1)
        producer.init_transactions()
        return producer

    with ExitStack() as stack:
        yield make


def test_committed_transactions_are_read_and_aborted_ones_are_not(bootstrap: str, topic: str, producers: Any) -> None:
    create_topic(bootstrap, topic)
    producer = producers(topic)
    for number in range(4):
        producer.begin_transaction()
        producer.send(topic, str(number).encode()).get(WAIT_S)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()

    assert read_all(bootstrap, topic) == [["0", "2"]]
    assert read_all(bootstrap, topic, isolation="read_uncommitted") == [["0", "1", "2", "3"]]


def test_its_consumer_leaves_out_what_was_aborted(bootstrap: str, topic: str, producers: Any) -> None:
    create_topic(bootstrap, topic)
    producer = producers(topic)
    for number in range(6):
        producer.begin_transaction()
        producer.send(topic, str(number).encode()).get(WAIT_S)
        if number % 3 == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest", consumer_timeout_ms=3000
    )
    with closing(consumer):
        consumer.assign([TopicPartition(topic, 0)])
        found = []
        for record in consumer:
            found.append(record.value.decode())
            if found[-1] == "5":
                break

    assert found == ["0", "2", "3", "5"]


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_go_with_their_transaction(bootstrap: str, topic: str, producers: Any, committed: bool) -> None:
    create_topic(bootstrap, topic)
    producer = producers(topic)
    partition, group = TopicPartition(topic, 0), f"group-{topic}"
    producer.begin_transaction()
    producer.send(topic, b"x").get(WAIT_S)
    producer.send_offsets_to_transaction({partition: OffsetAndMetadata(7, "note", -1)}, group)
    if committed:
        producer.commit_transaction()
    else:
        producer.abort_transaction()
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)) as consumer:
        consumer.assign([partition])
        stored = consumer.committed(partition)

    assert stored == (7 if committed else None)


def test_a_second_producer_fences_the_first(bootstrap: str, topic: str, producers: Any) -> None:
    create_topic(bootstrap, topic)
    first = producers(topic)
    first.begin_transaction()
    first.send(topic, b"zombie").get(WAIT_S)
    second = producers(topic)
    with pytest.raises((ProducerFencedError, InvalidProducerEpochError)):
        first.commit_transaction()
    second.begin_transaction()
    second.send(topic, b"alive").get(WAIT_S)
    second.commit_transaction()

    assert read_all(bootstrap, topic) == [["alive"]]
