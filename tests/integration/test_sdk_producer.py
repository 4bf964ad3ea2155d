"""The producer against a running broker."""

import threading
import time
from collections import Counter
from concurrent.futures import wait as wait_for
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace import (
    Admin,
    BatchFailed,
    BufferFull,
    Consumer,
    DeliveryFailed,
    EncodeFailed,
    InvalidArgument,
    KeyHash,
    Producer,
    RoundRobin,
    Salted,
    Sticky,
)
from headrace.client.producer.outbox import outbox_of
from headrace.records.key_partition import partition_of_key
from headrace.testing import Api, Broker


def read_all(bootstrap: str, topic: str, **options: Any) -> list[Any]:
    with Consumer(topic, bootstrap=bootstrap, **options) as consumer:
        return list(consumer.to_end())


@pytest.fixture
def three(bootstrap: str, topic: str) -> str:
    """A topic of three partitions."""
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=3)
    return topic


def test_a_send_resolves_to_partition_offset_and_timestamp(bootstrap: str, topic: str) -> None:
    before = time.time() * 1000
    with Producer(bootstrap) as producer:
        first = producer.send(topic, "hello", key="k").result(10)
        second = producer.send(topic, "again", key="k").result(10)

    assert (first.topic, first.partition, first.offset, second.offset) == (topic, 0, 0, 1)
    assert before - 1000 <= first.timestamp <= time.time() * 1000 + 1000


def test_everything_about_a_record_arrives(bootstrap: str, topic: str) -> None:
    moment = datetime(2024, 2, 3, 4, 5, 6, 789000, tzinfo=UTC)
    with Producer(bootstrap) as producer:
        producer.send(topic, b"\x00\xff", key=b"", headers=[("a", b"1"), ("a", None), ("b", "text")], timestamp=moment)
        producer.send(topic, None, key="gone")

    full, tombstone = read_all(bootstrap, topic)
    assert (full.value, full.key, full.time) == (b"\x00\xff", b"", moment)
    assert full.headers == [("a", b"1"), ("a", None), ("b", b"text")]
    assert (tombstone.value, tombstone.key) == (None, b"gone")


def test_json_and_text_come_back_as_values(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, keys=str, values="json") as producer:
        producer.send(topic, {"total": 12.5, "lines": [1, 2]}, key="ä")

    (record,) = read_all(bootstrap, topic, keys=str, values="json")
    assert (record.key, record.value) == ("ä", {"total": 12.5, "lines": [1, 2]})


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_is_read_back(bootstrap: str, topic: str, compression: Any) -> None:
    with Producer(bootstrap, compression=compression) as producer:
        producer.send_many(topic, [b"same" * 100] * 50).result(10)

    assert [record.value for record in read_all(bootstrap, topic)] == [b"same" * 100] * 50


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement_writes_the_record(bootstrap: str, topic: str, acks: Any) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic(topic)
    with Producer(bootstrap, acks=acks) as producer:
        delivery = producer.send(topic, "x").result(10)

    assert delivery.offset == (None if acks == 0 else 0)
    # With acks=0 nobody says when it is written.
    deadline = time.monotonic() + 10
    while not (records := read_all(bootstrap, topic)) and time.monotonic() < deadline:
        pass
    assert [record.value for record in records] == [b"x"]


