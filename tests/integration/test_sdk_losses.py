"""No record is lost without an error: whatever a callback returns or raises, whoever closes when, and however a process ends."""

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import pytest

from headrace import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    Closed,
    Consumer,
    DeadLetters,
    DecodeFailed,
    DeliveryFailed,
    InvalidArgument,
    Producer,
    Record,
    Reject,
    exactly_once,
)
from headrace.client.consumer.feed import feed_of
from headrace.client.producer.outbox import outbox_of
from headrace.testing import Api, Broker, ErrorCode
from tests.support.waiting import stays, until, until_async


@pytest.fixture
def own() -> Iterator[Broker]:
    """A broker that only this test breaks."""
    with Broker() as broker:
        yield broker


def fill(bootstrap: str, topic: str, values: list[str]) -> None:
    with Producer(bootstrap, linger=0.01) as producer:
        producer.send_many(topic, values).result(20)


def committed(bootstrap: str, group: str) -> int:
    with Admin(bootstrap) as admin:
        return sum(admin.committed(group).values())


def grouped(bootstrap: str, topic: str, **options: Any) -> Consumer[Any, Any]:
    return Consumer(topic, bootstrap=bootstrap, group=topic, commit_interval=0.05, session_timeout=6, **options)


async def nobody_awaits(record: Any) -> None: ...


def nobody_iterates(record: Any) -> Iterator[None]:
    yield


async def nobody_iterates_async(record: Any) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("callback", [nobody_awaits, nobody_iterates, nobody_iterates_async])
def test_push_refuses_a_callback_that_nobody_would_run_and_commits_nothing(bootstrap: str, topic: str, callback: Any) -> None:
    fill(bootstrap, topic, ["a", "b"])
    with grouped(bootstrap, topic) as consumer, pytest.raises(InvalidArgument, match=r"callback=.* which nobody would run"):
        consumer.on_message(callback)

    assert committed(bootstrap, topic) == 0


@pytest.mark.parametrize("callback", [nobody_awaits, nobody_iterates, nobody_iterates_async])
@pytest.mark.parametrize("letters", [None, DeadLetters(attempts=1)])
def test_push_ends_when_a_callback_returns_what_nobody_runs(
    bootstrap: str, topic: str, callback: Any, letters: DeadLetters | None
) -> None:
    fill(bootstrap, topic, ["a", "b"])
    with grouped(bootstrap, topic) as consumer:
        subscription = consumer.on_message(lambda record: callback(record), dead_letters=letters)
        with pytest.raises(InvalidArgument, match=r"callback returned a .*, which nobody runs"):
            subscription.wait(30)

    assert committed(bootstrap, topic) == 0


def test_push_refuses_an_async_on_error(bootstrap: str, topic: str) -> None:
    async def on_error(record: Any, error: BaseException) -> None: ...

    fill(bootstrap, topic, ["a"])
    with grouped(bootstrap, topic) as consumer, pytest.raises(InvalidArgument, match=r"on_error=.* is an async function"):
        consumer.on_message(print, on_error=on_error)


def test_a_record_whose_callback_returns_a_future_is_finished_when_that_is(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["a"])
    futures: list[Future[None]] = []

    def handle(record: Record[Any, Any]) -> Future[None]:
        futures.append(Future())
        return futures[-1]

    with grouped(bootstrap, topic) as consumer, consumer.on_message(handle):
        until(lambda: len(futures) == 1)
        stays(lambda: committed(bootstrap, topic) == 0, 0.3)
        futures[0].set_result(None)
        until(lambda: committed(bootstrap, topic) == 1)


def test_a_future_that_fails_is_a_callback_that_failed(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["a"])
    told: list[BaseException] = []

    with ThreadPoolExecutor(1) as pool, grouped(bootstrap, topic) as consumer:
        with consumer.on_message(lambda record: pool.submit(int, "x"), on_error=lambda record, error: told.append(error)):
            until(lambda: committed(bootstrap, topic) == 1)
        assert [type(error) for error in told] == [ValueError]


def test_a_future_that_fails_is_tried_again_and_at_last_parked(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["a"])
    calls: list[bytes] = []

    def handle(record: Record[Any, Any]) -> Future[None]:
        calls.append(record.value)
        future: Future[None] = Future()
        future.set_exception(OSError("no"))
        return future

    letters = DeadLetters(attempts=3, backoff=0.01)
    with grouped(bootstrap, topic) as consumer, consumer.on_message(handle, dead_letters=letters):
        until(lambda: committed(bootstrap, topic) == 1)

    assert calls == [b"a"] * 3


