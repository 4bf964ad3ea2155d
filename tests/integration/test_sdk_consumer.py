"""The consumer against a running broker."""

import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import Admin, Consumer, DecodeFailed, InvalidArgument, Producer, Record, TopicNotFound, TopicPartition
from tests.support.waiting import until


def fill(bootstrap: str, topic: str, values: Iterable[Any], partitions: int = 1, **options: Any) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=partitions)
    with Producer(bootstrap, linger=0.01) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % partitions, **options)


def values_of(records: Iterable[Record[Any, Any]]) -> list[Any]:
    return [record.value for record in records]


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_a_consumer_without_a_group_reads_everything_each_time(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(30), partitions=3)

    for _ in range(2):
        with Consumer(topic, bootstrap=bootstrap, values=str) as consumer:
            assert sorted(values_of(consumer.to_end()), key=int) == numbers(30)


def test_a_group_goes_on_where_it_left_off(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(10))
    with Consumer(topic, bootstrap=bootstrap, group=topic, values=str) as consumer:
        for record in consumer:
            if record.value == "3":
                break

    with Consumer(topic, bootstrap=bootstrap, group=topic, values=str) as consumer:
        assert values_of(consumer.to_end()) == numbers(10)[4:]


def test_a_record_whose_handling_failed_is_read_again(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(5))

    def fails_at_three() -> None:
        with Consumer[bytes, str](topic, bootstrap=bootstrap, group=topic, values=str) as consumer:
            for record in consumer:
                _ = 1 / (3 - int(record.value))

    with pytest.raises(ZeroDivisionError):
        fails_at_three()
    with Consumer(topic, bootstrap=bootstrap, group=topic, values=str) as consumer:
        assert values_of(consumer.to_end()) == ["3", "4"]


def test_a_batch_whose_handling_failed_is_read_again_whole(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(10))

    def fails_in_the_second() -> None:
        with Consumer[bytes, str](topic, bootstrap=bootstrap, group=topic, values=str) as consumer:
            for batch in consumer.batches(4, timeout=5):
                if batch[0].value == "4":
                    raise RuntimeError("in the second batch")

    with pytest.raises(RuntimeError, match="second"):
        fails_in_the_second()
    with Consumer(topic, bootstrap=bootstrap, group=topic, values=str) as consumer:
        assert values_of(consumer.to_end()) == numbers(10)[4:]


def test_at_most_once_never_reads_a_record_again(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(5))

    def fails_at_two() -> None:
        with Consumer[bytes, str](topic, bootstrap=bootstrap, group=topic, values=str, delivery="at_most_once") as consumer:
            for record in consumer:
                _ = 1 / (2 - int(record.value))

    with pytest.raises(ZeroDivisionError):
        fails_at_two()
    with Consumer(topic, bootstrap=bootstrap, group=topic, values=str, delivery="at_most_once") as consumer:
        assert values_of(consumer.to_end()) == ["3", "4"]


def test_at_most_once_commits_before_it_hands_out(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(5))
    with Consumer(topic, bootstrap=bootstrap, group=topic, delivery="at_most_once") as consumer, Admin(bootstrap) as admin:
        assert consumer.poll(20) is not None

        # Were the process killed here, nothing handed out would be handed out again.
        assert admin.committed(topic)[TopicPartition(topic, 0)] >= 1


def test_commits_happen_in_the_background(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(5))
    with Consumer(topic, bootstrap=bootstrap, group=topic, commit_interval=0.1) as consumer, Admin(bootstrap) as admin:
        for _ in range(4):
            consumer.poll(20)

        # The fourth is out: whoever asked for it has finished three.
        until(lambda: admin.committed(topic).get(TopicPartition(topic, 0)) == 3, lambda: f"three: {admin.committed(topic)}")


def test_commit_by_hand_covers_what_was_handed_out(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(5))
    place = TopicPartition(topic, 0)
    with Consumer(topic, bootstrap=bootstrap, group=topic, commit_interval=100) as consumer:
        consumer.poll(20)
        consumer.poll(20)
        consumer.commit()
        assert consumer.committed() == {place: 2}
        consumer.commit({place: 4})
        assert consumer.committed() == {place: 4}


@pytest.mark.parametrize("group", [None, "with"])
def test_reading_starts_at_the_latest_when_asked(bootstrap: str, topic: str, group: str | None) -> None:
    fill(bootstrap, topic, numbers(5))
    with Consumer(topic, bootstrap=bootstrap, group=group and topic, start="latest", values=str) as consumer:
        assert consumer.poll(3) is None
        with Producer(bootstrap, linger=0) as producer:
            producer.send(topic, "new").result(10)
        record = consumer.poll(20)

    assert record is not None
    assert record.value == "new"


