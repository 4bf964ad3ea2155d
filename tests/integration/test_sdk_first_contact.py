"""What somebody sees who has misspelt a topic, an address or an offset: soon, and by name."""

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    BrokerTimeout,
    Consumer,
    DeliveryFailed,
    DeliveryTimeout,
    InvalidArgument,
    Producer,
    TopicNotFound,
    TopicPartition,
)
from headrace.testing import Api, Broker, ErrorCode
from tests.support.waiting import stays


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which connections are refused, and go on to be: it is bound, and nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def own() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def fill(bootstrap: str, topic: str, values: list[str], **options: Any) -> None:
    with Producer(bootstrap, linger=0.01) as producer:
        producer.send_many(topic, values, **options).result(20)


def topics(bootstrap: str) -> set[str]:
    with Admin(bootstrap) as admin:
        return set(admin.topics())


def reads(address: str) -> None:
    with Consumer("orders", bootstrap=address, connect_timeout=0.5) as consumer:
        consumer.poll(20)


def reads_in_a_group(address: str) -> None:
    with Consumer("orders", bootstrap=address, group="g", connect_timeout=0.5) as consumer:
        consumer.poll(20)


def is_pushed_to(address: str) -> None:
    with Consumer("orders", bootstrap=address, group="g", connect_timeout=0.5) as consumer:
        consumer.on_message(print).wait(20)


def asks(address: str) -> None:
    with Admin(address, connect_timeout=0.5) as admin:
        admin.topics()


def begins_a_transaction(address: str) -> None:
    with Producer(address, transactional_id="t", connect_timeout=0.5) as producer, producer.transaction():
        pass


def sends(address: str) -> None:
    with Producer(address, connect_timeout=0.5) as producer:
        producer.send("orders", "x").result(20)


def sends_many(address: str) -> None:
    with Producer(address, connect_timeout=0.5) as producer:
        producer.send_many("orders", ["x", "y"]).result(20)


def sends_and_forgets(address: str) -> None:
    with Producer(address, connect_timeout=0.5) as producer:
        producer.send("orders", "x")


def sends_on_a_loop(address: str) -> None:
    async def main() -> None:
        async with AsyncProducer(address, connect_timeout=0.5) as producer:
            await producer.send("orders", "x")

    asyncio.run(main())


def reads_on_a_loop(address: str) -> None:
    async def main() -> None:
        async with AsyncConsumer("orders", bootstrap=address, connect_timeout=0.5) as consumer:
            await consumer.poll(20)

    asyncio.run(main())


@pytest.mark.parametrize(
    "use",
    [
        reads,
        reads_in_a_group,
        is_pushed_to,
        asks,
        begins_a_transaction,
        sends,
        sends_many,
        sends_and_forgets,
        sends_on_a_loop,
        reads_on_a_loop,
    ],
)
def test_a_broker_that_is_not_there_is_an_error_with_its_address_within_seconds(nobody: str, use: Callable[[str], None]) -> None:
    begun = time.monotonic()
    with pytest.raises((BrokerTimeout, DeliveryFailed), match=rf"no broker answers at {nobody} \(Connection refused\)"):
        use(nobody)
    assert time.monotonic() - begun < 10


def test_a_record_that_is_to_be_given_up_sooner_than_that_says_so_itself(nobody: str) -> None:
    with Producer(nobody, delivery_timeout=0.3) as producer, pytest.raises(DeliveryTimeout, match=r"within 0\.3 s"):
        producer.send("orders", "x").result(10)


