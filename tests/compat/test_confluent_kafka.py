"""confluent-kafka (librdkafka): what goes in comes out, and what it administers it can read back."""

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.compat.compat_cases import CODECS, LARGE_TOPIC_BYTES, NOTHING, TIMES_MS, WITH_NULL_HEADER, Sent, records

WAIT_S = 15.0


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(WAIT_S)


def produce(bootstrap: str, topic: str, sent: tuple[Sent, ...], **properties: Any) -> list[Message]:
    """Send all; the messages as acknowledged."""
    acknowledged: list[Message] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        acknowledged.append(message)

    settings = {name.replace("_", "."): value for name, value in properties.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": LARGE_TOPIC_BYTES, **settings})
    for record in sent:
        producer.produce(topic, record.value, record.key, partition=0, headers=list(record.headers), on_delivery=delivered)
    assert producer.flush(WAIT_S) == 0
    return acknowledged


def read(bootstrap: str, start: TopicPartition, count: int, **properties: Any) -> list[Message]:
    settings = {name.replace("_", "."): value for name, value in properties.items()}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, **settings})
    consumer.assign([start])
    got: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while len(got) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            got.append(message)
    consumer.close()
    return got


def as_sent(message: Message) -> Sent:
    return Sent(message.key(), message.value(), tuple(message.headers() or ()))


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_shape_come_back_as_they_were_sent(bootstrap: str, admin: AdminClient, topic: str, codec: str) -> None:
    create(admin, topic, max_message_bytes=str(LARGE_TOPIC_BYTES))
    sent = (*records(), WITH_NULL_HEADER, NOTHING)

    acknowledged = produce(bootstrap, topic, sent, compression_type=codec, linger_ms=50)
    got = read(bootstrap, TopicPartition(topic, 0, 0), len(sent))

    assert [message.offset() for message in acknowledged] == list(range(len(sent)))
    assert [as_sent(message) for message in got] == list(sent)
    assert [message.offset() for message in got] == list(range(len(sent)))


@pytest.mark.parametrize("properties", [{"acks": "0"}, {"acks": "1"}, {"acks": "all", "enable_idempotence": True}], ids=str)
def test_every_kind_of_acknowledgement_writes_in_order(
    bootstrap: str, admin: AdminClient, topic: str, properties: dict[str, Any]
) -> None:
    create(admin, topic)
    sent = tuple(Sent(None, str(number).encode()) for number in range(500))

    produce(bootstrap, topic, sent, **properties)
    got = read(bootstrap, TopicPartition(topic, 0, 0), len(sent))

    assert [message.value() for message in got] == [record.value for record in sent]


def test_a_reader_with_small_fetch_limits_still_gets_large_messages(bootstrap: str, admin: AdminClient, topic: str) -> None:
    create(admin, topic, max_message_bytes=str(LARGE_TOPIC_BYTES))
    sent = records()
    produce(bootstrap, topic, sent)

    got = read(
        bootstrap, TopicPartition(topic, 0, 0), len(sent), max_partition_fetch_bytes=1000, fetch_max_bytes=LARGE_TOPIC_BYTES
    )

    assert [as_sent(message) for message in got] == list(sent)


def test_a_message_over_the_topics_limit_is_refused_and_the_next_one_is_taken(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    create(admin, topic, max_message_bytes="1000")
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap})

    for value in (b"x" * 2000, b"y"):
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
        producer.flush(WAIT_S)

    assert errors[0] is not None
    assert errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert errors[1] is None


def test_a_seek_by_time_finds_the_first_record_at_or_after_it(bootstrap: str, admin: AdminClient, topic: str) -> None:
    create(admin, topic)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, timestamp in enumerate(TIMES_MS):
        producer.produce(topic, str(number).encode(), partition=0, timestamp=timestamp)
        producer.flush(WAIT_S)  # a batch of its own, so that the time index has something to find
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})

    def offset_at(timestamp: int) -> int:
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=WAIT_S)
        return int(found.offset)

    at = offset_at(TIMES_MS[2])
    between = offset_at(TIMES_MS[2] + 1)
    after_all = offset_at(TIMES_MS[-1] + 1)
    (latest,) = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.max_timestamp()}).values()
    got = read(bootstrap, TopicPartition(topic, 0, at), 3)
    consumer.close()

    assert (at, between) == (2, 3)
    assert after_all == -1  # librdkafka: the end
    assert (latest.result(WAIT_S).offset, latest.result(WAIT_S).timestamp) == (4, TIMES_MS[-1])
    assert [message.timestamp()[1] for message in got] == list(TIMES_MS[2:])