def test_records_passed_on_by_push_are_committed_after_they_are_acknowledged(own: Broker) -> None:
    fill(own.bootstrap, "in", ["a"])
    with Producer(own.bootstrap, linger=0, retry_backoff=0.01) as producer, grouped(own.bootstrap, "in") as consumer:
        producer.send("out", "first").result(10)
        refusing = own.faults.on(Api.PRODUCE, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        with consumer.on_message(lambda record: producer.send("out", record.value)):
            refusing.wait()
            assert committed(own.bootstrap, "in") == 0
            refusing.remove()
            until(lambda: committed(own.bootstrap, "in") == 1)


def test_async_push_awaits_what_its_callback_returned(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["a", "b"])
    seen: list[bytes] = []

    async def really(record: Record[Any, Any]) -> None:
        await asyncio.sleep(0)
        seen.append(record.value)

    async def forgets_to_await(record: Record[Any, Any]) -> Any:
        return really(record)

    async def run() -> None:
        async with (
            AsyncConsumer(topic, bootstrap=bootstrap, group=topic, commit_interval=0.05) as consumer,
            consumer.on_message(forgets_to_await),
        ):
            await until_async(lambda: len(seen) == 2)

    asyncio.run(run())
    assert seen == [b"a", b"b"]


def test_an_error_that_ended_a_push_nobody_waited_for_comes_out_of_the_consumer(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["a"])

    def fails(record: Any) -> None:
        raise RuntimeError("unheard")

    consumer = grouped(bootstrap, topic)
    subscription = consumer.on_message(fails)
    until(lambda: not subscription.running)
    with pytest.raises(RuntimeError, match="unheard"):
        consumer.close()
    consumer.close()

    assert committed(bootstrap, topic) == 0


def test_a_dead_letter_topic_that_refuses_for_good_ends_the_push_also_when_nothing_else_comes(own: Broker) -> None:
    fill(own.bootstrap, "in", ["a"])
    own.faults.on(Api.PRODUCE, error=ErrorCode.MESSAGE_TOO_LARGE, client_id="headrace-dead-letter")

    def fails(record: Any) -> None:
        raise Reject("no")

    with grouped(own.bootstrap, "in") as consumer:
        subscription = consumer.on_message(fails, dead_letters=DeadLetters())
        with pytest.raises(DeliveryFailed, match=r"a record of 1 bytes .* max\.message\.bytes of the topic"):
            assert subscription.wait(20)

    assert committed(own.bootstrap, "in") == 0


def test_a_dead_letter_topic_whose_name_is_none_ends_the_push(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["a"])

    def fails(record: Any) -> None:
        raise Reject("no")

    odd = "a group with spaces " + topic
    with Consumer(topic, bootstrap=bootstrap, group=odd, session_timeout=6) as consumer:
        subscription = consumer.on_message(fails, dead_letters=DeadLetters("{group}.dead"))
        with pytest.raises(InvalidArgument, match="accepted: a topic name that may hold"):
            assert subscription.wait(20)


@pytest.mark.parametrize("how", ["poll", "batch"])
def test_an_on_undecodable_that_raises_loses_neither_its_record_nor_those_around_it(bootstrap: str, topic: str, how: str) -> None:
    fill(bootstrap, topic, ["1", "{broken", "2", "3"])
    angry = True
    told: list[bytes | None] = []

    def on_undecodable(failure: DecodeFailed) -> None:
        if angry:
            raise OSError("the place for broken records is full")
        told.append(failure.record.raw_value)

    seen: list[Any] = []
    errors = 0
    with grouped(bootstrap, topic, values="json", on_undecodable=on_undecodable) as consumer:
        while len(seen) < 3:
            try:
                seen += (
                    [record.value for record in consumer.batch(10, 5)]
                    if how == "batch"
                    else [record.value for record in [consumer.poll(5)] if record is not None]
                )
            except OSError:
                errors += 1
                assert seen == [1]
                angry = errors < 2

    assert (seen, told, errors) == ([1, 2, 3], [b"{broken"], 2)


def test_an_error_that_comes_behind_records_of_a_batch_waits_for_the_next_batch(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(bootstrap, topic, ["1", "2", "3"])
    with grouped(bootstrap, topic, values=str) as consumer:
        reader, fetched = feed_of(consumer).reader, 0
        real = reader._fetch_records

        def fails_the_second_time(wait: float, most: int) -> Any:
            nonlocal fetched
            messages = real(wait, 1)
            fetched += len(messages)
            if fetched == 2 and messages:
                reader.membership.arrived.extendleft(messages)
                raise OSError("in between")
            return messages

        monkeypatch.setattr(reader, "_fetch_records", fails_the_second_time)
        assert [record.value for record in consumer.batch(10, 20)] == ["1"]
        with pytest.raises(OSError, match="in between"):
            consumer.batch(10, 20)
        assert [record.value for record in consumer.batch(2, 20)] == ["2", "3"]


@pytest.mark.parametrize("how", ["poll", "batch"])
def test_ctrl_c_while_records_are_decoded_loses_none_of_them(bootstrap: str, topic: str, how: str) -> None:
    fill(bootstrap, topic, ["1", "2", "3"])
    pressed: list[bool] = []

    def decode(data: bytes) -> str:
        if data == b"2" and not pressed:
            pressed.append(True)
            raise KeyboardInterrupt
        return data.decode()

    seen: list[Any] = []
    with grouped(bootstrap, topic, values=(str.encode, decode)) as consumer:
        while len(seen) < 3:
            with contextlib.suppress(KeyboardInterrupt):
                seen += [record.value for record in (consumer.batch(3, 10) if how == "batch" else [cast(Any, consumer.poll(10))])]

    assert (seen, pressed) == (["1", "2", "3"], [True])


def test_after_a_push_that_on_undecodable_ended_nothing_fetched_is_missing(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["{broken", "1", "2"])
    angry = True

    def on_undecodable(failure: DecodeFailed) -> None:
        if angry:
            raise OSError("no")

    with grouped(bootstrap, topic, values="json", on_undecodable=on_undecodable) as consumer:
        with pytest.raises(OSError, match="no"):
            consumer.on_message(print).wait(20)
        angry = False
        assert [record.value for record in consumer.to_end()] == [1, 2]


def test_a_broken_record_that_could_not_be_parked_before_a_stop_is_read_again(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["{broken", "1"])
    away = Producer("127.0.0.1:1", delivery_timeout=0.2, linger=0)

    # As a signal handler does it: the loop ends, and the `with` block ends without an exception.
    with grouped(bootstrap, topic, values="json", dead_letters=DeadLetters(producer=away)) as consumer:
        threading.Timer(3, lambda: setattr(feed_of(consumer).reader, "stopping", True)).start()
        assert consumer.poll(20) is None
    away.close()

    assert committed(bootstrap, topic) == 0


def test_exactly_once_passes_over_nothing_that_a_stop_kept_from_being_parked(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, ["bad", "good"])
    database = sqlite3.connect(":memory:", check_same_thread=False)
    away = Producer("127.0.0.1:1", delivery_timeout=0.2, linger=0)

    with grouped(bootstrap, topic, delivery="exactly_once", values=str) as consumer:

        def handle(record: Record[Any, str], cursor: Any) -> None:
            if record.value == "bad":
                threading.Timer(0.3, lambda: setattr(feed_of(consumer).reader, "stopping", True)).start()
                raise Reject("no")

        exactly_once(consumer, database).run(handle, dead_letters=DeadLetters(producer=away))
    away.close()

    # `good` comes behind it: its offset in the table would say that `bad` is dealt with.
    (moved,) = database.execute("SELECT COUNT(*) FROM headrace_offsets WHERE next_offset > 0").fetchone()
    assert moved == 0


@pytest.mark.parametrize("handler", [lambda record, cursor: nobody_awaits(record), lambda record, cursor: Future()])
@pytest.mark.parametrize("letters", [None, DeadLetters(attempts=1)])
def test_exactly_once_refuses_a_handler_that_has_done_nothing(
    bootstrap: str, topic: str, handler: Any, letters: DeadLetters | None
) -> None:
    fill(bootstrap, topic, ["a"])
    database = sqlite3.connect(":memory:", check_same_thread=False)
    with grouped(bootstrap, topic, delivery="exactly_once") as consumer:
        with pytest.raises(InvalidArgument, match="handler returned a"):
            exactly_once(consumer, database).run(handler, dead_letters=letters, timeout=10)
        with pytest.raises(InvalidArgument, match=r"handler=.* is an async function"):
            exactly_once(consumer, database).run(cast(Any, nobody_awaits))


def test_a_transaction_refuses_a_consumer_that_commits_by_itself(bootstrap: str, topic: str) -> None:
    with (
        grouped(bootstrap, topic) as consumer,
        Producer(bootstrap, transactional_id=topic) as producer,
        pytest.raises(InvalidArgument, match=r"delivery='at_least_once'.* accepted: .*delivery='exactly_once'"),
    ):
        producer.transaction(consumer)


def test_a_callback_that_only_counts_does_not_hide_a_failure(own: Broker) -> None:
    counted: list[object] = []
    producer = Producer(own.bootstrap, linger=0)
    producer.send("orders", "first").result(10)
    with own.faults.on(Api.PRODUCE, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED):
        producer.send("orders", "x").add_done_callback(lambda future: counted.append(1))
        with pytest.raises(DeliveryFailed, match="orders"):
            producer.close()
    assert counted == [1]


def test_a_hundred_failures_somebody_looked_at_do_not_hide_the_next(own: Broker) -> None:
    producer = Producer(own.bootstrap, linger=0)
    producer.send("orders", "first").result(10)
    with own.faults.on(Api.PRODUCE, error=ErrorCode.MESSAGE_TOO_LARGE):
        futures = [producer.send("orders", "seen") for _ in range(150)]
        until(lambda: all(future.done() for future in futures))
        for future in futures:
            assert isinstance(future.exception(10), DeliveryFailed)
        unseen = producer.send("orders", "unseen")
        until(unseen.done)
        with pytest.raises(DeliveryFailed, match="orders"):
            producer.close()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, ValueError])