@pytest.mark.parametrize("group", [None, "with"])
def test_reading_starts_at_an_offset_when_asked(bootstrap: str, topic: str, group: str | None) -> None:
    fill(bootstrap, topic, numbers(5))
    with Consumer(topic, bootstrap=bootstrap, group=group and topic, start=3, values=str) as consumer:
        assert values_of(consumer.to_end()) == ["3", "4"]


@pytest.mark.parametrize("group", [None, "with"])
def test_reading_starts_at_a_moment_when_asked(bootstrap: str, topic: str, group: str | None) -> None:
    base = datetime.now(UTC) - timedelta(hours=10)
    with Producer(bootstrap) as producer:
        for hour in range(5):
            producer.send(topic, str(hour), timestamp=base + timedelta(hours=hour))
    with Consumer(
        topic, bootstrap=bootstrap, group=group and topic, start=base + timedelta(hours=2, minutes=30), values=str
    ) as consumer:
        assert values_of(consumer.to_end()) == ["3", "4"]


def test_what_a_group_has_committed_wins_over_the_start(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(5))
    with Admin(bootstrap) as admin:
        admin.set_offsets(topic, {TopicPartition(topic, 0): 4})

    with Consumer(topic, bootstrap=bootstrap, group=topic, start=1, values=str) as consumer:
        assert values_of(consumer.to_end()) == ["4"]


def test_single_partitions_are_read_by_name(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(9), partitions=3)

    with Consumer([TopicPartition(topic, 1)], bootstrap=bootstrap, values=str) as consumer:
        assert values_of(consumer.to_end()) == ["1", "4", "7"]
        assert consumer.assignment == [TopicPartition(topic, 1)]


def test_several_topics_and_patterns_are_read_together(bootstrap: str, topic: str) -> None:
    fill(bootstrap, f"{topic}-a", ["a"])
    fill(bootstrap, f"{topic}-b", ["b"])

    for topics in ([f"{topic}-a", f"{topic}-b"], f"^{topic}-.*"):
        with Consumer(topics, bootstrap=bootstrap, group=f"{topic}-{len(topics)}", values=str) as consumer:
            assert sorted(values_of(consumer.to_end())) == ["a", "b"]


def test_a_reader_may_seek_and_rewind(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(10))
    place = TopicPartition(topic, 0)
    with Consumer(topic, bootstrap=bootstrap, group=topic, values=str) as consumer:
        assert len(list(consumer.to_end())) == 10
        consumer.seek(place, 7)
        assert values_of(consumer.batch(10, 2)) == ["7", "8", "9"]
        consumer.rewind(records=2)
        assert values_of(consumer.batch(10, 2)) == ["8", "9"]
        consumer.rewind()
        assert values_of(consumer.batch(3, 5)) == ["0", "1", "2"]
        consumer.seek(place, "latest")
        assert consumer.poll(0.5) is None
        consumer.seek(place, "earliest")
        assert values_of(consumer.batch(1, 5)) == ["0"]


def test_a_seek_before_the_first_read_works(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(10))
    with Consumer(topic, bootstrap=bootstrap, group=topic, values=str) as consumer:
        consumer.seek(TopicPartition(topic, 0), 8)

        assert values_of(consumer.to_end()) == ["8", "9"]


def test_a_reader_may_seek_to_a_moment(bootstrap: str, topic: str) -> None:
    base = datetime.now(UTC) - timedelta(hours=10)
    with Producer(bootstrap) as producer:
        for hour in range(5):
            producer.send(topic, str(hour), timestamp=base + timedelta(hours=hour))
    with Consumer(topic, bootstrap=bootstrap, group=topic, values=str) as consumer:
        assert len(list(consumer.to_end())) == 5
        consumer.seek_to_time(base + timedelta(hours=3))
        assert values_of(consumer.batch(5, 2)) == ["3", "4"]
        consumer.seek_to_time(datetime.now(UTC))
        assert consumer.poll(0.5) is None


def test_a_seek_to_a_partition_one_does_not_have_names_those_one_has(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["x"])
    with (
        Consumer(topic, bootstrap=bootstrap, group=topic) as consumer,
        pytest.raises(InvalidArgument, match=f"accepted: {topic}-0"),
    ):
        consumer.seek(TopicPartition(topic, 5), 0)


def test_a_paused_partition_is_silent_and_goes_on_without_a_gap(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(40), partitions=2)
    quiet = TopicPartition(topic, 0)
    with Consumer(topic, bootstrap=bootstrap, group=topic, values=str) as consumer:
        consumer.pause([quiet])
        while_paused = values_of(consumer.to_end())
        consumer.resume()
        after = values_of(consumer.to_end())

    assert while_paused == [value for value in numbers(40) if int(value) % 2 == 1]
    assert after == [value for value in numbers(40) if int(value) % 2 == 0]


