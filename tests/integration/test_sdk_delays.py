"""Delays in the SDK and at the command line."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from headrace import Admin, AsyncProducer, Consumer, InvalidArgument, Producer
from headrace.cli.main import run
from headrace.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)[:60]
    with Admin(broker.bootstrap) as admin:
        admin.create_topic(name, partitions=3, settings={"headrace.delay.enable": "true"})
    return name


def values(broker: Broker, topic: str, count: int) -> list[str]:
    with Consumer(topic, bootstrap=broker.bootstrap, group=f"of {topic}", values=str) as consumer:
        return [record.value for _, record in zip(range(count), consumer, strict=False)]


def test_a_record_waits_as_long_as_it_is_told(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap) as producer:
        producer.send(topic, "a", key="a", delay=3600)
        producer.send(topic, "b", key="b", delay=timedelta(hours=1), headers={"x": "y"})
        producer.send(topic, "c", key="c", at=broker.clock.now() + timedelta(minutes=30))
        producer.send(topic, "gone", key="c", at=datetime.now().astimezone() + timedelta(days=400))
        producer.flush()
        producer.cancel(topic, "gone")
        producer.send(topic, "now")
    assert values(broker, topic, 1) == ["now"]

    broker.clock.advance(hours=1, seconds=1)
    assert sorted(values(broker, topic, 3)) == ["a", "b", "c"]


def test_what_is_cancelled_is_found_by_its_key_in_whichever_partition(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap) as producer:
        for key in ("a", "b", "c", "d"):
            producer.send(topic, key, key=key, delay=60)
        producer.flush()
        for key in ("a", "b", "c"):
            producer.cancel(topic, key)

    broker.clock.advance(61)
    assert values(broker, topic, 1) == ["d"]


def test_with_asyncio_it_is_the_same(broker: Broker, topic: str) -> None:
    async def main() -> None:
        async with AsyncProducer(broker.bootstrap) as producer:
            await producer.send(topic, "a", key="a", delay=60)
            await producer.send(topic, "b", key="b", delay=60)
            await producer.cancel(topic, "a")

    asyncio.run(main())
    broker.clock.advance(61)
    assert values(broker, topic, 1) == ["b"]


def test_a_wrong_time_is_named_at_once(broker: Broker) -> None:
    with Producer(broker.bootstrap) as producer:
        with pytest.raises(InvalidArgument, match="delay=5 and at=6 are both given"):
            producer.send("t", "x", delay=5, at=6)
        with pytest.raises(InvalidArgument, match="delay=-1"):
            producer.send("t", "x", delay=-1)
        with pytest.raises(InvalidArgument, match="key=None"):
            producer.cancel("t", None)


def test_the_command_takes_back_by_key_where_there_are_delays(
    broker: Broker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Producer(broker.bootstrap) as producer:
        producer.send(topic, "no", key="ann", delay=60)
        producer.send(topic, "yes", key="bob", delay=60)
    assert run(["cancel", topic, "ann", "-b", broker.bootstrap]) == 0
    assert "Nothing waits any more under 1 key" in capsys.readouterr().err

    broker.clock.advance(61)
    assert values(broker, topic, 1) == ["yes"]
    with Admin(broker.bootstrap) as admin:
        admin.create_topic("plain")
    assert run(["cancel", "plain", "ann", "-b", broker.bootstrap]) == 1
    assert "plain has no delays" in capsys.readouterr().err
