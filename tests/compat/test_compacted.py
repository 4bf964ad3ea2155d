"""Everybody's clients reach the end of topics of which compaction and expiry have left little, and see exactly what is left."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from headrace.testing import Broker
from tests.compat.compacted_topics import EXPIRED, PLAIN, SETTINGS, TRANSACTIONAL, prepare, visible_keys

GO_READERS = Path(__file__).parents[2] / ".cache" / "compat-go" / "readers"
TOPICS = (PLAIN, TRANSACTIONAL, EXPIRED)
ISOLATIONS = ("read_uncommitted", "read_committed")
# kafka-go hands control records to the application, those of transactions too; their keys begin so.
CONTROL_KEY = b"\x00\x00"


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = tmp_path_factory.mktemp("compacted")
    with Broker(data=data, settings=SETTINGS) as broker:
        prepare(broker, data)
        yield broker.bootstrap


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("topic", TOPICS)
def test_librdkafka_reads_a_heavily_compacted_topic_to_its_end_without_an_error(cleaned: str, topic: str, isolation: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": cleaned,
            "group.id": "r",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
    for start in (0, end // 2, end - 1):
        consumer.assign([TopicPartition(topic, 0, start)])
        keys: list[str] = []
        while True:
            message = consumer.poll(20)
            assert message is not None, f"stuck at {consumer.position([TopicPartition(topic, 0)])}"
            if message.error():
                assert message.error().name() == "_PARTITION_EOF", message.error()
                assert message.offset() == end
                break
            keys.append((message.key() or b"").decode())
        seen = list(dict.fromkeys(keys))
        assert seen == visible_keys(topic)[-len(seen) :] if seen else start > 0
        assert start > 0 or seen == visible_keys(topic)
    consumer.close()


@pytest.mark.parametrize("topic", TOPICS)
def test_kafka_python_reads_a_heavily_compacted_topic_to_its_end(cleaned: str, topic: str) -> None:
    consumer = KafkaConsumer(bootstrap_servers=cleaned, isolation_level="read_committed", auto_offset_reset="earliest")
    partition = KafkaPythonPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    keys: list[str] = []
    for _ in range(200):
        for records in consumer.poll(timeout_ms=200).values():
            keys += [record.key.decode() for record in records]
        if consumer.position(partition) == end:
            break

    assert consumer.position(partition) == end
    assert list(dict.fromkeys(keys)) == visible_keys(topic)
    consumer.close()


@pytest.mark.skipif(not GO_READERS.is_file(), reason="Go's clients are not built: `make compat-go` builds them where there is Go")
@pytest.mark.parametrize("client", ["kafka-go", "franz-go"])
def test_gos_clients_read_heavily_compacted_topics_to_their_end(cleaned: str, client: str) -> None:
    for topic in TOPICS:
        done = subprocess.run(
            [str(GO_READERS), client, cleaned, topic, visible_keys(topic)[-1]],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        keys = [bytes.fromhex(key) for key in json.loads(done.stdout)]
        if topic == PLAIN:
            assert not any(key.startswith(CONTROL_KEY) for key in keys)
        seen = dict.fromkeys(key.decode() for key in keys if not key.startswith(CONTROL_KEY))
        assert list(seen) == visible_keys(topic), client
