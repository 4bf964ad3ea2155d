"""librdkafka tells its own metrics to a broker that asks for them (KIP-714), with no code of anybody's."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from headrace.cli.main import run as headrace
from headrace.testing import Broker
from tests.support.metrics import AT_ANY_PORT, DETAIL, Watch, ask, samples_in
from tests.support.waiting import until


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=AT_ANY_PORT) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def subscription(broker: Broker) -> None:
    wanted = ("--interval", "100", "--match", "client_id=told.*")
    assert headrace(["client-metrics", "set", "everything", *wanted, "--bootstrap", broker.bootstrap]) == 0


def told(broker: Broker, client_id: str) -> dict[str, float]:
    """The last value of each metric that a client told, whatever its other labels."""
    port = Watch(broker).port
    found = samples_in(ask(port, DETAIL).text)
    return {
        dict(labels)["metric"]: value
        for (_, labels), value in found.items()
        if ("client_id", client_id) in labels and "metric" in dict(labels)
    }


def test_a_producer_shows_its_connections_and_latency(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "told-producer"})
    producer.produce("t", b"one")
    producer.flush(10)

    seen = until(lambda: told(broker, "told-producer"))
    assert seen["producer.connection.creation.total"] >= 1
    assert any(metric.startswith("producer.node.request.latency") for metric in seen)


def test_a_consumer_shows_how_it_polls(broker: Broker) -> None:
    Producer({"bootstrap.servers": broker.bootstrap}).produce("t", b"one")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "client.id": "told-consumer", "group.id": "g"})
    consumer.subscribe(["t"])

    def seen() -> dict[str, float]:
        consumer.poll(0.05)
        return told(broker, "told-consumer")

    metrics = until(seen)
    assert metrics["consumer.connection.creation.total"] >= 1
    consumer.close()


def test_who_is_not_asked_tells_nothing(broker: Broker) -> None:
    watch = Watch(broker)
    others = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "silent"})
    others.produce("t", b"one")
    others.flush(10)
    asked = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "told-too"})
    asked.poll(0)
    until(lambda: told(broker, "told-too"))

    assert told(broker, "silent") == {}
    assert watch.now("headrace_client_telemetry_instances") >= 2


def test_who_has_switched_it_off_tells_nothing(broker: Broker) -> None:
    quiet = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "told-off", "enable.metrics.push": False})
    quiet.produce("t", b"one")
    quiet.flush(10)
    asked = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "told-on"})
    asked.poll(0)
    until(lambda: told(broker, "told-on"))

    assert told(broker, "told-off") == {}
