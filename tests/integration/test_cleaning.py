"""Compaction, tombstones and time to live, in the background of a broker that goes on serving."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import Broker

QUICK = {"log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "50", "log.segment.delete.delay.ms": "0"}
COMPACTED = {"cleanup.policy": "compact", "internal.segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}


def make(broker: Broker, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result()


def write(broker: Broker, topic: str, records: list[tuple[str, str | None]], codec: str = "none", **more: object) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 0, "enable.idempotence": False}
    )
    for key, value in records:
        producer.produce(topic, key=key, value=value, **more)
        producer.flush(10)


def read(broker: Broker, topic: str) -> list[tuple[str, str | None]]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "r", "enable.auto.commit": False, "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    records: list[tuple[str, str | None]] = []
    try:
        while True:
            message = consumer.poll(5)
            assert message is not None
            if message.error():
                return records
            value = message.value()
            records.append(((message.key() or b"").decode(), None if value is None else value.decode()))
    finally:
        consumer.close()


def until(holds: object, seconds: float = 15.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_compacted_topic_keeps_the_last_value_of_each_key_in_every_codec(tmp_path: Path, codec: str) -> None:
    with Broker(data=tmp_path / "data", settings=QUICK) as broker:
        make(broker, "t", **{name.replace(".", "_"): value for name, value in COMPACTED.items()})
        write(broker, "t", [(f"k{n % 5}", f"v{n}-{'x' * 50}") for n in range(100)], codec)
        write(broker, "t", [("last", "y" * 500), ("last", "z" * 500), ("last", "!" * 500)], codec)

        assert until(lambda: len(read(broker, "t")) < 30)
        latest = dict(read(broker, "t"))
        assert {key: latest[key] for key in ("k0", "k4")} == {"k0": f"v95-{'x' * 50}", "k4": f"v99-{'x' * 50}"}
        broker.restart()
        assert dict(read(broker, "t")) == latest


def test_a_tombstone_removes_its_key_and_then_goes_itself(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data", settings=QUICK) as broker:
        make(
            broker,
            "t",
            cleanup_policy="compact",
            internal_segment_bytes="500",
            min_cleanable_dirty_ratio="0.01",
            delete_retention_ms="0",
        )
        write(broker, "t", [("gone", "value"), ("stays", "value"), ("gone", None)])

        def push() -> bool:
            write(broker, "t", [("filler", "x" * 300), ("filler", "x" * 300)])
            return "gone" not in dict(read(broker, "t"))

        assert until(push)
        assert dict(read(broker, "t"))["stays"] == "value"


def test_expired_records_are_cleaned_from_topics_that_enable_it(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data", settings=QUICK) as broker:
        make(broker, "t", headrace_ttl_enable="true", internal_segment_bytes="300")
        write(broker, "t", [("short", "x" * 100)], headers={"headrace-ttl-ms": b"200"})
        write(broker, "t", [("long", "x" * 100)])
        write(broker, "t", [("filler", "x" * 200), ("filler", "x" * 200)])

        assert until(lambda: "short" not in dict(read(broker, "t")))
        assert "long" in dict(read(broker, "t"))
