"""A producer that never stops and remembers what was acknowledged, and the check of what a consumer then finds."""

import itertools
import threading
import time
from collections import defaultdict
from types import TracebackType
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


def create_topic(bootstrap: str, topic: str, partitions: int, factor: int, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    new = NewTopic(topic, num_partitions=partitions, replication_factor=factor, config=settings)
    for future in admin.create_topics([new]).values():
        future.result(30)


def leader_of(bootstrap: str, topic: str, partition: int = 0) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    leader: int = admin.list_topics(topic, timeout=10).topics[topic].partitions[partition].leader
    return leader


def wait_for_in_sync(bootstrap: str, topic: str, count: int, timeout_s: float = 30) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + timeout_s
    while True:
        partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
        in_sync = [len(partition.isrs) for partition in partitions]
        if in_sync and min(in_sync) >= count:
            return
        assert time.monotonic() < deadline, f"in sync are {in_sync}"
        time.sleep(0.1)


class Load:
    """Writes numbered records to every partition of a topic, as an idempotent producer with acks=all."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, per_second: int = 400, idempotent: bool = True) -> None:
        self._topic = topic
        self._partitions = partitions
        self._pause = 1 / per_second
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": idempotent,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": 60_000,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 2_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._stopping = threading.Event()
        self.acknowledged: dict[int, list[int]] = defaultdict(list)
        self.acknowledged_at: dict[int, list[float]] = defaultdict(list)
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.finish()

    def finish(self) -> None:
        """Stop, and wait until everything sent is acknowledged or given up."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._thread.join()
            self._producer.flush(90)

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            partition = number % self._partitions
            try:
                self._producer.produce(self._topic, str(number).encode(), partition=partition, on_delivery=self._delivered)
                number += 1
            except BufferError:
                self._producer.poll(0.05)
            self._producer.poll(0)
            time.sleep(self._pause)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        partition = message.partition()
        assert partition is not None
        self.acknowledged[partition].append(int(message.value() or b"-1"))
        self.acknowledged_at[partition].append(time.monotonic())

    def wait_for(self, count: int, timeout_s: float = 30) -> None:
        """Return when so many more records are acknowledged in every partition."""
        target = {partition: len(self.acknowledged[partition]) + count for partition in range(self._partitions)}
        deadline = time.monotonic() + timeout_s
        while any(len(self.acknowledged[partition]) < wanted for partition, wanted in target.items()):
            assert time.monotonic() < deadline, f"no progress: {self.failures[:3]}"
            time.sleep(0.02)

    def longest_gap(self, partition: int, since: float = 0.0) -> float:
        """The longest time without an acknowledgement."""
        times = [moment for moment in self.acknowledged_at[partition] if moment >= since]
        return max((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0)


def read_all(bootstrap: str, topic: str, partitions: int, timeout_s: float = 60) -> dict[int, list[int]]:
    """Everything in a topic, by partition."""
    consumer, ends = _consumer_and_ends(bootstrap, topic, partitions)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    found: dict[int, list[int]] = defaultdict(list)
    reached = dict.fromkeys(range(partitions), 0)
    deadline = time.monotonic() + timeout_s
    while any(reached[partition] < end for partition, end in ends.items()):
        assert time.monotonic() < deadline, f"reached {reached} of {ends}"
        for message in consumer.consume(500, timeout=0.5):
            if message.error() is None:
                _note(message, found, reached)
    consumer.close()
    return found


def _consumer_and_ends(bootstrap: str, topic: str, partitions: int) -> tuple[Consumer, dict[int, int]]:
    """A client that asked a dead leader goes on asking it: whoever has no answer soon begins anew."""
    deadline = time.monotonic() + 30
    while True:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False, "log_level": 0})
        try:
            ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=3)[1] for p in range(partitions)}
            return consumer, ends
        except KafkaException:
            consumer.close()
            assert time.monotonic() < deadline, "no leader answers"


def _note(message: Any, found: dict[int, list[int]], reached: dict[int, int]) -> None:
    found[message.partition()].append(int(message.value()))
    reached[message.partition()] = message.offset() + 1


def check(load: Load, found: dict[int, list[int]]) -> None:
    """Everything acknowledged is there, once, and in the order in which it was sent."""
    assert load.failures == []
    for partition, acknowledged in load.acknowledged.items():
        values = found[partition]
        missing = sorted(set(acknowledged) - set(values))
        assert missing == [], f"partition {partition} lost {missing[:10]} of {len(acknowledged)}"
        assert len(values) == len(set(values)), f"partition {partition} has duplicates"
        assert values == sorted(values), f"partition {partition} is out of order"
