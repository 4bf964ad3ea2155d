"""Delayed delivery as clients see it: not before its time, in order of time, once, whatever happens to the broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from headrace import Admin, BrokerError
from headrace.broker.delaying import delivering
from headrace.model.errors import ErrorCode
from headrace.model.names import DELAYED
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.testing import Broker
from headrace.wire.messages.produce import PartitionProduceResponse
from tests.support.raw import RawClient, produce
from tests.support.waiting import stays, until

LATER = {"headrace-delay-ms": b"3600000"}
PRODUCE_VERSION = 9


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    return make_topic(broker, str(request.node.name)[:80].replace("[", "-").replace("]", ""))


def make_topic(broker: Broker, name: str, **settings: str) -> str:
    config = {"headrace.delay.enable": "true", **{key.replace("_", "."): value for key, value in settings.items()}}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, config=config)])[name].result()
    return name


def send(broker: Broker, topic: str, *records: dict[str, Any], **config: Any) -> list[Message]:
    """Send records in one batch and return them as they were acknowledged."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 100, "enable.idempotence": True, **config})
    acknowledged: list[Message] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        acknowledged.append(message)

    for record in records:
        producer.produce(topic, on_delivery=on_delivery, **record)
    assert producer.flush(30) == 0
    return acknowledged


def received(broker: Broker, topic: str, count: int, **config: Any) -> list[Message]:
    """The first so many records of a topic."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.auto.commit": False, **config})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Message] = []
        until(lambda: found.extend(consumer.consume(100, timeout=0.2)) or len(found) >= count, lambda: [m.value() for m in found])
        return found
    finally:
        consumer.close()


def values(messages: list[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


def waiting(broker: Broker) -> int:
    return broker.run(lambda inside: sum(led.shard.count() for led in inside.parts.delays.shards.loaded()))


def test_what_is_due_comes_in_order_of_its_time_and_not_before(broker: Broker, topic: str) -> None:
    now = broker.clock.wall_ms()
    send(
        broker,
        topic,
        {"value": b"in two hours", "headers": {"headrace-deliver-at": str(now + 7_200_000).encode()}},
        {"value": b"now"},
        {"value": b"in an hour", "headers": {"headrace-delay-ms": b"3600000", "kind": b"job"}, "key": b"k"},
    )
    assert values(received(broker, topic, 1)) == [b"now"]
    broker.clock.advance(minutes=59)
    stays(lambda: waiting(broker) == 2, seconds=0.3)

    broker.clock.advance(minutes=61, seconds=1)
    _, first, second = received(broker, topic, 3)

    assert (first.value(), first.key(), second.value()) == (b"in an hour", b"k", b"in two hours")
    headers = dict(first.headers() or [])
    assert headers["kind"] == b"job"
    assert "headrace-delay-ms" not in headers
    for message in (first, second):
        due = int(dict(message.headers() or [])["headrace-deliver-at"] or b"")
        assert message.timestamp()[1] >= due
    assert waiting(broker) == 0


def test_it_comes_within_a_moment_of_its_time(broker: Broker, topic: str) -> None:
    # The first of all makes the topic in which they wait.
    send(broker, topic, {"value": b"first", "headers": {"headrace-delay-ms": b"0"}})
    due = broker.clock.wall_ms() + 1500
    send(broker, topic, {"value": b"x", "headers": {"headrace-deliver-at": str(due).encode()}})

    last = received(broker, topic, 2)[-1]

    assert 0 <= last.timestamp()[1] - due < 100


@pytest.mark.usefixtures("foreign_garbage")
@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_all_consumers_step_over_what_waits(broker: Broker, topic: str, codec: str) -> None:
    config = {"compression.type": codec}
    send(broker, topic, {"value": b"1"}, {"value": b"later", "headers": LATER}, {"value": b"2"}, **config)
    send(broker, topic, {"value": b"later", "headers": LATER}, **config)
    send(broker, topic, {"value": b"later", "headers": LATER}, {"value": b"3"}, **config)
    send(broker, topic, {"value": b"later", "headers": LATER}, **config)

    assert values(received(broker, topic, 3)) == [b"1", b"2", b"3"]
    assert values(received(broker, topic, 3, **{"isolation.level": "read_uncommitted"})) == [b"1", b"2", b"3"]
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, consumer_timeout_ms=500)
    where = KafkaPythonPartition(topic, 0)
    consumer.assign([where])
    consumer.seek_to_beginning(where)
    assert [record.value for record in consumer] == [b"1", b"2", b"3"]
    assert consumer.position(where) == consumer.end_offsets([where])[where]
    consumer.close()
    broker.clock.advance(hours=1)
    assert values(received(broker, topic, 7)) == [b"1", b"2", b"3", *[b"later"] * 4]


def raw(broker: Broker, topic: str, batch: bytes) -> PartitionProduceResponse:
    with RawClient(broker.bootstrap) as client:
        result: PartitionProduceResponse = client.call(produce(topic, batch), PRODUCE_VERSION).responses[0].partition_responses[0]
        return result


def delayed_batch(sequence: int, *texts: bytes, delay_ms: int = 3_600_000, producer_id: int = 4711) -> bytes:
    header = (("headrace-delay-ms", str(delay_ms).encode()),)
    records = [Record(n, 1, b"k", text, header if text.startswith(b"later") else ()) for n, text in enumerate(texts)]
    return build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def test_a_batch_that_is_sent_again_is_recognised_and_sequences_go_on(broker: Broker, topic: str) -> None:
    first = raw(broker, topic, delayed_batch(0, b"now", b"later"))
    again = raw(broker, topic, delayed_batch(0, b"now", b"later"))
    second = raw(broker, topic, delayed_batch(2, b"later 2"))
    hole = raw(broker, topic, delayed_batch(9, b"later 9"))
    third = raw(broker, topic, delayed_batch(3, b"now 3"))

    codes = [result.error_code for result in (first, again, second, hole, third)]
    assert codes == [0, 0, 0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0]
    assert (first.base_offset, again.base_offset, second.base_offset, third.base_offset) == (0, 0, 2, 3)
    broker.clock.advance(hours=1)
    assert values(received(broker, topic, 4)) == [b"now", b"now 3", b"later", b"later 2"]


def test_what_waits_is_recognised_though_the_rest_was_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker dies between both halves of a batch, and when the producer tries again, some of it has been delivered."""
    with Broker(data=tmp_path) as broker:
        make_topic(broker, "t")

        def dies(inside: Any) -> None:
            partition = inside.parts.replicas.find("t", 0)
            monkeypatch.setattr(partition, "append", lambda *_, **__: 1 / 0)

        broker.run(dies)
        refused = raw(broker, "t", delayed_batch(0, b"later", b"now", delay_ms=0))
        assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        monkeypatch.undo()
        broker.abandon()
        broker.start()
        assert values(received(broker, "t", 1)) == [b"later"]

        tried_again = raw(broker, "t", delayed_batch(0, b"later", b"now", delay_ms=0))

        assert tried_again.error_code == ErrorCode.NONE
        assert values(received(broker, "t", 2)) == [b"later", b"now"]
        assert waiting(broker) == 0


