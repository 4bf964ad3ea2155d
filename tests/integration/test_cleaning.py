"""Compaction, tombstones and time to live, in the background of a broker that goes on serving."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import Broker
from tests.support.waiting import until

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


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_compacted_topic_keeps_the_last_value_of_each_key_in_every_codec(tmp_path: Path, codec: str) -> None:
    with Broker(data=tmp_path / "data", settings=QUICK) as broker:
        make(broker, "t", **{name.replace(".", "_"): value for name, value in COMPACTED.items()})
        write(broker, "t", [(f"k{n % 5}", f"v{n}-{'x' * 50}") for n in range(100)], codec)
        write(broker, "t", [("last", "y" * 500), ("last", "z" * 500), ("last", "!" * 500)], codec)

        until(lambda: len(read(broker, "t")) < 30)
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

        until(push)
        assert dict(read(broker, "t"))["stays"] == "value"


def test_expired_records_are_cleaned_from_topics_that_enable_it(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data", settings=QUICK) as broker:
        make(broker, "t", headrace_ttl_enable="true", internal_segment_bytes="300")
        write(broker, "t", [("short", "x" * 100)], headers={"headrace-ttl-ms": b"200"})
        write(broker, "t", [("long", "x" * 100)])
        write(broker, "t", [("filler", "x" * 200), ("filler", "x" * 200)])

        until(lambda: "short" not in dict(read(broker, "t")))
        assert "long" in dict(read(broker, "t"))
        # What comes after the first pass expires like what came before it.
        write(broker, "t", [("next", "x" * 100)], headers={"headrace-ttl-ms": b"200"})
        write(broker, "t", [("filler", "x" * 200), ("filler", "x" * 200)])
        until(lambda: "next" not in dict(read(broker, "t")))
        assert "long" in dict(read(broker, "t"))


def test_in_memory_a_short_time_to_live_does_not_wait_for_a_long_one() -> None:
    with Broker(settings=QUICK) as broker:
        make(broker, "t", headrace_ttl_enable="true")
        write(broker, "t", [("day", "x")], headers={"headrace-ttl-ms": b"86400000"})
        until(lambda: "day" in dict(read(broker, "t")))
        write(broker, "t", [("short", "x")], headers={"headrace-ttl-ms": b"200"})

        until(lambda: "short" not in dict(read(broker, "t")))
        assert "day" in dict(read(broker, "t"))


@pytest.mark.parametrize(("memory", "settings"), [(True, {}), (False, {}), (False, {"segment_ms": "100"})])
def test_with_default_intervals_expired_records_are_gone_within_seconds(memory: bool, settings: dict[str, str]) -> None:
    with Broker(memory=memory) as broker:
        make(broker, "t", headrace_ttl_enable="true", **settings)
        write(broker, "t", [("day", "x")], headers={"headrace-ttl-ms": b"86400000"})
        write(broker, "t", [("short", "x"), ("short", "y")], headers={"headrace-ttl-ms": b"200"})

        until(lambda: read(broker, "t") == [("day", "x")])
        write(broker, "t", [("next", "x")], headers={"headrace-ttl-ms": b"200"})
        until(lambda: read(broker, "t") == [("day", "x")])


@pytest.mark.parametrize("memory", [True, False])
def test_expiry_and_compaction_under_load_lose_nothing_that_should_stay(tmp_path: Path, memory: bool) -> None:
    """Keys are written over and over, some with a time to live that is over at once; the broker is cleaning all the time."""
    data = {} if memory else {"data": tmp_path / "data"}
    with Broker(**data, settings=QUICK) as broker:  # type: ignore[arg-type]
        config = {"cleanup_policy": "compact", "internal_segment_bytes": "20000", "min_cleanable_dirty_ratio": "0.01"}
        make(broker, "t", headrace_ttl_enable="true", **config)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 1, "enable.idempotence": True})
        expected: dict[str, str] = {}
        deadline = time.monotonic() + 2
        number = 0
        while time.monotonic() < deadline:
            for _ in range(50):
                key, value = f"k{number % 300}", f"v{number}"
                expires = number % 3 == 0 and number % 300 >= 150
                producer.produce("t", key=key, value=value, headers={"headrace-ttl-ms": b"50"} if expires else {})
                if expires:
                    expected.pop(key, None)
                else:
                    expected[key] = value
                number += 1
            producer.flush(30)

        def is_as_expected() -> bool:
            # The active segment is never cleaned: it is closed by what follows.
            producer.produce("t", key="last", value="x" * 11_000)
            producer.flush(30)
            producer.produce("t", key="last", value="x" * 11_000)
            producer.flush(30)
            found = {key: value for key, value in read(broker, "t") if key != "last"}
            assert expected.items() <= found.items()
            return found == expected and len(read(broker, "t")) < number / 2

        until(is_as_expected)


def test_rounds_of_cleaning_at_the_same_time_do_not_end_each_others_worker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Broker(data=tmp_path / "data", settings=QUICK | {"log.cleaner.backoff.ms": "1"}) as broker:
        make(broker, "t", headrace_ttl_enable="true", internal_segment_bytes="300")
        for _ in range(6):
            write(broker, "t", [("short", "x" * 100)] * 3, headers={"headrace-ttl-ms": b"1"})
            broker.housekeep()

    assert "could not be compacted" not in caplog.text


def test_a_script_without_a_main_guard_runs_once_when_a_topic_is_compacted(tmp_path: Path) -> None:
    script = tmp_path / "user.py"
    script.write_text(
        "import pathlib, sys, time\n"
        "from confluent_kafka import Producer\n"
        "from confluent_kafka.admin import AdminClient, NewTopic\n"
        "from headrace.testing import Broker\n"
        "print('begins', flush=True)\n"
        "settings = {'log.cleaner.backoff.ms': '50'}\n"
        "with Broker(data=sys.argv[1], memory=False, settings=settings) as broker:\n"
        "    config = {'cleanup.policy': 'compact', 'internal.segment.bytes': '2000', 'min.cleanable.dirty.ratio': '0.01'}\n"
        "    topic = NewTopic('t', 1, 1, config=config)\n"
        "    admin = AdminClient({'bootstrap.servers': broker.bootstrap})\n"
        "    admin.create_topics([topic])['t'].result()\n"
        "    producer = Producer({'bootstrap.servers': broker.bootstrap, 'linger.ms': 0})\n"
        "    for number in range(60):\n"
        "        producer.produce('t', key='k', value='v' * 100)\n"
        "        producer.flush()\n"
        "    deadline = time.monotonic() + 30\n"
        "    log = pathlib.Path(sys.argv[1]) / 't-0'\n"
        "    size = lambda: sum(path.stat().st_size for path in log.glob('*.log'))\n"
        "    while time.monotonic() < deadline and size() > 4000:\n"
        "        time.sleep(0.05)\n"
        "    print('compacted' if size() <= 4000 else 'not compacted', flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "data")], stdout=subprocess.PIPE, text=True, timeout=90, check=False
    )

    assert done.stdout.split("\n") == ["begins", "compacted", ""]
