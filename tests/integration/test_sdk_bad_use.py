"""Bad use and bad luck: nothing hangs, and the error says what and where."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from headrace import (
    Admin,
    BrokerTimeout,
    Closed,
    Consumer,
    DeliveryFailed,
    DeliveryTimeout,
    Producer,
    TopicPartition,
    WrongState,
)
from headrace.client.producer.transaction import Transactions
from tests.support.waiting import until

NOWHERE = "127.0.0.1:1"


def test_closing_twice_is_nothing(bootstrap: str, topic: str) -> None:
    producer, consumer, admin = Producer(bootstrap), Consumer(topic, bootstrap=bootstrap, group=topic), Admin(bootstrap)
    for each in (producer, consumer, admin):
        each.close()
        each.close()


@pytest.mark.parametrize(
    "use",
    [
        lambda producer, topic: producer.send(topic, "x"),
        lambda producer, topic: producer.send_many(topic, ["x"]),
        lambda producer, topic: producer.flush(),
        lambda producer, topic: producer.__enter__(),
    ],
)
def test_a_closed_producer_says_so(bootstrap: str, topic: str, use: Any) -> None:
    producer = Producer(bootstrap)
    producer.close()

    with pytest.raises(Closed, match="this producer is closed"):
        use(producer, topic)


@pytest.mark.parametrize(
    "use",
    [
        lambda consumer: consumer.poll(0),
        lambda consumer: consumer.batch(1),
        lambda consumer: iter(consumer),
        lambda consumer: consumer.records(timeout=1),
        lambda consumer: consumer.batches(10),
        lambda consumer: next(consumer.to_end()),
        lambda consumer: consumer.commit(),
        lambda consumer: consumer.lag(),
        lambda consumer: consumer.seek(TopicPartition("t", 0), 1),
        lambda consumer: consumer.on_message(print),
        lambda consumer: consumer.__enter__(),
    ],
)
def test_a_closed_consumer_says_so(bootstrap: str, topic: str, use: Any) -> None:
    consumer = Consumer(topic, bootstrap=bootstrap, group=topic)
    consumer.close()

    with pytest.raises(Closed, match="this consumer is closed"):
        use(consumer)


def test_a_closed_admin_says_so(bootstrap: str) -> None:
    admin = Admin(bootstrap)
    admin.close()

    with pytest.raises(Closed, match="this admin is closed"):
        admin.topics()


def test_what_is_not_acknowledged_when_the_producer_closes_says_so(topic: str) -> None:
    producer = Producer(NOWHERE, delivery_timeout=60)
    future = producer.send(topic, "x")
    begin = time.monotonic()

    with pytest.raises(DeliveryFailed, match=f"given up when the producer closed before {NOWHERE}"):
        producer.close(timeout=0.2)
    with pytest.raises(DeliveryFailed, match=f"given up when the producer closed before {NOWHERE}"):
        future.result(0)
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("send", ["send", "send_many"])
def test_a_delivery_failure_nobody_looked_at_comes_out_of_the_with_block(topic: str, send: str) -> None:
    def forgetful() -> None:
        with Producer(NOWHERE, delivery_timeout=0.5, linger=0) as producer:
            getattr(producer, send)(topic, ["x"] if send == "send_many" else "x")

    with pytest.raises(DeliveryFailed, match=f"was not acknowledged by {NOWHERE} within 0.5 s"):
        forgetful()


def test_a_delivery_failure_somebody_looked_at_does_not_come_again(topic: str) -> None:
    with Producer(NOWHERE, delivery_timeout=0.5, linger=0) as producer:
        assert isinstance(producer.send(topic, "x").exception(10), DeliveryTimeout)


@pytest.mark.parametrize(
    "use",
    [
        lambda: Producer(NOWHERE).send("t", "x").result(0.3),
        lambda: Consumer("t", bootstrap=NOWHERE, group="g", timeout=0.5).poll(30),
        lambda: Consumer("t", bootstrap=NOWHERE, timeout=0.5).poll(30),
        lambda: next(iter(Consumer("t", bootstrap=NOWHERE, group="g", timeout=0.5))),
        lambda: Consumer("t", bootstrap=NOWHERE, group="g", session_timeout=1).commit({TopicPartition("t", 0): 1}),
        lambda: Admin(NOWHERE, timeout=0.5).topics(),
        lambda: Admin(NOWHERE, timeout=0.5).create_topic("t"),
        lambda: Admin(NOWHERE, timeout=0.5).groups(),
    ],
)
def test_a_broker_that_is_away_is_a_time_out_with_its_address(use: Any) -> None:
    begin = time.monotonic()

    with pytest.raises(BrokerTimeout, match=NOWHERE):
        use()

    assert time.monotonic() - begin < 10


def test_a_flush_that_takes_too_long_says_how_many_are_left(topic: str) -> None:
    producer = Producer(NOWHERE, delivery_timeout=60)
    producer.send(topic, "x")

    with pytest.raises(BrokerTimeout, match=f"1 records are not yet acknowledged by {NOWHERE}"):
        producer.flush(0.2)
    with pytest.raises(DeliveryFailed):
        producer.close(0)


def test_a_delivery_callback_that_raises_is_logged_and_stops_nothing(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    def bad(_future: Any) -> None:
        raise RuntimeError("mine")

    with Producer(bootstrap, linger=0) as producer:
        producer.send(topic, "a").add_done_callback(bad)
        assert producer.send(topic, "b").result(10).offset == 1
        producer.flush()

    assert "mine" in caplog.text


def test_a_delivery_callback_that_would_wait_for_itself_is_told_so(bootstrap: str, topic: str) -> None:
    caught: list[BaseException] = []

    with Producer(bootstrap, linger=0) as producer:

        def waits(_future: Any) -> None:
            try:
                producer.send(topic, "b").result()
            except WrongState as error:
                caught.append(error)

        producer.send(topic, "a").add_done_callback(waits)
        until(lambda: caught)

    assert "cannot wait for another delivery" in str(caught[0])


@pytest.mark.parametrize("call", ["flush", "close"])
def test_a_delivery_callback_cannot_flush_or_close_its_producer(bootstrap: str, topic: str, call: str) -> None:
    said: SimpleQueue[str] = SimpleQueue()

    def callback(_future: Any) -> None:
        try:
            getattr(producer, call)()
        except WrongState as error:
            said.put(str(error))

    with Producer(bootstrap, linger=0) as producer:
        producer.send(topic, "x").add_done_callback(callback)

        assert "a delivery callback cannot" in said.get(timeout=20)


def test_a_rebalance_callback_that_raises_comes_out_of_the_read(bootstrap: str, topic: str) -> None:
    def bad(_partitions: Any) -> None:
        raise RuntimeError("mine")

    with Producer(bootstrap) as producer:
        producer.send(topic, "x")
    with Consumer(topic, bootstrap=bootstrap, group=topic, on_assigned=bad) as consumer:
        with pytest.raises(RuntimeError, match="mine"):
            consumer.poll(20)
        record = consumer.poll(20)

    assert record is not None


def test_closing_from_another_thread_ends_the_loop(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic(topic)
    consumer = Consumer(topic, bootstrap=bootstrap, group=topic)
    threading.Timer(1.0, consumer.close).start()
    begin = time.monotonic()

    assert list(consumer) == []
    assert time.monotonic() - begin < 15


def test_closing_inside_a_rebalance_callback_ends_the_loop(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send(topic, "x")
    with Consumer(topic, bootstrap=bootstrap, group=topic, on_assigned=lambda _partitions: consumer.close()) as consumer:
        assert list(consumer) == []


def test_another_thread_gets_its_turn_while_one_reads(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send_many(topic, ["x"] * 10)
    with Consumer(topic, bootstrap=bootstrap, group=topic, commit_interval=100) as consumer:
        reading = threading.Thread(target=lambda: list(consumer.records(timeout=4)))
        reading.start()
        until(consumer.positions)
        begin = time.monotonic()
        consumer.commit()
        assert consumer.lag() == {TopicPartition(topic, 0): 0}

        assert time.monotonic() - begin < 2
        reading.join()


def test_a_second_transaction_inside_the_first_is_refused(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, transactional_id=topic) as producer:
        with pytest.raises(WrongState, match="inside 'with producer"):
            producer.send(topic, "x")
        with producer.transaction(), pytest.raises(WrongState, match="already open"), producer.transaction():
            pass


def test_a_transaction_needs_a_transactional_producer(bootstrap: str) -> None:
    with Producer(bootstrap) as producer, pytest.raises(WrongState, match="transactional_id"):
        producer.transaction()


def test_reading_while_pushing_is_refused(bootstrap: str, topic: str) -> None:
    with (
        Consumer(topic, bootstrap=bootstrap, group=topic, missing_topics="wait") as consumer,
        consumer.on_message(print),
        pytest.raises(WrongState, match="on_message"),
    ):
        consumer.poll(0)


def test_commits_need_a_group(bootstrap: str, topic: str) -> None:
    with Consumer(topic, bootstrap=bootstrap) as consumer, pytest.raises(WrongState, match="needs a group"):
        consumer.commit()


def test_ctrl_c_before_the_first_read_has_begun_leaves_a_consumer_that_closes(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    consumer = Consumer(topic, bootstrap=bootstrap, group=topic, missing_topics="wait")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(1)

    consumer.close()


def test_ctrl_c_behind_a_commit_that_succeeded_warns_of_nothing(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def committed_and_interrupted(transactions: Transactions) -> None:
        transactions._client.commit_transaction()
        raise KeyboardInterrupt

    monkeypatch.setattr(Transactions, "commit", committed_and_interrupted)
    with (
        Producer(bootstrap, transactional_id=topic) as producer,
        pytest.raises(KeyboardInterrupt),
        producer.transaction() as transaction,
    ):
        transaction.send(topic, "seen")

    assert [each.message for each in caplog.records if each.levelname == "WARNING"] == []
    with Consumer(topic, bootstrap=bootstrap) as consumer:
        assert [record.value for record in consumer.to_end()] == [b"seen"]


PROGRAMS = {
    "reading": """
        from headrace import Consumer
        with Consumer({topic!r}, bootstrap={bootstrap!r}, group={topic!r}) as consumer:
            print("ready", flush=True)
            for record in consumer:
                pass
    """,
    "sending to nowhere": """
        from headrace import Producer
        with Producer("127.0.0.1:1") as producer:
            producer.send({topic!r}, "x")
            print("ready", flush=True)
            producer.flush()
    """,
    "waiting for one delivery": """
        from headrace import Producer
        with Producer("127.0.0.1:1") as producer:
            future = producer.send({topic!r}, "x")
            print("ready", flush=True)
            future.result()
    """,
    "pushing": """
        import time
        from headrace import Consumer
        with Consumer({topic!r}, bootstrap={bootstrap!r}, group={topic!r}) as consumer:
            with consumer.on_message(lambda record: time.sleep(0.1), workers=4) as subscription:
                print("ready", flush=True)
                subscription.wait()
    """,
    "in a transaction": """
        import time
        from headrace import Producer
        with Producer({bootstrap!r}, transactional_id={topic!r}) as producer:
            with producer.transaction() as transaction:
                transaction.send({topic!r}, "never seen")
                print("ready", flush=True)
                time.sleep(60)
    """,
    "asyncio": """
        import asyncio
        from headrace import AsyncConsumer
        async def main():
            async with AsyncConsumer({topic!r}, bootstrap={bootstrap!r}, group={topic!r}) as consumer:
                print("ready", flush=True)
                async for record in consumer:
                    pass
        asyncio.run(main())
    """,
    "asyncio, sending to nowhere": """
        import asyncio
        from headrace import AsyncProducer
        async def main():
            async with AsyncProducer("127.0.0.1:1") as producer:
                print("ready", flush=True)
                await producer.send({topic!r}, "x")
        asyncio.run(main())
    """,
    "asyncio, pushing": """
        import asyncio
        from headrace import AsyncConsumer
        async def handle(record):
            await asyncio.sleep(0.1)
        async def main():
            async with AsyncConsumer({topic!r}, bootstrap={bootstrap!r}, group={topic!r}) as consumer:
                async with consumer.on_message(handle, workers=4) as subscription:
                    print("ready", flush=True)
                    await subscription.wait()
        asyncio.run(main())
    """,
    "asyncio, in a transaction": """
        import asyncio
        from headrace import AsyncProducer
        async def main():
            async with AsyncProducer({bootstrap!r}, transactional_id={topic!r}) as producer:
                async with producer.transaction() as transaction:
                    await transaction.send({topic!r}, "never seen")
                    print("ready", flush=True)
                    await asyncio.sleep(60)
        asyncio.run(main())
    """,
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_ctrl_c_ends_a_program_within_seconds(bootstrap: str, topic: str, tmp_path: Path, program: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send_many(topic, ["x"] * 20)
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAMS[program]).format(topic=topic, bootstrap=bootstrap))
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()

    assert time.monotonic() - begin < 15
    assert "KeyboardInterrupt" in said