def test_a_delivery_callback_that_raises_stops_no_other_delivery(bootstrap: str, topic: str, error: type[BaseException]) -> None:
    def raises(future: object) -> None:
        raise error

    with Producer(bootstrap, linger=0) as producer:
        producer.send(topic, "a").add_done_callback(raises)
        assert producer.send(topic, "b").result(10).offset == 1
        assert len(producer.send_many(topic, ["c", "d"]).result(10)) == 2


def test_a_failure_of_an_async_producer_that_nobody_looks_at_comes_out_of_its_end(own: Broker) -> None:
    async def run() -> None:
        async with AsyncProducer(own.bootstrap, linger=0) as producer:
            await producer.send("orders", "first")
            own.faults.on(Api.PRODUCE, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            await producer.enqueue("orders", "x")

    with pytest.raises(DeliveryFailed, match="orders"):
        asyncio.run(run())


def test_a_record_sent_while_another_thread_closes_is_delivered_or_refused(own: Broker) -> None:
    producer = Producer(own.bootstrap, linger=0)
    checked, closed = threading.Event(), threading.Event()
    outbox = outbox_of(producer)
    real = outbox.check_sendable

    def check_and_wait(topic: str) -> None:
        real(topic)
        checked.set()
        closed.wait(10)

    outbox.check_sendable = check_and_wait  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(producer.send, "orders", "x")
        checked.wait(10)
        producer.close()
        closed.set()
        with pytest.raises(Closed):
            sending.result(10)
    assert len(outbox.client) == 0


PROCESS = """
import os, sys, time
from headrace import Closed, Consumer, Producer

bootstrap, how = sys.argv[1:]
producer = Producer(bootstrap, linger=0.5)
if how == "fork":
    producer.send("t", "before").result(10)
    consumer = Consumer("t", bootstrap=bootstrap, group="g")
    child = os.fork()
    if child == 0:
        for call in (lambda: producer.send("t", "x"), lambda: producer.flush(1), lambda: consumer.poll(1)):
            try:
                call()
            except Closed as error:
                print("child:", error)
        sys.exit(0)
    print("child left with", os.waitpid(child, 0)[1])
    producer.send("t", "after").result(10)
    consumer.close()
elif how == "forgotten":
    Producer(bootstrap, linger=0.5).send("t", "x")
else:
    producer.send("t", "x")
if how == "error":
    raise RuntimeError("on the way out")
if how == "exit":
    sys.exit(3)
"""


def run_process(bootstrap: str, how: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROCESS, bootstrap, how], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("how", ["end", "exit", "error", "forgotten"])
def test_a_process_that_ends_without_a_close_still_delivers(own: Broker, how: str) -> None:
    done = run_process(own.bootstrap, how)

    with Consumer("t", bootstrap=own.bootstrap) as consumer:
        assert [record.value for record in consumer.to_end()] == [b"x"]
    assert done.returncode == {"exit": 3, "error": 1}.get(how, 0)


def test_a_process_that_ends_without_a_close_says_what_is_lost() -> None:
    started = time.monotonic()
    done = run_process("127.0.0.1:1", "end")

    assert "a record for topic 't' was not written: no broker answers at 127.0.0.1:1 (Connection refused)" in done.stderr
    assert time.monotonic() - started < 20


def test_after_a_fork_the_child_is_told_to_open_its_own(own: Broker) -> None:
    done = run_process(own.bootstrap, "fork")

    assert done.stdout.count("child: this producer was opened before a fork") == 2
    assert "child: this consumer was opened before a fork" in done.stdout
    assert "child left with 0" in done.stdout
    with Consumer("t", bootstrap=own.bootstrap) as consumer:
        assert [record.value for record in consumer.to_end()] == [b"before", b"after"]