def test_many_sent_to_somebody_who_does_not_answer_end_without_offsets(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic(topic)
    with Producer(bootstrap, acks=0) as producer:
        assert [each.offset for each in producer.send_many(topic, ["x", "y"]).result(10)] == [None, None]


def test_send_many_delivers_all_in_order_with_one_future(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        deliveries = producer.send_many(topic, (b"%d" % number for number in range(5000))).result(20)

    assert len(deliveries) == 5000
    assert [delivery.offset for delivery in deliveries] == list(range(5000))
    assert deliveries[-1].offset == 4999
    assert [record.value for record in read_all(bootstrap, topic)] == [b"%d" % number for number in range(5000)]


def test_send_many_with_keys_puts_each_key_where_the_java_client_would(bootstrap: str, three: str) -> None:
    keys = [f"key-{number}" for number in range(300)]
    with Producer(bootstrap) as producer:
        producer.send_many(three, keys, keys=keys).result(20)

    for record in read_all(bootstrap, three, keys=str):
        assert record.partition == partition_of_key(record.key.encode(), 3)


def test_send_many_of_nothing_is_done_at_once(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        assert len(producer.send_many(topic, []).result(0)) == 0


def test_send_many_with_a_value_that_does_not_encode_keeps_what_came_before(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        with pytest.raises(EncodeFailed):
            producer.send_many(topic, [b"x"] * 1500 + [object()])
        producer.flush(10)

    # Whole chunks before the bad one are sent; its own chunk is not.
    assert len(read_all(bootstrap, topic)) == 1000


@pytest.mark.parametrize(
    "partitioner", [KeyHash(), RoundRobin(), Sticky(run=5), Salted(3), lambda topic, key, value, count: count - 1]
)
@pytest.mark.parametrize("many", [False, True])
def test_partitioners_are_strategies(bootstrap: str, three: str, partitioner: Any, many: bool) -> None:
    with Producer(bootstrap, partitioner=partitioner) as producer:
        if many:
            producer.send_many(three, ["v"] * 60, keys=["one key"] * 60)
        for _ in range(0 if many else 60):
            producer.send(three, "v", key="one key")

    counts = Counter(record.partition for record in read_all(bootstrap, three))
    match partitioner:
        case KeyHash():
            assert counts == {partition_of_key(b"one key", 3): 60}
        case RoundRobin():
            assert counts == {0: 20, 1: 20, 2: 20}
        case Sticky():
            assert all(count % 5 == 0 for count in counts.values())
            assert len(counts) > 1
        case Salted():
            assert len(counts) == 3
        case _:
            assert counts == {2: 60}


def test_an_explicit_partition_wins_over_the_partitioner(bootstrap: str, three: str) -> None:
    with Producer(bootstrap, partitioner=RoundRobin()) as producer:
        assert {producer.send(three, "v", partition=1).result(10).partition for _ in range(3)} == {1}
        assert {each.partition for each in producer.send_many(three, ["v"] * 5, partition=2).result(10)} == {2}


def test_send_many_keeps_the_order_of_each_partition_whatever_the_buffer(bootstrap: str, three: str) -> None:
    with Producer(bootstrap, partitioner=RoundRobin(), buffer_messages=100, linger=0.001) as producer:
        producer.send_many(three, [str(number) for number in range(5000)]).result(30)

    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for record in read_all(bootstrap, three):
        seen[record.partition].append(int(record.value))
    assert seen == {partition: list(range(partition, 5000, 3)) for partition in range(3)}


def test_a_partitioner_that_chooses_what_is_not_there_is_told_so(bootstrap: str, three: str) -> None:
    with (
        Producer(bootstrap, partitioner=lambda *_: 7) as producer,
        pytest.raises(InvalidArgument, match=r"chose 7 .* accepted: 0 to 2"),
    ):
        producer.send(three, "v")


@pytest.mark.parametrize("send", ["send", "send_bytes", "send_many"])
def test_a_partition_that_is_not_there_is_named_with_those_that_are(bootstrap: str, three: str, send: str) -> None:
    with Producer(bootstrap) as producer:
        for _ in range(2):  # the first asks a broker, the second knows
            with pytest.raises(InvalidArgument, match=f"partition=99 is not accepted for topic '{three}'; accepted: 0 to 2"):
                getattr(outbox_of(producer) if send == "send_bytes" else producer, send)(
                    three, [b"v"] if send == "send_many" else b"v", partition=99
                )


def test_a_partition_that_was_added_is_written_to_at_once(bootstrap: str, three: str) -> None:
    with Producer(bootstrap) as producer, Admin(bootstrap) as admin:
        producer.send(three, "v", partition=2).result(10)
        admin.add_partitions(three, 5)

        assert producer.send(three, "v", partition=4).result(10).partition == 4


def test_a_partitioner_goes_by_what_it_knew_while_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.client.producer.partition_counts.AGE_S", -1.0)
    with Broker() as broker, Producer(broker.bootstrap, partitioner=RoundRobin()) as producer:
        producer.send("t", "v").result(10)
        monkeypatch.setattr("headrace.client.producer.partition_counts.ASK_S", 0.05)
        monkeypatch.setattr(outbox_of(producer).partition_counts, "_patience", 0.05)
        with broker.faults.on(Api.METADATA, delay=0.5) as late:
            delivery = producer.send("t", "v").result(10)

    assert late.hits > 0
    assert delivery.offset == 1


def test_without_linger_a_record_is_there_in_a_blink(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, linger=0) as producer:
        producer.send(topic, "warm").result(10)
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            producer.send(topic, "x").result(10)
            times.append(time.perf_counter() - begin)

    # With the usual linger it would be 100 ms for each.
    assert sorted(times)[10] < 0.05


def test_a_batch_goes_when_it_has_a_hundred_records_without_waiting_for_the_linger(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, linger=30, delivery_timeout=60) as producer:
        futures = [producer.send(topic, "x") for _ in range(100)]

        done, late = wait_for(futures, timeout=10)

    assert len(done) == 100
    assert not late


def test_a_full_buffer_raises_when_asked_to(bootstrap: str, topic: str) -> None:
    with Producer(
        bootstrap, buffer_messages=10, when_full="raise", linger=30, batch_messages=1000, delivery_timeout=60
    ) as producer:
        for _ in range(10):
            producer.send(topic, "x")
        with pytest.raises(BufferFull, match="the buffer is full"):
            producer.send(topic, "x")
        producer.flush(10)

    assert len(read_all(bootstrap, topic)) == 10


def test_a_full_buffer_blocks_and_loses_nothing(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, buffer_messages=50, linger=0.001) as producer:
        for number in range(2000):
            producer.send(topic, str(number))
        assert len(producer) <= 50
        producer.send_many(topic, (str(number) for number in range(2000, 4000)))

    assert [int(record.value) for record in read_all(bootstrap, topic)] == list(range(4000))


def test_many_threads_share_a_producer(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, linger=0.005) as producer:

        def send(who: int) -> None:
            for number in range(200):
                producer.send(topic, f"{who}:{number}")

        threads = [threading.Thread(target=send, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    seen = [record.value.decode().split(":") for record in read_all(bootstrap, topic)]
    assert len(seen) == 1600
    for who in range(8):
        assert [int(number) for name, number in seen if name == str(who)] == list(range(200))


def test_a_message_too_large_fails_alone(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        with pytest.raises(DeliveryFailed, match=topic):
            producer.send(topic, b"x" * 5_000_000).result(10)
        assert producer.send(topic, b"small").result(10).offset == 0


def test_a_batch_with_failures_says_which_were_delivered(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, settings={"max.message.bytes": 1000})
    with Producer(bootstrap, batch_messages=1) as producer:
        failed = producer.send_many(topic, [b"a", b"x" * 5000, b"b"]).exception(20)

    assert isinstance(failed, BatchFailed)
    assert (len(failed.delivered), len(failed.failures)) == (2, 1)


def test_a_record_past_its_time_to_live_is_not_shown_and_the_others_are(bootstrap: str, topic: str) -> None:
    long_ago = int(time.time() * 1000) - 60_000
    with Producer(bootstrap) as producer:
        producer.send(topic, "expired", ttl=30, timestamp=long_ago)
        producer.send(topic, "alive", ttl=90, timestamp=long_ago)
        producer.send(topic, "without")

    assert [record.value for record in read_all(bootstrap, topic)] == [b"alive", b"without"]
    assert [record.value for record in read_all(bootstrap, topic, values=str)] == ["alive", "without"]
