"""A producer that never stops, a consumer that reads along, what both were told, and the check of these histories.

What is checked: everything acknowledged is there, at the offset that was named, once, and in the order in which it was sent; and
whatever a consumer was ever shown is there still, at the same offset, without a gap.
"""

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.client.admin.wire_admin import WireAdmin
from headrace.client.errors import BrokerError, BrokerTimeout

# A history: for each partition, what is at which offset, in the order in which it was learnt.
History = dict[int, list[tuple[int, int]]]
UNKNOWN_OFFSET = -1


def create_topic(bootstrap: str, topic: str, partitions: int, factor: int, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    new = NewTopic(topic, num_partitions=partitions, replication_factor=factor, config=settings)
    for future in admin.create_topics([new]).values():
        future.result(30)


def partitions_of(bootstrap: str, topic: str) -> list[Any]:
    """The partitions as the first broker named here knows them; none when it does not answer."""
    try:
        with WireAdmin(bootstrap, timeout_s=3.0) as admin:
            found = admin.metadata((topic,)).topics[0]
        return sorted(found.partitions, key=lambda partition: partition.partition_index)
    except (BrokerError, BrokerTimeout):
        return []


def leader_of(bootstrap: str, topic: str, partition: int = 0) -> int:
    deadline = time.monotonic() + 30
    while True:
        found = partitions_of(bootstrap, topic)
        if found and found[partition].leader_id >= 0:
            return int(found[partition].leader_id)
        assert time.monotonic() < deadline, f"{topic}-{partition} has no leader"
        time.sleep(0.05)


def wait_for_in_sync(bootstrap: str, topic: str, count: int, timeout_s: float = 50) -> None:
    """Return when every partition has so many replicas in sync."""
    deadline = time.monotonic() + timeout_s
    while True:
        in_sync = [len(partition.isr_nodes) for partition in partitions_of(bootstrap, topic)]
        if in_sync and min(in_sync) >= count:
            return
        assert time.monotonic() < deadline, f"in sync are {in_sync}"
        time.sleep(0.1)


def wait_until_out_of_sync(bootstrap: str, topic: str, broker: int, timeout_s: float = 50) -> None:
    """Return when the cluster has noticed that a broker is not what it was: no partition counts it as in sync."""
    deadline = time.monotonic() + timeout_s
    while True:
        partitions = partitions_of(bootstrap, topic)
        if partitions and not any(broker in partition.isr_nodes for partition in partitions):
            return
        assert time.monotonic() < deadline, f"broker {broker} is still in sync"
        time.sleep(0.05)


class Load:
    """Writes numbered records to every partition of a topic, as an idempotent producer with acks=all."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        per_second: int = 400,
        idempotent: bool = True,
        security: Mapping[str, str] | None = None,
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._pause = 1 / per_second
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": idempotent,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 2_000,
                # A link that swallows everything is noticed by nothing else.
                "socket.timeout.ms": 5_000,
                "request.timeout.ms": 5_000,
                "log_level": 0,
                **(security or {}),
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._stopping = threading.Event()
        self.acknowledged: History = defaultdict(list)
        self.acknowledged_at: dict[int, list[float]] = defaultdict(list)
        self.failures: list[str] = []
        self.longest_silence = 0.0  # between two turns of our own: a stall of the machine, not of the cluster

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
        turn = time.monotonic()
        while not self._stopping.is_set():
            partition = number % self._partitions
            try:
                self._producer.produce(self._topic, str(number).encode(), partition=partition, on_delivery=self._delivered)
                number += 1
            except BufferError:
                self._producer.poll(0.05)
            except KafkaException as error:
                # The producer has given up for good, and says why.
                self.failures.append(str(error))
                return
            self._producer.poll(0)
            time.sleep(self._pause)
            before, turn = turn, time.monotonic()
            self.longest_silence = max(self.longest_silence, turn - before)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        # librdkafka takes a batch for acknowledged when a later one is, though its own reply was lost: then nobody told it the
        # offset.  The record is to be there all the same, and `check` finds it by its value.
        self.acknowledged[partition].append((UNKNOWN_OFFSET if offset is None else offset, int(message.value() or b"-1")))
        self.acknowledged_at[partition].append(time.monotonic())

    def wait_for(self, count: int, timeout_s: float = 60) -> None:
        """Return when so many more records are acknowledged in every partition."""
        target = {partition: len(self.acknowledged[partition]) + count for partition in range(self._partitions)}
        deadline = time.monotonic() + timeout_s
        while any(len(self.acknowledged[partition]) < wanted for partition, wanted in target.items()):
            assert time.monotonic() < deadline, f"no progress: {self.failures[:3]}"
            time.sleep(0.02)

    def longest_gap(self, partition: int, since: float = 0.0) -> float:
        """The longest time without an acknowledgement."""
        return longest_gap([moment for moment in self.acknowledged_at[partition] if moment >= since])


def longest_gap(moments: list[float]) -> float:
    return max((later - earlier for earlier, later in itertools.pairwise(moments)), default=0.0)


class ReadAlong:
    """Reads a topic from its beginning while it grows, and remembers what it was shown."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, security: Mapping[str, str] | None = None) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "along",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 2_000,
                "socket.timeout.ms": 5_000,
                "log_level": 0,
                **(security or {}),
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._stopping = threading.Event()
        self.seen: History = defaultdict(list)
        self.seen_at: dict[int, list[float]] = defaultdict(list)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, timeout=0.05):
                if message.error() is None:
                    partition = _note(message, self.seen)
                    self.seen_at[partition].append(time.monotonic())


def read_all(bootstrap: str, topic: str, partitions: int, timeout_s: float = 60) -> History:
    """Everything in a topic, by partition."""
    consumer, ends = _consumer_and_ends(bootstrap, topic, partitions)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    found: History = defaultdict(list)
    deadline = time.monotonic() + timeout_s
    while any(end and (not found[partition] or found[partition][-1][0] < end - 1) for partition, end in ends.items()):
        assert time.monotonic() < deadline, f"reached { {p: f[-1:] for p, f in found.items()} } of {ends}"
        for message in consumer.consume(500, timeout=0.5):
            if message.error() is None:
                _note(message, found)
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


def _note(message: Any, history: History) -> int:
    partition: int = message.partition()
    history[partition].append((message.offset(), int(message.value())))
    return partition


def check(load: Load, found: History, along: ReadAlong | None = None) -> None:
    """Hold the histories against what is there in the end."""
    assert load.failures == []
    for partition, acknowledged in load.acknowledged.items():
        there = dict(found[partition])
        values = list(there.values())
        missing = sorted({value for _, value in acknowledged} - set(values))
        assert missing == [], f"partition {partition} lost {missing[:10]} of {len(acknowledged)}"
        assert len(values) == len(set(values)), f"partition {partition} has duplicates"
        assert values == sorted(values), f"partition {partition} is out of order"
        # A retry that finds its records written may be told so without an offset, too.
        moved = [(offset, value) for offset, value in acknowledged if offset >= 0 and there.get(offset) != value]
        assert moved == [], f"partition {partition} acknowledged other offsets than it has: {moved[:10]}"
    for partition, seen in along.seen.items() if along is not None else ():
        assert seen == found[partition][: len(seen)], f"a reader of partition {partition} was shown something else"
