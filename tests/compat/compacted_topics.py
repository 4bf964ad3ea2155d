"""Topics of which compaction and expiry have left little: long stretches of batches without records, also at the end."""

from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.host.disk import SystemDisk
from headrace.log.segments.scanning import Scanner
from headrace.testing import Broker
from tests.support.waiting import until

SETTINGS = {"log.cleaner.backoff.ms": "50", "log.segment.delete.delay.ms": "0"}
COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "1500",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}
EXPIRING = {"headrace.ttl.enable": "true", "internal.segment.bytes": "1500", "segment.ms": "500"}
PLAIN, TRANSACTIONAL, EXPIRED = "compacted-plain", "compacted-transactional", "compacted-expired"
PRODUCERS = 25
WAIT_S = 60


def prepare(broker: Broker, data: Path) -> None:
    """Write the topics and wait until they are cleaned."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = [NewTopic(topic, 1, 1, config=COMPACTED) for topic in (PLAIN, TRANSACTIONAL)]
    for made in admin.create_topics([*topics, NewTopic(EXPIRED, 1, 1, config=EXPIRING)]).values():
        made.result(30)
    _write_plain(broker)
    _write_transactional(broker)
    _write_expiring(broker)
    _wait(lambda: _empty_batches(data / f"{PLAIN}-0") >= PRODUCERS)
    _wait(lambda: _empty_batches(data / f"{TRANSACTIONAL}-0") >= PRODUCERS)
    _wait(lambda: sum(_batches(data / f"{EXPIRED}-0")) == 1)


def _producer(broker: Broker, **more: object) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "enable.idempotence": True, **more})


def _write_plain(broker: Broker) -> None:
    first = _producer(broker)
    first.produce(PLAIN, key="first", value="stays")
    assert first.flush(WAIT_S) == 0
    # Each of them is still known to the broker, so its last batch stays, without its record.
    for number in range(PRODUCERS):
        producer = _producer(broker)
        producer.produce(PLAIN, key="k", value=f"{number} {'x' * 200}")
        assert producer.flush(WAIT_S) == 0
    for number in range(12):
        first.produce(PLAIN, key="k" if number < 11 else "last", value=f"last {'x' * 200}")
        assert first.flush(WAIT_S) == 0


def _write_transactional(broker: Broker) -> None:
    for number in range(PRODUCERS):
        producer = _producer(broker, **{"transactional.id": f"t{number}"})
        producer.init_transactions(WAIT_S)
        for committed in (False, True):
            producer.begin_transaction()
            producer.produce(TRANSACTIONAL, key="k", value=f"{number} {committed} {'x' * 100}")
            producer.flush(WAIT_S)
            if committed:
                producer.commit_transaction(WAIT_S)
            else:
                producer.abort_transaction(WAIT_S)
    last = _producer(broker)
    for number in range(14):
        last.produce(TRANSACTIONAL, key="k" if number < 13 else "last", value=f"last {'x' * 200}")
        assert last.flush(WAIT_S) == 0


def _write_expiring(broker: Broker) -> None:
    producer = _producer(broker)
    producer.produce(EXPIRED, key="first", value="stays")
    assert producer.flush(WAIT_S) == 0
    for _ in range(20):
        producer.produce(EXPIRED, key="gone", value="x" * 200, headers={"headrace-ttl-ms": b"1"})
        assert producer.flush(WAIT_S) == 0


def _batches(directory: Path) -> list[int]:
    """How many records each batch holds, as the log is stored."""
    counts: list[int] = []
    for path in sorted(directory.glob("*.log")):
        try:
            file = SystemDisk().open(path)
        except FileNotFoundError:
            return []
        try:
            counts += [batch.header.record_count for batch in Scanner(file, int(path.stem))]
        finally:
            file.close()
    return counts


def _empty_batches(directory: Path) -> int:
    return _batches(directory).count(0)


def _wait(holds: Callable[[], bool]) -> None:
    until(holds, "the topic is cleaned", WAIT_S, every_s=0.05)


def visible_keys(topic: str) -> list[str]:
    """The keys that every reader must see, in order; what is still in the active segment may repeat one."""
    return {PLAIN: ["first", "k", "last"], TRANSACTIONAL: ["k", "last"], EXPIRED: ["first"]}[topic]