def test_lag_counts_what_is_not_read(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(10))
    place = TopicPartition(topic, 0)
    with Consumer(topic, bootstrap=bootstrap, group=topic) as consumer:
        assert consumer.lag() == {place: 10}
        consumer.batch(4, 5)
        assert consumer.lag() == {place: 6}
        assert consumer.positions() == {place: 4}


def test_batches_are_full_or_come_in_time(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(25))
    with Consumer(topic, bootstrap=bootstrap, group=topic, values=str) as consumer:
        sizes = []
        for batch in consumer.batches(10, timeout=2):
            sizes.append(len(batch))
            if sum(sizes) == 25:
                break
        begin = time.monotonic()
        assert consumer.batch(10, 0.3) == []

    assert sizes == [10, 10, 5]
    assert 0.25 < time.monotonic() - begin < 3


def test_records_end_when_nothing_comes_for_a_while(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, numbers(3))
    with Consumer(topic, bootstrap=bootstrap, values=str) as consumer:
        assert values_of(consumer.records(timeout=1)) == numbers(3)


def test_poll_without_waiting_answers_at_once(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, [])
    with Consumer(topic, bootstrap=bootstrap) as consumer:
        consumer.poll(1)
        begin = time.monotonic()
        assert consumer.poll(0) is None
        assert time.monotonic() - begin < 0.2


def test_a_record_that_does_not_decode_raises_once_and_reading_goes_on(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["1", "{", "2"])
    with Consumer(topic, bootstrap=bootstrap, group=topic, values="json") as consumer:
        first = consumer.poll(20)
        with pytest.raises(DecodeFailed, match=rf"{topic}\[0\]@1 could not be read as json") as caught:
            consumer.poll(20)
        second = consumer.poll(20)

    assert first is not None
    assert second is not None
    assert (first.value, second.value) == (1, 2)
    assert caught.value.record.raw_value == b"{"


def test_a_batch_ends_before_a_record_that_does_not_decode(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["1", "2", "{", "3"])
    with Consumer(topic, bootstrap=bootstrap, group=topic, values="json") as consumer:
        assert values_of(consumer.batch(10, 3)) == [1, 2]
        with pytest.raises(DecodeFailed):
            consumer.batch(10, 3)
        assert values_of(consumer.batch(10, 3)) == [3]


def test_records_that_do_not_decode_may_go_to_a_callback(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["1", "{", "2"])
    bad: list[DecodeFailed] = []
    with Consumer(topic, bootstrap=bootstrap, values="json", on_undecodable=bad.append) as consumer:
        assert values_of(consumer.to_end()) == [1, 2]

    assert [failure.record.offset for failure in bad] == [1]


def test_a_topic_that_is_not_there_is_an_error_and_not_a_silence(bootstrap: str) -> None:
    with (
        Consumer("__no-such-topic.", bootstrap=bootstrap, librdkafka={"allow.auto.create.topics": False}) as consumer,
        pytest.raises(TopicNotFound),
    ):
        consumer.poll(20)


def test_a_partition_that_is_not_there_is_an_error_and_not_a_silence(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["x"])
    with (
        Consumer(TopicPartition(topic, 9), bootstrap=bootstrap) as consumer,
        pytest.raises(TopicNotFound, match=f"topics={topic}-9 does not exist; topic '{topic}' has the partitions 0 to 0"),
    ):
        consumer.poll(20)


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda consumer: consumer.seek("t", 5), "partition='t' is not accepted; accepted: TopicPartition"),
        (lambda consumer: consumer.pause("t"), "partitions='t' is not accepted; accepted: a list"),
        (lambda consumer: consumer.resume([5]), "partitions=5 is not accepted; accepted: TopicPartition"),
        (lambda consumer: consumer.commit({"t": 1}), "offsets='t' is not accepted; accepted: TopicPartition"),
    ],
)
def test_partitions_are_named_as_such(bootstrap: str, topic: str, use: Any, said: str) -> None:
    fill(bootstrap, topic, ["x"])
    with Consumer(topic, bootstrap=bootstrap, group=topic) as consumer, pytest.raises(InvalidArgument, match=re.escape(said)):
        use(consumer)


def test_read_committed_waits_for_the_end_of_a_transaction(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, transactional_id=topic, linger=0) as producer:
        with producer.transaction() as transaction:
            transaction.send(topic, "committed")

        def aborts() -> None:
            with producer.transaction() as transaction:
                transaction.send(topic, "aborted").result(10)
                raise RuntimeError("mine")

        with pytest.raises(RuntimeError, match="mine"):
            aborts()
        with Consumer(topic, bootstrap=bootstrap, values=str) as consumer:
            assert values_of(consumer.to_end()) == ["committed"]
        with Consumer(topic, bootstrap=bootstrap, values=str, isolation="read_uncommitted") as consumer:
            assert values_of(consumer.to_end()) == ["committed", "aborted"]
