"""Transactions with confluent-kafka (librdkafka)."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.compat.transaction_readers import WAIT_S, create_topic, read_all
from tests.support.waiting import until

PARTITIONS = 3


@pytest.fixture
def producers(bootstrap: str) -> Callable[..., Producer]:
    def make(transactional_id: str, **properties: Any) -> Producer:
        given = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 1, **properties}
        producer = Producer(given)
        producer.init_transactions(WAIT_S)
        return producer

    return make


@pytest.fixture
def consumers(bootstrap: str) -> Iterator[Callable[..., Consumer]]:
    def make(group: str, topic: str, **properties: Any) -> Consumer:
        given = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **properties,
        }
        consumer = stack.enter_context(closing(Consumer(given)))
        consumer.subscribe([topic])
        return consumer

    with ExitStack() as stack:
        yield make


def take(consumer: Consumer, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"only {len(found)} of {count} records came"
        assert message.error() is None
        found.append(message.value().decode())
    return found


def test_committed_transactions_are_read_and_aborted_ones_are_not(bootstrap: str, topic: str, producers: Any) -> None:
    create_topic(bootstrap, topic, partitions=PARTITIONS)
    producer = producers(topic)
    for number in range(8):
        producer.begin_transaction()
        for index in range(PARTITIONS):
            producer.produce(topic, f"{number}-{index}", partition=index)
        producer.flush(WAIT_S)
        if number % 2:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)

    committed = [[f"{number}-{index}" for number in range(0, 8, 2)] for index in range(PARTITIONS)]
    everything = [[f"{number}-{index}" for number in range(8)] for index in range(PARTITIONS)]
    assert read_all(bootstrap, topic, partitions=PARTITIONS) == committed
    assert read_all(bootstrap, topic, partitions=PARTITIONS, isolation="read_uncommitted") == everything


def test_a_reader_of_committed_records_waits_for_an_open_transaction_and_not_for_ever(
    bootstrap: str, topic: str, producers: Any, consumers: Any
) -> None:
    create_topic(bootstrap, topic)
    producer = producers(topic)
    consumer = consumers(f"group-{topic}", topic)
    producer.begin_transaction()
    producer.produce(topic, "early")
    producer.flush(WAIT_S)
    while not consumer.assignment():
        consumer.poll(0.1)
    before = consumer.poll(0.5)
    producer.commit_transaction(WAIT_S)

    assert before is None
    assert take(consumer, 1) == ["early"]


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_go_with_their_transaction(bootstrap: str, topic: str, producers: Any, consumers: Any, committed: bool) -> None:
    source, target = f"{topic}-in", f"{topic}-out"
    create_topic(bootstrap, source, target)
    producer = producers(topic)
    producer.begin_transaction()
    for number in range(5):
        producer.produce(source, str(number))
    producer.commit_transaction(WAIT_S)
    consumer = consumers(f"group-{topic}", source)
    taken = take(consumer, 5)
    producer.begin_transaction()
    for value in taken:
        producer.produce(target, value + "!")
    producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), WAIT_S)
    (producer.commit_transaction if committed else producer.abort_transaction)(WAIT_S)
    (stored,) = consumer.committed([TopicPartition(source, 0)], WAIT_S)

    # librdkafka's position is one past the last record, before the marker.
    assert stored.offset == (5 if committed else -1001)
    assert read_all(bootstrap, target) == [[f"{number}!" for number in range(5)] if committed else []]


def test_a_second_producer_fences_the_first(bootstrap: str, topic: str, producers: Any) -> None:
    create_topic(bootstrap, topic)
    first = producers(topic)
    first.begin_transaction()
    first.produce(topic, "zombie")
    first.flush(WAIT_S)
    second = producers(topic)
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(WAIT_S)
    second.begin_transaction()
    second.produce(topic, "alive")
    second.commit_transaction(WAIT_S)

    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    assert fenced.value.args[0].fatal()
    assert read_all(bootstrap, topic) == [["alive"]]


def test_a_transaction_past_its_timeout_cannot_be_committed(bootstrap: str, topic: str, producers: Any) -> None:
    create_topic(bootstrap, topic)
    producer = producers(topic, **{"transaction.timeout.ms": 1000, "message.timeout.ms": 900})
    producer.begin_transaction()
    producer.produce(topic, "too slow")
    producer.flush(WAIT_S)
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": f"reader-{topic}"})) as reader:
        # The marker with which the coordinator aborts takes the offset after the record.
        until(lambda: reader.get_watermark_offsets(TopicPartition(topic, 0), WAIT_S)[1] == 2)
    with pytest.raises(KafkaException):
        producer.commit_transaction(WAIT_S)

    assert read_all(bootstrap, topic) == [[]]


def test_a_producer_with_a_timeout_above_the_brokers_limit_is_refused(bootstrap: str, topic: str, producers: Any) -> None:
    with pytest.raises(KafkaException) as refused:
        producers(topic, **{"transaction.timeout.ms": 15 * 60 * 1000 + 1})

    assert refused.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


def test_large_transactions_over_many_batches_are_whole(bootstrap: str, topic: str, producers: Any) -> None:
    create_topic(bootstrap, topic, partitions=PARTITIONS)
    producer = producers(topic, **{"batch.num.messages": 50})
    for committed in (True, False, True):
        producer.begin_transaction()
        for number in range(3000):
            producer.produce(topic, f"{committed}-{number}", partition=number % PARTITIONS)
        producer.flush(WAIT_S)
        (producer.commit_transaction if committed else producer.abort_transaction)(WAIT_S)
    found = read_all(bootstrap, topic, partitions=PARTITIONS)

    for index, values in enumerate(found):
        assert values == [f"True-{number}" for number in range(index, 3000, PARTITIONS)] * 2