def test_after_hours_without_a_broker_what_is_due_comes_at_once_in_order(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        make_topic(broker, "t")
        delays = [5, 3, 9, 1, 7, 30, 2]
        send(broker, "t", *({"value": b"%d" % h, "headers": {"headrace-delay-ms": b"%d" % (h * 3_600_000)}} for h in delays))
        broker.stop()
        broker.clock.advance(hours=10)
        broker.start()

        assert values(received(broker, "t", 6)) == [b"1", b"2", b"3", b"5", b"7", b"9"]
        until(lambda: waiting(broker) == 1)


def test_what_was_delivered_does_not_come_again_after_a_restart(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        make_topic(broker, "t")
        send(broker, "t", {"value": b"a", "headers": {"headrace-delay-ms": b"0"}}, {"value": b"b", "headers": LATER})
        received(broker, "t", 1)
        until(lambda: waiting(broker) == 1)
        broker.abandon()
        broker.start()
        broker.clock.advance(hours=1)

        assert values(received(broker, "t", 2)) == [b"a", b"b"]


def test_what_waits_under_a_key_can_be_cancelled(broker: Broker, topic: str) -> None:
    send(
        broker,
        topic,
        {"value": b"no", "key": b"order-1", "headers": LATER},
        {"value": b"no either", "key": b"order-1", "headers": LATER},
        {"value": b"yes", "key": b"order-2", "headers": LATER},
    )
    send(
        broker,
        topic,
        {"value": None, "key": b"order-1", "headers": {"headrace-cancel": b""}},
        {"value": b"after", "key": b"order-1", "headers": LATER},
    )

    broker.clock.advance(hours=1)
    assert values(received(broker, topic, 2)) == [b"yes", b"after"]
    assert waiting(broker) == 0


def test_a_delay_in_a_transaction_is_refused_in_words(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
    producer.init_transactions(10)
    producer.begin_transaction()
    refusals: list[KafkaError | None] = []
    producer.produce(topic, b"x", headers=LATER, on_delivery=lambda error, _: refusals.append(error))
    producer.flush(10)

    assert [error and error.code() for error in refusals] == [KafkaError.INVALID_RECORD]
    producer.abort_transaction(10)


def test_a_transaction_without_delays_is_as_everywhere(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "u"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, b"without delay")
    producer.commit_transaction(10)

    assert values(received(broker, topic, 1)) == [b"without delay"]


def test_a_delay_that_is_no_number_is_refused_by_its_index(broker: Broker, topic: str) -> None:
    wrong = (("headrace-delay-ms", b"soon"),)
    refused = raw(broker, topic, build_batch([Record(0, 1, None, b"fine", ()), Record(1, 1, None, b"x", wrong)]))

    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert refused.record_errors[0].batch_index == 1
    assert "soon" in (refused.record_errors[0].batch_index_error_message or "")


def test_elsewhere_the_headers_mean_nothing(broker: Broker) -> None:
    make_topic(broker, "plain", headrace_delay_enable="false")
    send(broker, "plain", {"value": b"x", "headers": LATER})

    (message,) = received(broker, "plain", 1)
    assert message.headers() == list(LATER.items())


def test_what_waits_comes_though_delays_are_switched_off_meanwhile(broker: Broker, topic: str) -> None:
    send(broker, topic, {"value": b"x", "headers": LATER})
    with Admin(bootstrap=broker.bootstrap) as admin:
        admin.change_settings(topic, {"headrace.delay.enable": "false"})
    broker.clock.advance(hours=1)

    assert values(received(broker, topic, 1)) == [b"x"]


def test_nobody_but_brokers_writes_to_what_waits(broker: Broker, topic: str) -> None:
    send(broker, topic, {"value": b"x", "headers": LATER})

    assert raw(broker, DELAYED, delayed_batch(0, b"x")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    as_broker = raw(broker, topic, delayed_batch(0, b"x", producer_id=2**62))
    assert as_broker.error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("setting", "value"), [("cleanup.policy", "delete"), ("headrace.delay.enable", "false"), ("headrace.delay.enable", None)]
)
def test_no_setting_takes_what_waits_or_lets_it_in_unseen(broker: Broker, topic: str, setting: str, value: str | None) -> None:
    send(broker, topic, {"value": b"x", "headers": LATER})
    with Admin(bootstrap=broker.bootstrap) as admin:
        with pytest.raises(BrokerError, match=f"its {setting} is the brokers'"):
            admin.change_settings(DELAYED, {setting: value})
        admin.change_settings(DELAYED, {"cleanup.policy": "compact", "segment.bytes": 10_000_000})


@pytest.mark.parametrize("settings", [{}, {"compression_type": "gzip"}])
def test_nobody_but_brokers_writes_as_a_producer_that_is_never_forgotten(
    broker: Broker, topic: str, settings: dict[str, str]
) -> None:
    ordinary = make_topic(broker, f"{topic}-ordinary", **settings, headrace_delay_enable="false")

    assert raw(broker, ordinary, delayed_batch(0, b"x", producer_id=2**62)).error_code == ErrorCode.INVALID_RECORD
    assert raw(broker, ordinary, delayed_batch(0, b"x", producer_id=2**62 - 1)).error_code == ErrorCode.NONE


def test_what_waits_for_a_topic_that_is_deleted_is_forgotten(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = waiting(broker)
    monkeypatch.setattr(delivering, "UNKNOWN_SECONDS_MAX", 0.1)
    send(broker, topic, {"value": b"x", "headers": {"headrace-delay-ms": b"60000"}})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result()
    assert waiting(broker) == before + 1
    broker.clock.advance(minutes=1, seconds=1)

    until(lambda: waiting(broker) == before)
