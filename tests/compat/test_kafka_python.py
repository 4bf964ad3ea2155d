"""kafka-python, written without librdkafka: what goes in comes out, and what it administers it can read back."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import TopicAlreadyExistsError

from tests.compat.compat_cases import CODECS, LARGE_TOPIC_BYTES, TIMES_MS, Sent, records
from tests.support.waiting import until

WAIT_S = 15
CODEC_PACKAGES = {"snappy": "snappy", "lz4": "lz4", "zstd": "zstandard"}


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def create(admin: KafkaAdminClient, topic: str, partitions: int = 1, **configs: str) -> None:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1, "configs": settings}})


def produce(bootstrap: str, topic: str, sent: tuple[Sent, ...], timestamps: tuple[int, ...] = (), **settings: Any) -> list[int]:
    """Send all to partition 0; the offsets as acknowledged."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, max_request_size=LARGE_TOPIC_BYTES, **settings)
    futures = []
    for number, record in enumerate(sent):
        at = timestamps[number] if timestamps else None
        futures.append(producer.send(topic, record.value, record.key, list(record.headers), partition=0, timestamp_ms=at))
        if timestamps:
            producer.flush(WAIT_S)  # a batch of its own
    offsets = [future.get(WAIT_S).offset for future in futures]
    producer.close()
    return offsets


def read(bootstrap: str, topic: str, offset: int, count: int) -> list[Any]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=WAIT_S * 1000)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, offset)
    got = [message for _, message in zip(range(count), consumer, strict=False)]
    consumer.close()
    return got


def as_sent(message: Any) -> Sent:
    return Sent(message.key, message.value, tuple(message.headers))


def require_codec(codec: str) -> None:
    package = CODEC_PACKAGES.get(codec)
    if package and find_spec(package) is None:
        pytest.skip(f"kafka-python needs the package {package} for {codec}: `make test` installs it")


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_shape_come_back_as_they_were_sent(
    bootstrap: str, admin: KafkaAdminClient, topic: str, codec: str
) -> None:
    require_codec(codec)
    create(admin, topic, max_message_bytes=str(LARGE_TOPIC_BYTES))
    sent = records()

    offsets = produce(bootstrap, topic, sent, compression_type=None if codec == "none" else codec, linger_ms=50)
    got = read(bootstrap, topic, 0, len(sent))

    assert offsets == list(range(len(sent)))
    assert [as_sent(message) for message in got] == list(sent)
    assert [message.offset for message in got] == list(range(len(sent)))


@pytest.mark.parametrize("settings", [{"acks": 1}, {"acks": "all"}, {"acks": "all", "enable_idempotence": True}], ids=str)
def test_every_kind_of_acknowledgement_writes_in_order(
    bootstrap: str, admin: KafkaAdminClient, topic: str, settings: dict[str, Any]
) -> None:
    create(admin, topic)
    sent = tuple(Sent(None, str(number).encode()) for number in range(200))

    offsets = produce(bootstrap, topic, sent, **settings)

    assert offsets == list(range(200))
    assert [message.value for message in read(bootstrap, topic, 0, 200)] == [record.value for record in sent]


def test_a_seek_by_time_finds_the_first_record_at_or_after_it(bootstrap: str, admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic)
    produce(bootstrap, topic, tuple(Sent(None, str(at).encode()) for at in TIMES_MS), TIMES_MS)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    partition = TopicPartition(topic, 0)

    found = consumer.offsets_for_times({partition: TIMES_MS[1] + 1})[partition]
    after_all = consumer.offsets_for_times({partition: TIMES_MS[-1] + 1})[partition]
    ends = (consumer.beginning_offsets([partition])[partition], consumer.end_offsets([partition])[partition])
    consumer.close()

    assert (found.offset, found.timestamp) == (2, TIMES_MS[2])
    assert after_all is None
    assert ends == (0, len(TIMES_MS))


def config_values(admin: KafkaAdminClient, topic: str) -> dict[str, str]:
    found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
    (by_name,) = found.values()
    (settings,) = by_name.values()
    return {name: entry["value"] for name, entry in settings.items()}


def test_a_created_topic_is_described_as_it_was_asked_for(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic, partitions=3, retention_ms="3600000")

    (described,) = admin.describe_topics([topic])
    settings = config_values(admin, topic)

    assert topic in admin.list_topics()
    assert sorted(partition["partition_index"] for partition in described["partitions"]) == [0, 1, 2]
    assert settings["retention.ms"] == "3600000"
    assert settings["cleanup.policy"] == "delete"
    with pytest.raises(TopicAlreadyExistsError):
        create(admin, topic)


def test_altered_settings_and_added_partitions_are_read_back(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic)

    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": "5000"})])
    admin.create_partitions({topic: 4})

    assert config_values(admin, topic)["max.message.bytes"] == "5000"
    assert partition_count_reaches(admin, topic, 4)


def partition_count_reaches(admin: KafkaAdminClient, topic: str, count: int) -> bool:
    """Kafka answers before every broker knows of new partitions."""
    return until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == count, seconds=WAIT_S, every_s=0.05)


def test_deleted_records_and_deleted_topics_are_gone(bootstrap: str, admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic)
    produce(bootstrap, topic, tuple(Sent(None, str(number).encode()) for number in range(10)))

    deleted = admin.delete_records({TopicPartition(topic, 0): 6})
    rest = [message.value for message in read(bootstrap, topic, 6, 4)]
    admin.delete_topics([topic])

    assert deleted[TopicPartition(topic, 0)]["low_watermark"] == 6
    assert rest == [b"6", b"7", b"8", b"9"]
    assert topic not in admin.list_topics()
