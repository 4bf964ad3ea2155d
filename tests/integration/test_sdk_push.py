"""Push: in order per key, beside each other otherwise, and only what is finished is committed."""

import threading
import time
from collections import defaultdict
from typing import Any

import pytest

from headrace import Admin, Consumer, InvalidArgument, Producer, Record, StillRunning, TopicPartition
from headrace.testing import Broker
from tests.support.waiting import stays, until


def send(bootstrap: str, topic: str, pairs: list[tuple[str | None, str]], partitions: int = 1) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=partitions, exist_ok=True)
    with Producer(bootstrap, linger=0.01) as producer:
        for key, value in pairs:
            producer.send(topic, value, key=key)


def reader(bootstrap: str, topic: str, **options: Any) -> Consumer[str, str]:
    given: dict[str, Any] = {"commit_interval": 0.1, "session_timeout": 6} | options
    return Consumer(topic, bootstrap=bootstrap, group=topic, keys=str, values=str, **given)


def committed(bootstrap: str, topic: str) -> int:
    with Admin(bootstrap) as admin:
        return sum(admin.committed(topic).values())


@pytest.mark.parametrize("workers", [1, 4, 16])
def test_each_key_is_handled_in_order_whatever_the_number_of_workers(bootstrap: str, topic: str, workers: int) -> None:
    send(bootstrap, topic, [(f"k{number % 7}", str(number)) for number in range(700)], partitions=3)
    seen: dict[str, list[int]] = defaultdict(list)
    running: set[str] = set()
    overlaps: list[str] = []

    def handle(record: Record[str, str]) -> None:
        if record.key in running:
            overlaps.append(record.key)
        running.add(record.key)
        seen[record.key].append(int(record.value))
        running.discard(record.key)

    with reader(bootstrap, topic) as consumer, consumer.on_message(handle, workers=workers):
        until(lambda: sum(map(len, seen.values())) == 700)

    assert overlaps == []
    for key in range(7):
        assert seen[f"k{key}"] == list(range(key, 700, 7))
    assert committed(bootstrap, topic) == 700


def test_different_keys_are_handled_beside_each_other(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [(f"k{number}", "x") for number in range(4)])
    together = threading.Barrier(4, timeout=20)

    with reader(bootstrap, topic) as consumer, consumer.on_message(lambda record: together.wait(), workers=4):
        until(lambda: committed(bootstrap, topic) == 4)


def test_records_without_a_key_are_handled_beside_each_other(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [(None, "x")] * 4)
    together = threading.Barrier(4, timeout=20)

    with reader(bootstrap, topic) as consumer, consumer.on_message(lambda record: together.wait(), workers=4):
        until(lambda: committed(bootstrap, topic) == 4)


def test_by_partition_the_order_of_the_partition_is_kept(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [(f"k{number}", str(number)) for number in range(200)], partitions=2)
    seen: dict[int, list[int]] = defaultdict(list)

    def handle(record: Record[str, str]) -> None:
        seen[record.partition].append(record.offset)

    with reader(bootstrap, topic) as consumer, consumer.on_message(handle, workers=8, order="partition"):
        until(lambda: sum(map(len, seen.values())) == 200)

    assert all(offsets == sorted(offsets) for offsets in seen.values())


def test_nothing_behind_an_unfinished_record_is_committed(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [("slow", "0"), *((f"k{number}", str(number)) for number in range(1, 50))])
    release, done = threading.Event(), []

    def handle(record: Record[str, str]) -> None:
        if record.key == "slow":
            release.wait(30)
        done.append(record.value)

    with reader(bootstrap, topic) as consumer, consumer.on_message(handle, workers=4):
        until(lambda: len(done) == 49)
        stays(lambda: committed(bootstrap, topic) == 0, 0.5)
        release.set()
        until(lambda: committed(bootstrap, topic) == 50)


def test_no_more_wait_than_was_allowed(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [(None, str(number)) for number in range(300)])
    release, started = threading.Event(), []

    def handle(record: Record[str, str]) -> None:
        started.append(record.value)
        release.wait(30)

    with reader(bootstrap, topic) as consumer, consumer.on_message(handle, workers=2, pending_max=10) as subscription:
        until(lambda: len(started) == 2)
        # Long enough for the background thread to stand in for the reader.
        stays(lambda: len(subscription._schedule._lanes) <= 10 and len(started) == 2, 2.5)
        release.set()
        until(lambda: len(started) == 300)

    assert sorted(map(int, started)) == list(range(300))


def test_a_stop_finishes_what_runs_and_leaves_the_rest_to_be_read_again(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [("k", str(number)) for number in range(20)])
    entered, release, done = threading.Event(), threading.Event(), []

    def handle(record: Record[str, str]) -> None:
        entered.set()
        release.wait(30)
        done.append(record.value)

    with reader(bootstrap, topic) as consumer:
        subscription = consumer.on_message(handle, workers=4)
        entered.wait(30)
        stopper = threading.Thread(target=subscription.stop)
        stopper.start()
        release.set()
        stopper.join(30)
        assert not subscription.running
        assert done == ["0"]
        assert consumer.committed() == {TopicPartition(topic, 0): 1}

        # And the consumer itself goes on exactly behind it.
        assert [record.value for record in consumer.to_end()] == [str(number) for number in range(1, 20)]


