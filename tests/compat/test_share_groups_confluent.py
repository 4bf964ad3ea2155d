"""confluent-kafka's ShareConsumer on a broker: at work, one of several, dead, and after a broker that was killed."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from headrace.testing import Broker
from tests.support.process import BrokerProcess

SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "4",
    "group.share.min.record.lock.duration.ms": "1000",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        yield broker


def begin_early(bootstrap: str, group: str, topic: str, values: range, **settings: str) -> None:
    """A topic with records, which a group gets from the first on; settings of the group with underscores for dots."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        created.result(20)
    own = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in {"share_auto_offset_reset": "earliest", **settings}.items()
    ]
    for altered in admin.incremental_alter_configs(
        [ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=own)]
    ).values():
        altered.result(20)
    produce(bootstrap, topic, values)


def produce(bootstrap: str, topic: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, str(value).encode())
    assert producer.flush(20) == 0


def consumer(bootstrap: str, group: str, topic: str, mode: str = "explicit") -> Any:
    made = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": mode})
    made.subscribe([topic])
    return made


def take(made: Any, count: int, seconds: float = 30.0) -> list[int]:
    """Accept records, until there are so many or time is over."""
    taken: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(taken) < count and time.monotonic() < deadline:
        messages = list(made.poll(0.5) or [])
        for message in messages:
            assert message.error() is None
            made.acknowledge(message)
        if messages:
            made.commit_sync(10.0)
        taken += messages
    return sorted(int(message.value()) for message in taken)


def take_some(made: Any, seconds: float = 30.0) -> list[int]:
    """Some records, of which nothing is said."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if messages := list(made.poll(0.5) or []):
            return [int(message.value()) for message in messages]
    return []


def test_accepted_records_come_once(broker: Broker) -> None:
    begin_early(broker.bootstrap, "workers", "jobs", range(20))
    first = consumer(broker.bootstrap, "workers", "jobs")
    assert take(first, 20) == list(range(20))
    first.close()

    second = consumer(broker.bootstrap, "workers", "jobs")
    produce(broker.bootstrap, "jobs", range(20, 24))
    assert take(second, 4) == list(range(20, 24))
    second.close()


def test_what_was_accepted_and_answered_never_comes_again_after_a_kill_and_all_else_does(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", {"share.coordinator.state.topic.num.partitions": "4"}) as broker:
        begin_early(broker.bootstrap, "workers", "jobs", range(40))
        first = consumer(broker.bootstrap, "workers", "jobs")
        assert take(first, 40) == list(range(40))
        produce(broker.bootstrap, "jobs", range(40, 50))
        assert take_some(first)
        broker.kill()
        broker.start()

        second = consumer(broker.bootstrap, "workers", "jobs")
        assert take(second, 10) == list(range(40, 50))
        second.close()


def test_a_lock_that_runs_out_gives_the_record_to_another(broker: Broker) -> None:
    begin_early(broker.bootstrap, "slow", "tasks", range(4), share_record_lock_duration_ms="3000")
    slow = consumer(broker.bootstrap, "slow", "tasks")
    assert take_some(slow)

    quick = consumer(broker.bootstrap, "slow", "tasks")
    assert take(quick, 4) == [0, 1, 2, 3]
    quick.close()