def test_a_broker_that_comes_while_it_is_looked_for_is_found(tmp_path: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    with Producer(address, connect_timeout=0.3) as producer, pytest.raises(DeliveryTimeout, match="no broker answers"):
        producer.send("orders", "given up").result(10)
    sent: list[Any] = []
    with Producer(address, connect_timeout=20) as producer, Broker(port=port):
        sent.append(producer.send("orders", "x").result(20))
        producer.flush(10)
    assert sent[0].offset == 0


def test_a_producer_that_gave_up_once_goes_on_when_the_broker_comes() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Producer(f"127.0.0.1:{port}", connect_timeout=0.3, linger=0) as producer:
        with pytest.raises(DeliveryTimeout, match="no broker answers"):
            producer.send("orders", "given up").result(10)
        with Broker(port=port):
            assert producer.send("orders", "x").result(20).offset == 0


def test_a_broker_that_was_reached_once_is_waited_for(own: Broker) -> None:
    with Producer(own.bootstrap, connect_timeout=0.1, linger=0) as producer:
        producer.send("orders", "a").result(10)
        own.stop()
        waiting = producer.send("orders", "b")
        stays(lambda: not waiting.done(), 1.0)
        own.start()
        assert waiting.result(20).offset is not None


@pytest.mark.parametrize("group", [None, "g"])
def test_reading_a_topic_that_does_not_exist_creates_none_and_names_the_one_that_was_meant(
    own: Broker, group: str | None
) -> None:
    fill(own.bootstrap, "orders", ["x"])
    with (
        Consumer("ordres", bootstrap=own.bootstrap, group=group) as consumer,
        pytest.raises(TopicNotFound, match=r"topic 'ordres' does not exist at .*; did you mean 'orders'\?"),
    ):
        consumer.poll(10)
    with (
        Consumer(["orders", "zzz"], bootstrap=own.bootstrap, group=group) as consumer,
        pytest.raises(TopicNotFound, match=r"topic 'zzz' does not exist at .*; create it, or wait .* missing_topics='wait'"),
    ):
        consumer.poll(10)

    assert topics(own.bootstrap) == {"orders"}


def test_single_partitions_of_a_topic_that_does_not_exist_create_none(own: Broker) -> None:
    with Consumer([TopicPartition("t", 0)], bootstrap=own.bootstrap) as consumer, pytest.raises(TopicNotFound, match="'t'"):
        consumer.poll(10)
    assert topics(own.bootstrap) == set()


@pytest.mark.parametrize("group", [None, "g"])
def test_a_consumer_that_was_told_to_waits_for_its_topic_and_says_so(
    own: Broker, group: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with Consumer("orders", bootstrap=own.bootstrap, group=group, missing_topics="wait", session_timeout=6) as consumer:
        assert consumer.poll(1.5) is None
        assert topics(own.bootstrap) == set()
        fill(own.bootstrap, "orders", ["x"])
        record = consumer.poll(20)

    assert record is not None
    assert record.value == b"x"
    told = [each.getMessage() for each in caplog.records if each.name == "headrace.client"]
    assert told.count(f"topic 'orders' does not exist at {own.bootstrap}; waiting for it") == 1


def test_a_consumer_that_waits_for_a_topic_can_be_closed_by_another_thread(own: Broker) -> None:
    with Consumer("orders", bootstrap=own.bootstrap, missing_topics="wait") as consumer:
        threading.Timer(0.3, consumer.close).start()
        assert list(consumer) == []


def test_a_seek_beyond_the_end_is_refused_with_what_there_is(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["a", "b"])
    with Consumer(topic, bootstrap=bootstrap) as consumer:
        with pytest.raises(InvalidArgument, match=rf"offset=3 is outside of {topic}\[0\]; accepted: 0 to 2"):
            consumer.seek(TopicPartition(topic, 0), 3)
        consumer.seek(TopicPartition(topic, 0), 2)
        assert consumer.poll(0.5) is None
        consumer.seek(TopicPartition(topic, 0), 1)
        assert [record.value for record in consumer.batch(1, 10)] == [b"b"]


def test_a_start_beyond_the_end_is_refused_with_what_there_is(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["a", "b"])
    with (
        Consumer(topic, bootstrap=bootstrap, start=7) as consumer,
        pytest.raises(InvalidArgument, match=rf"start=7 is beyond the end of {topic}\[0\], which has 0 to 2"),
    ):
        consumer.poll(10)


def test_in_a_group_a_start_beyond_the_end_is_told_and_who_goes_on_gets_what_comes(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["a", "b"])
    with Consumer(topic, bootstrap=bootstrap, group=topic, start=7, session_timeout=6) as consumer:
        with pytest.raises(InvalidArgument, match=rf"start=7 is beyond the end of {topic}\[0\], which has 0 to 2"):
            consumer.poll(20)
        fill(bootstrap, topic, ["c"])
        assert [record.value for record in consumer.batch(1, 10)] == [b"c"]


def test_a_start_that_was_deleted_is_the_first_there_is_with_a_word_about_it(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(bootstrap, topic, ["a", "b", "c"])
    with Admin(bootstrap) as admin:
        admin.delete_records(topic, {0: 2})
    with Consumer(topic, bootstrap=bootstrap, start=1) as consumer:
        assert [record.value for record in consumer.to_end()] == [b"c"]
    assert f"start=1 is no longer in {topic}[0]; reading from its first offset, 2" in caplog.text


@pytest.mark.parametrize(("start", "where"), [("earliest", "its beginning"), ("latest", "its end")])
def test_a_committed_offset_that_does_not_exist_is_told_of(
    bootstrap: str, topic: str, start: Any, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(bootstrap, topic, ["a", "b"])
    with Admin(bootstrap) as admin:
        admin.set_offsets(topic, {TopicPartition(topic, 0): 100})
    with (
        caplog.at_level(logging.WARNING, "headrace.client"),
        Consumer(topic, bootstrap=bootstrap, group=topic, start=start, session_timeout=6) as consumer,
    ):
        first = consumer.poll(10 if start == "earliest" else 3)

    assert (first is None) == (start == "latest")
    told = [each.getMessage() for each in caplog.records if each.name == "headrace.client"]
    assert f"{topic}[0] has no offset 100 (any more, or yet); reading goes on at {where}" in told


def test_a_record_too_large_for_the_producer_is_told_its_size_and_the_limit(bootstrap: str, topic: str) -> None:
    with (
        Producer(bootstrap) as producer,
        pytest.raises(DeliveryFailed, match=r"of 2,000,003 bytes .* message\.max\.bytes of this producer, which is 1,049,088"),
    ):
        producer.send(topic, b"x" * 2_000_000, key="key")


@pytest.mark.parametrize("many", [False, True])
def test_a_record_too_large_for_its_topic_is_told_its_size_and_the_limit(bootstrap: str, topic: str, many: bool) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, settings={"max.message.bytes": 1000})
    with Producer(bootstrap) as producer:
        future: Any = producer.send_many(topic, [b"x" * 5000]) if many else producer.send(topic, b"x" * 5000)
        with pytest.raises(
            DeliveryFailed, match=r"a record of 5,000 bytes .* too large.* max\.message\.bytes of the topic, which is 1,000"
        ):
            future.result(10)


def test_a_record_without_a_key_for_a_compacted_topic_is_told_what_it_lacks(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, settings={"cleanup.policy": "compact"})
    with Producer(bootstrap) as producer, pytest.raises(DeliveryFailed, match="is compacted: every record needs a key"):
        producer.send(topic, b"x").result(10)


def test_a_topic_that_is_full_is_told_which_limit_that_may_be(own: Broker) -> None:
    with Producer(own.bootstrap, linger=0) as producer:
        producer.send("orders", "first").result(10)
        with (
            own.faults.on(Api.PRODUCE, error=ErrorCode.POLICY_VIOLATION),
            pytest.raises(DeliveryFailed, match=r"Policy violation; the topic is full: .*memory\.max\.bytes is 268,435,456"),
        ):
            producer.send("orders", "x").result(10)


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_offsets_of_a_group_whose_coordinator_moves_are_asked_for_again(own: Broker, error: ErrorCode) -> None:
    fill(own.bootstrap, "orders", ["x"])
    with Admin(own.bootstrap) as admin:
        admin.set_offsets("g", {TopicPartition("orders", 0): 1})
        with own.faults.on(Api.OFFSET_FETCH, error=error, times=2) as struck:
            assert admin.committed("g") == {TopicPartition("orders", 0): 1}
        assert struck.hits == 2
        assert admin.committed("nobody") == {}
