"""`kill -9` at random moments under load: every acknowledged record is there, in order, once.

HEADRACE_TORTURE_ROUNDS sets how often; `make torture` asks for fifty.
"""

import os
import random
import threading
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.process import BrokerProcess

ROUNDS = int(os.environ.get("HEADRACE_TORTURE_ROUNDS", "3"))
PARTITIONS = 3


class Load:
    """An idempotent producer that notes what was acknowledged where."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        self.sent = 0
        self._stopping = threading.Event()
        self._progress = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 200,
                "socket.timeout.ms": 5000,
                "logger": _silent(),
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for _ in range(50):
                self._send()
            self._producer.poll(0.005)

    def _send(self) -> None:
        while True:
            try:
                partition = self.sent % PARTITIONS
                self._producer.produce("t", str(self.sent).encode(), partition=partition, on_delivery=self._delivered)
                self.sent += 1
                return
            except BufferError:
                self._producer.poll(0.05)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, f"a record was given up: {error}"
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert value is not None
        if offset is not None:
            # Without one, a later batch's reply acknowledged it; that every value is there, once and in order, is checked anyway.
            self.acknowledged[partition].append((offset, value))
        self._progress.set()

    def wait_for_progress(self) -> None:
        """Return when something more has been acknowledged."""
        self._progress.clear()
        assert self._progress.wait(60), "nothing is acknowledged any more"

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0


@pytest.mark.timeout(30 + ROUNDS * 20)
def test_every_acknowledged_record_survives_kill_minus_nine_in_order_and_once(tmp_path: Path) -> None:
    chance = random.Random(20_261_115)
    with BrokerProcess(tmp_path / "data", {"internal.log.segment.bytes": "200000"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result()
        load = Load(broker.bootstrap)
        for _ in range(ROUNDS):
            # Mostly amid acknowledgements, now and then before there are any: while it starts, or clients come back.
            if chance.random() < 0.8:
                load.wait_for_progress()
            threading.Event().wait(chance.uniform(0.0, 0.5))
            broker.kill()
            broker.start()
        load.wait_for_progress()
        load.finish()

        assert load.sent > ROUNDS * 50
        for partition in range(PARTITIONS):
            stored = read_all(broker.bootstrap, partition)
            values = [value for _, value in stored]
            assert len(set(values)) == len(values), "a record is there twice"
            assert values == [str(number).encode() for number in range(partition, load.sent, PARTITIONS)]
            assert dict(stored).items() >= dict(load.acknowledged[partition]).items()


def read_all(bootstrap: str, partition: int) -> list[tuple[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        where = TopicPartition("t", partition, 0)
        _, end = consumer.get_watermark_offsets(where, timeout=10)
        consumer.assign([where])
        records: list[tuple[int, bytes]] = []
        while not records or records[-1][0] < end - 1:
            for message in consumer.consume(10_000, timeout=0.5):
                assert message.error() is None
                records.append((message.offset() or 0, message.value() or b""))
        return records
    finally:
        consumer.close()


def test_a_clean_stop_leaves_a_mark_and_the_next_start_reads_no_log_again(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("t", b"kept")
        producer.flush(10)

        assert broker.stop() == 0
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
        broker.start()
        assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
        assert [value for _, value in read_all(broker.bootstrap, 0)] == [b"kept"]


def test_a_second_broker_on_the_same_data_directory_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data"):
        with pytest.raises(RuntimeError) as refusal:
            BrokerProcess(tmp_path / "data").start()

        assert "another broker is using the data directory" in str(refusal.value)
        assert "Traceback" not in str(refusal.value)


def _silent() -> object:
    import logging

    logger = logging.getLogger("headrace.test.client")
    logger.setLevel(logging.CRITICAL)
    return logger