def test_a_callback_that_raises_ends_the_subscription_with_its_error(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [("k", "good"), ("k", "bad"), ("k", "after")])
    seen = []

    def handle(record: Record[str, str]) -> None:
        if record.value == "bad":
            raise ValueError("cannot do this one")
        seen.append(record.value)

    with reader(bootstrap, topic) as consumer, pytest.raises(ValueError, match="cannot do this one"):
        consumer.on_message(handle, workers=2).wait(30)

    assert seen == ["good"]
    assert committed(bootstrap, topic) == 1


def test_an_error_callback_takes_the_failures_and_the_rest_goes_on(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [("k", str(number)) for number in range(10)])
    failed = []

    def handle(record: Record[str, str]) -> None:
        if record.value == "5":
            raise ValueError("five")

    with (
        reader(bootstrap, topic) as consumer,
        consumer.on_message(handle, workers=2, on_error=lambda record, error: failed.append((record.value, str(error)))),
    ):
        until(lambda: committed(bootstrap, topic) == 10)

    assert failed == [("5", "five")]


def test_a_record_that_does_not_decode_goes_to_the_error_callback(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [("k", "1"), ("k", "{"), ("k", "2")])
    failed, seen = [], []
    with (
        Consumer[bytes, Any](topic, bootstrap=bootstrap, group=topic, values="json", commit_interval=0.1) as consumer,
        consumer.on_message(
            lambda record: seen.append(record.value), on_error=lambda record, error: failed.append(record.raw_value)
        ),
    ):
        until(lambda: committed(bootstrap, topic) == 3)

    assert (sorted(seen), failed) == ([1, 2], [b"{"])


def test_a_callback_may_stop_its_own_subscription(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [("k", str(number)) for number in range(10)])
    seen: list[str] = []
    with reader(bootstrap, topic) as consumer:

        def handle(record: Record[str, str]) -> None:
            seen.append(record.value)
            if record.value == "3":
                subscription.stop()

        subscription = consumer.on_message(handle)
        assert subscription.wait(30)

    assert seen == ["0", "1", "2", "3"]
    assert committed(bootstrap, topic) == 4


def test_a_callback_that_never_ends_does_not_hang_the_stop(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [("k", "x")])
    entered, release = threading.Event(), threading.Event()

    def handle(record: Record[str, str]) -> None:
        entered.set()
        release.wait(60)

    with reader(bootstrap, topic) as consumer:
        subscription = consumer.on_message(handle)
        entered.wait(30)
        with pytest.raises(StillRunning, match=rf"callbacks still run after 0.2 s, with: {topic}\[0\]@0"):
            subscription.stop(0.2)
        release.set()
        subscription.stop()


def test_a_rebalance_waits_for_running_callbacks_and_hands_out_nothing_twice(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [(f"k{number}", str(number)) for number in range(400)], partitions=4)
    seen: list[str] = []
    lock = threading.Lock()

    def handle(record: Record[str, str]) -> None:
        time.sleep(0.005)
        with lock:
            seen.append(record.value)

    with reader(bootstrap, topic) as first, first.on_message(handle, workers=4):
        until(lambda: len(seen) > 20)
        with reader(bootstrap, topic) as second, second.on_message(handle, workers=4):
            until(lambda: len(first.assignment) == len(second.assignment) == 2)
            until(lambda: len(set(seen)) == 400)
        until(lambda: committed(bootstrap, topic) == 400)

    assert sorted(seen, key=int) == [str(number) for number in range(400)]


def test_long_callbacks_do_not_cost_the_membership(broker: Broker, topic: str) -> None:
    bootstrap = broker.bootstrap  # ours, which allows so short a session
    send(bootstrap, topic, [("k", "slow"), ("k", "next")])
    lost: list[Any] = []
    seen: list[str] = []

    def handle(record: Record[str, str]) -> None:
        if record.value == "slow":
            time.sleep(4)
        seen.append(record.value)

    options = {"on_revoked": lost.append, "session_timeout": 2, "librdkafka": {"max.poll.interval.ms": 2500}}
    with reader(bootstrap, topic, **options) as consumer, consumer.on_message(handle, pending_max=1):
        until(lambda: seen == ["slow", "next"])
        assert lost == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"workers": 0}, "workers=0"),
        ({"order": "random"}, "order='random'"),
        ({"pending_max": 0}, "pending_max=0"),
        ({"dead_letters": "x"}, "dead_letters='x'"),
    ],
)
def test_push_names_the_argument_it_does_not_accept(bootstrap: str, topic: str, options: dict[str, Any], named: str) -> None:
    with reader(bootstrap, topic) as consumer, pytest.raises(InvalidArgument, match=named):
        consumer.on_message(print, **options)