def config_values(admin: AdminClient, topic: str) -> dict[str, str]:
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in future.result(WAIT_S).items()}


def test_a_created_topic_is_described_as_it_was_asked_for(admin: AdminClient, topic: str) -> None:
    create(admin, topic, partitions=3, retention_ms="3600000", cleanup_policy="compact")

    described = admin.list_topics(topic, timeout=WAIT_S).topics[topic]
    settings = config_values(admin, topic)

    assert sorted(described.partitions) == [0, 1, 2]
    assert all(
        partition.leader >= 0 and list(partition.isrs) == [partition.leader] for partition in described.partitions.values()
    )
    assert settings["retention.ms"] == "3600000"
    assert settings["cleanup.policy"] == "compact"
    assert settings["segment.bytes"] == "1073741824"


def test_altered_settings_and_added_partitions_are_read_back(admin: AdminClient, topic: str) -> None:
    create(admin, topic, retention_ms="3600000")
    changes = [
        ConfigEntry("max.message.bytes", "5000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)

    (altered,) = admin.incremental_alter_configs([resource]).values()
    altered.result(WAIT_S)
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(WAIT_S)

    settings = config_values(admin, topic)
    assert settings["max.message.bytes"] == "5000"
    assert settings["retention.ms"] == "604800000"
    assert len(admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions) == 4


def test_deleted_records_are_gone_and_the_rest_stays(bootstrap: str, admin: AdminClient, topic: str) -> None:
    create(admin, topic)
    produce(bootstrap, topic, tuple(Sent(None, str(number).encode()) for number in range(10)))

    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 6)]).values()
    low_watermark = deleted.result(WAIT_S).low_watermark
    got = read(bootstrap, TopicPartition(topic, 0, 6), 4)

    assert low_watermark == 6
    assert [message.value() for message in got] == [b"6", b"7", b"8", b"9"]


def test_a_deleted_topic_can_be_created_again_empty(bootstrap: str, admin: AdminClient, topic: str) -> None:
    create(admin, topic)
    produce(bootstrap, topic, (Sent(None, b"old"),))

    admin.delete_topics([topic])[topic].result(WAIT_S)
    create_when_gone(admin, topic)
    produce(bootstrap, topic, (Sent(None, b"new"),))
    got = read(bootstrap, TopicPartition(topic, 0, 0), 1)

    assert [message.value() for message in got] == [b"new"]


def create_when_gone(admin: AdminClient, topic: str) -> None:
    """Kafka may answer before a deletion has spread."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return create(admin, topic)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                raise


def test_wrong_topics_get_kafkas_error_codes(admin: AdminClient, topic: str) -> None:
    create(admin, topic)

    def code(new: NewTopic) -> int:
        with pytest.raises(KafkaException) as raised:
            admin.create_topics([new])[new.topic].result(WAIT_S)
        return int(raised.value.args[0].code())

    assert code(NewTopic(topic, 1, 1)) == KafkaError.TOPIC_ALREADY_EXISTS
    assert code(NewTopic("with/slash", 1, 1)) == KafkaError.TOPIC_EXCEPTION
    assert code(NewTopic(f"{topic}-b", 1, 1, config={"no.such.setting": "1"})) == KafkaError.INVALID_CONFIG
    assert code(NewTopic(f"{topic}-c", 1, 99)) == KafkaError.INVALID_REPLICATION_FACTOR


def test_a_topic_comes_to_be_when_a_producer_first_writes_to_it(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, (Sent(b"k", b"v"),))

    got = read(bootstrap, TopicPartition(topic, 0, 0), 1)

    assert as_sent(got[0]) == Sent(b"k", b"v")
