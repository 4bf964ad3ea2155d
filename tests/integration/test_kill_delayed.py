"""`kill -9` at random moments while delayed records come, wait and are delivered: each is there once, and none was early.

HEADRACE_TORTURE_ROUNDS sets how often; `make torture` asks for fifty.
"""

import logging
import os
import random
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.process import BrokerProcess
from tests.support.waiting import until

ROUNDS = int(os.environ.get("HEADRACE_TORTURE_ROUNDS", "3"))
PARTITIONS = 2


class DelayedLoad:
    """An idempotent producer of records that are due now, or soon."""

    def __init__(self, bootstrap: str) -> None:
        self.sent = self.acknowledged = 0
        self._chance = random.Random(7)
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 200,
                "socket.timeout.ms": 5000,
                "logger": logging.getLogger("headrace.test.silent"),
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for _ in range(10):
                delay = self._chance.choice((None, 0, 20, 200, 1500))
                headers = None if delay is None else {"headrace-delay-ms": b"%d" % delay}
                value, partition = b"%d" % self.sent, self.sent % PARTITIONS
                self._producer.produce("t", value, partition=partition, headers=headers, on_delivery=self._delivered)
                self.sent += 1
            self._producer.poll(0.02)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, f"a record was given up: {error}"
        self.acknowledged += 1

    def wait_for_progress(self) -> None:
        before = self.acknowledged
        until(lambda: self.acknowledged > before, seconds=60)

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0


@pytest.mark.timeout(60 + ROUNDS * 20)
def test_delayed_records_survive_kill_minus_nine_once_and_never_early(tmp_path: Path) -> None:
    logging.getLogger("headrace.test.silent").setLevel(logging.CRITICAL)
    chance = random.Random(20_261_116)
    settings = {"headrace.delay.topic.num.partitions": "2"}
    with BrokerProcess(tmp_path / "data", settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", PARTITIONS, 1, config={"headrace.delay.enable": "true"})])["t"].result()
        load = DelayedLoad(broker.bootstrap)
        for _ in range(ROUNDS):
            if chance.random() < 0.8:
                load.wait_for_progress()
            threading.Event().wait(chance.uniform(0.0, 0.6))
            broker.kill()
            broker.start()
        load.wait_for_progress()
        load.finish()

        found = read_all(broker.bootstrap, load.sent)
        assert sorted(int(message.value() or b"") for message in found) == list(range(load.sent))
        for message in found:
            due = dict(message.headers() or []).get("headrace-deliver-at")
            assert due is None or message.timestamp()[1] >= int(due)


def read_all(bootstrap: str, count: int) -> list[Message]:
    """Until there are so many, and then as long as there may be one more."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition("t", index, 0) for index in range(PARTITIONS)])
        found: list[Message] = []
        until(lambda: found.extend(consumer.consume(1000, timeout=0.5)) or len(found) >= count, lambda: len(found), seconds=60)
        found += consumer.consume(1000, timeout=1.0)
        return found
    finally:
        consumer.close()
