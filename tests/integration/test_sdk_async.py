"""The asyncio forms: the same, and nothing blocks the loop."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from headrace import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    BrokerTimeout,
    BufferFull,
    Closed,
    DeadLetters,
    DeliveryTimeout,
    InvalidArgument,
    Record,
    Reject,
    RoundRobin,
    TopicPartition,
)
from headrace.client.deadletter import redrive
from headrace.testing import Api, Broker
from tests.support.waiting import until_async

NOWHERE = "127.0.0.1:1"


def run(main: Coroutine[Any, Any, None]) -> None:
    async def timed() -> None:
        await asyncio.wait_for(main, 60)

    asyncio.run(timed())


async def send(bootstrap: str, topic: str, values: list[str], keys: list[str] | None = None) -> None:
    async with AsyncProducer(bootstrap) as producer:
        await producer.send_many(topic, values, keys=keys)


def committed(bootstrap: str, topic: str) -> Callable[[], Awaitable[int]]:
    async def ask() -> int:
        async with AsyncAdmin(bootstrap) as admin:
            return sum((await admin.committed(topic)).values())

    return ask


def test_records_are_sent_and_read(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with AsyncProducer(bootstrap, values="json") as producer:
            delivery = await producer.send(topic, {"n": 0}, key="k", headers={"a": "b"})
            assert (delivery.topic, delivery.offset) == (topic, 0)
            many = await asyncio.gather(*(producer.send(topic, {"n": number}) for number in range(1, 500)))
            assert sorted(each.offset or 0 for each in many) == list(range(1, 500))
            assert len(await producer.send_many(topic, [{"n": number} for number in range(500, 600)])) == 100
        async with AsyncConsumer[bytes, Any](topic, bootstrap=bootstrap, group=topic, values="json") as consumer:
            seen = []
            async for record in consumer:
                seen.append(record.value["n"])
                if len(seen) == 600:
                    break
            assert seen == list(range(600))
        assert await committed(bootstrap, topic)() == 600

    run(main())


def test_the_loop_turns_while_records_are_waited_for(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        await send(bootstrap, topic, ["x"])
        gaps: list[float] = []

        async def heartbeat() -> None:
            last = time.perf_counter()
            while True:
                await asyncio.sleep(0.01)
                gaps.append(time.perf_counter() - last)
                last = time.perf_counter()

        beating = asyncio.create_task(heartbeat())
        async with AsyncConsumer(topic, bootstrap=bootstrap, group=topic) as consumer, AsyncProducer(bootstrap) as producer:
            assert await consumer.poll(20) is not None
            assert await consumer.poll(1) is None
            await producer.send(topic, "y")
            await consumer.commit()
            await consumer.lag()
        beating.cancel()
        assert len(gaps) > 50
        # A blocking poll would be a gap of its whole time-out.
        assert sorted(gaps)[int(len(gaps) * 0.95)] < 0.1

    run(main())


def test_a_cancelled_read_loses_nothing(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with (
            AsyncConsumer[bytes, str](topic, bootstrap=bootstrap, group=topic, values=str) as consumer,
            AsyncProducer(bootstrap, linger=0) as producer,
        ):
            await producer.send(topic, "0")
            seen = [(await consumer.poll(20)).value]  # type: ignore[union-attr]
            sending = asyncio.create_task(trickle(producer))
            while len(seen) < 100:
                try:
                    record = await asyncio.wait_for(consumer.poll(1), 0.003)
                except TimeoutError:
                    continue
                if record is not None:
                    seen.append(record.value)
            await sending
        assert seen == [str(number) for number in range(100)]

    async def trickle(producer: AsyncProducer) -> None:
        for number in range(1, 100):
            await producer.send(topic, str(number))

    run(main())


def test_a_full_buffer_makes_the_sender_wait_in_order(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with AsyncProducer(bootstrap, buffer_messages=20, linger=0.001) as producer:
            futures = [await producer.enqueue(topic, str(number)) for number in range(1000)]
            await producer.send_many(topic, [str(number) for number in range(1000, 2000)])
            assert [(await future).offset for future in futures] == list(range(1000))
        async with AsyncConsumer[bytes, str](topic, bootstrap=bootstrap, values=str) as consumer:
            assert [record.value for record in await consumer.batch(2000, 10)] == [str(number) for number in range(2000)]

    run(main())


def test_a_full_buffer_raises_when_asked_to(topic: str) -> None:
    async def main() -> None:
        producer = AsyncProducer("127.0.0.1:1", buffer_messages=1, when_full="raise", delivery_timeout=0.5)
        waiting = await producer.enqueue(topic, "x")
        with pytest.raises(BufferFull):
            await producer.enqueue(topic, "y")
        with pytest.raises(DeliveryTimeout, match=r"127\.0\.0\.1:1"):
            await waiting
        await producer.close()
        await producer.close()
        with pytest.raises(Closed):
            await producer.send(topic, "z")

    run(main())


def test_a_partitioner_in_python_does_not_block_the_loop(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with AsyncAdmin(bootstrap) as admin:
            await admin.create_topic(topic, partitions=3)
        async with AsyncProducer(bootstrap, partitioner=RoundRobin()) as producer:
            deliveries = await asyncio.gather(*(producer.send(topic, "x") for _ in range(9)))
        assert sorted(delivery.partition for delivery in deliveries) == [0, 0, 0, 1, 1, 1, 2, 2, 2]

    run(main())


@pytest.mark.parametrize(
    ("partition", "accepted"), [(3, "0 to 2"), (-1, "a whole number of at least 0"), ("one", "a whole number")]
)
def test_a_partition_that_is_not_there_is_named(bootstrap: str, topic: str, partition: Any, accepted: str) -> None:
    async def main() -> None:
        async with AsyncAdmin(bootstrap) as admin:
            await admin.create_topic(topic, partitions=3)
        async with AsyncProducer(bootstrap) as producer:
            with pytest.raises(InvalidArgument, match=f"partition={partition!r} is not accepted.*; accepted: {accepted}"):
                await producer.send(topic, "x", partition=partition)

    run(main())


def test_transactions_carry_offsets(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        source, target = f"{topic}-in", f"{topic}-out"
        await send(bootstrap, source, [str(number) for number in range(10)])
        failed = False
        async with (
            AsyncConsumer[bytes, str](source, bootstrap=bootstrap, group=topic, values=str, delivery="exactly_once") as consumer,
            AsyncProducer(bootstrap, transactional_id=topic) as producer,
        ):
            while batch := await consumer.batch(4, 2):
                try:
                    async with producer.transaction(consumer) as transaction:
                        for record in batch:
                            await transaction.send(target, record.value)
                        if not failed:
                            failed = True
                            raise RuntimeError("once")
                except RuntimeError:
                    continue
        async with AsyncConsumer[bytes, str](target, bootstrap=bootstrap, values=str) as consumer:
            assert [record.value for record in await consumer.batch(20, 2)] == [str(number) for number in range(10)]

    run(main())


@pytest.mark.parametrize("api", [Api.INIT_PRODUCER_ID, Api.END_TXN])
def test_a_transaction_cancelled_while_it_begins_or_commits_leaves_room_for_the_next(topic: str, api: Api) -> None:
    async def main(broker: Broker) -> None:
        async with AsyncProducer(broker.bootstrap, transactional_id=topic, linger=0) as producer:

            async def one(value: str) -> None:
                async with producer.transaction() as transaction:
                    await transaction.send(topic, value)

            with broker.faults.on(api, delay=0.3, times=1) as slow:
                task = asyncio.create_task(one("first"))
                assert await asyncio.to_thread(slow.wait)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await one("second")
        async with AsyncConsumer[bytes, str](topic, bootstrap=broker.bootstrap, values=str) as consumer:
            seen = [record.value for record in await consumer.batch(5, 1)]
        assert seen == (["second"] if api is Api.INIT_PRODUCER_ID else ["first", "second"])

    with Broker() as own:
        run(main(own))


def test_push_runs_coroutines_beside_each_other_and_in_order_per_key(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        await send(bootstrap, topic, [str(number) for number in range(200)], keys=[f"k{number % 5}" for number in range(200)])
        seen: dict[str, list[int]] = defaultdict(list)
        most, running = 0, 0

        async def handle(record: Record[str, str]) -> None:
            nonlocal most, running
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.002)
            seen[record.key].append(int(record.value))
            running -= 1

        async with (
            AsyncConsumer[str, str](topic, bootstrap=bootstrap, group=topic, keys=str, values=str) as consumer,
            consumer.on_message(handle, workers=5),
        ):
            await until_async(lambda: done(seen, 200))
        assert all(seen[f"k{key}"] == list(range(key, 200, 5)) for key in range(5))
        assert most == 5
        assert await committed(bootstrap, topic)() == 200

    async def done(seen: dict[str, list[int]], count: int) -> bool:
        return sum(map(len, seen.values())) == count

    run(main())


def test_push_tries_again_and_parks(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        await send(bootstrap, topic, ["good", "flaky", "bad"], keys=["a", "b", "c"])
        attempts: dict[str, int] = defaultdict(int)

        async def handle(record: Record[bytes, str]) -> None:
            attempts[record.value] += 1
            if record.value == "bad":
                raise Reject("never")
            if record.value == "flaky" and attempts["flaky"] < 3:
                raise OSError("not yet")

        async with (
            AsyncConsumer[bytes, str](topic, bootstrap=bootstrap, group=topic, values=str, commit_interval=0.1) as consumer,
            consumer.on_message(handle, workers=2, dead_letters=DeadLetters(backoff=0.05)),
        ):
            await until_async(all_committed)
        assert attempts == {"good": 1, "flaky": 3, "bad": 1}

    async def all_committed() -> bool:
        return await committed(bootstrap, topic)() == 3

    run(main())
    (letter,) = redrive.parked(bootstrap, f"{topic}.dead-letter")
    assert (letter.cause, letter.record.raw_value) == ("rejected", b"bad")


def test_a_stop_waits_for_what_is_being_parked(topic: str) -> None:
    async def main(broker: Broker) -> None:
        await send(broker.bootstrap, topic, ["bad"])

        async def handle(record: Record[bytes, str]) -> None:
            raise Reject("never")

        with broker.faults.on(Api.PRODUCE, delay=0.3) as slow:
            async with (
                AsyncConsumer[bytes, str](topic, bootstrap=broker.bootstrap, group=topic, values=str) as consumer,
                consumer.on_message(handle, dead_letters=DeadLetters()),
            ):
                assert await asyncio.to_thread(slow.wait)
        assert await committed(broker.bootstrap, topic)() == 1

    with Broker() as own:
        run(main(own))


def test_a_coroutine_that_raises_ends_the_push_with_its_error(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        await send(bootstrap, topic, ["x"])

        async def handle(record: Record[bytes, bytes]) -> None:
            raise ValueError("mine")

        async with AsyncConsumer(topic, bootstrap=bootstrap, group=topic) as consumer:
            with pytest.raises(ValueError, match="mine"):
                await consumer.on_message(handle).wait()

    run(main())
    with Admin(bootstrap) as admin:
        assert admin.committed(topic) == {}


def test_a_callback_may_close_its_consumer(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        await send(bootstrap, topic, ["x"])
        consumer = AsyncConsumer[bytes, bytes](topic, bootstrap=bootstrap, group=topic)

        async def handle(_record: Record[bytes, bytes]) -> None:
            await consumer.close()

        await consumer.on_message(handle).wait()
        await consumer.close()
        with pytest.raises(Closed):
            await consumer.lag()

    run(main())


def test_push_wants_a_coroutine_function(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with AsyncConsumer(topic, bootstrap=bootstrap, group=topic) as consumer:
            with pytest.raises(InvalidArgument, match="an async function"):
                consumer.on_message(print)  # type: ignore[arg-type]

    run(main())


def test_seek_pause_and_the_rest_are_there(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        place = TopicPartition(topic, 0)
        await send(bootstrap, topic, [str(number) for number in range(10)])
        async with AsyncConsumer[bytes, str](topic, bootstrap=bootstrap, group=topic, values=str) as consumer:
            assert len(await consumer.batch(10, 10)) == 10
            await consumer.seek(place, 8)
            assert [record.value for record in await consumer.batch(5, 2)] == ["8", "9"]
            await consumer.rewind()
            assert (await consumer.poll(10)).value == "0"  # type: ignore[union-attr]
            assert consumer.positions() == {place: 1}
            assert consumer.assignment == [place]
            assert await consumer.lag() == {place: 9}
            await consumer.pause()
            await consumer.resume()
            await consumer.commit()
            assert await consumer.committed() == {place: 1}
        async with AsyncAdmin(bootstrap) as admin:
            assert await admin.lag(topic) == {place: 9}
            assert topic in await admin.topics()
            assert (await admin.topic(topic)).name == topic
            assert await admin.offsets(topic) == {0: 10}
            assert await admin.reset_offsets(topic, topic, "latest") == {0: 10}
            assert topic in await admin.groups()
            assert (await admin.group(topic)).name == topic
            assert (await admin.cluster()).brokers
            await admin.change_settings(topic, {"retention.ms": 1000_000})
            assert (await admin.settings(topic))["retention.ms"].value == "1000000"
            await admin.add_partitions(topic, 2)
            assert await admin.delete_records(topic, {0: 3}) == {0: 3}
            await admin.set_offsets(topic, {place: 4})
            await admin.delete_group(topic)
            await admin.delete_topic(topic)

    run(main())


@pytest.mark.parametrize(
    "use",
    [
        lambda: AsyncProducer(NOWHERE, delivery_timeout=0.5, linger=0).send("t", "x"),
        lambda: AsyncConsumer("t", bootstrap=NOWHERE, group="g", timeout=0.5).poll(30),
        lambda: AsyncConsumer("t", bootstrap=NOWHERE, timeout=0.5).poll(30),
        lambda: AsyncAdmin(NOWHERE, timeout=0.5).topics(),
    ],
)
def test_a_broker_that_is_away_is_a_time_out_with_its_address(use: Any) -> None:
    async def main() -> None:
        await use()

    with pytest.raises(BrokerTimeout, match=NOWHERE):
        asyncio.run(main())


def test_closing_twice_is_nothing_and_use_after_it_is_refused(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        producer, consumer = AsyncProducer(bootstrap), AsyncConsumer[bytes, bytes](topic, bootstrap=bootstrap, group=topic)
        for each in (producer, consumer):
            await each.close()
            await each.close()

        with pytest.raises(Closed, match="this producer is closed"):
            await producer.send(topic, "x")
        with pytest.raises(Closed, match="this consumer is closed"):
            await consumer.poll(1)
        with pytest.raises(Closed, match="this consumer is closed"):
            async for _ in consumer:
                pass
        with pytest.raises(Closed, match="this consumer is closed"):
            async for _ in consumer.batches(10):
                pass

    asyncio.run(main())


def test_a_loop_that_is_blocked_for_longer_than_the_poll_interval_does_not_cost_the_membership(broker: Any, topic: str) -> None:
    bootstrap: str = broker.bootstrap  # ours, which allows so short a session
    lost: list[Any] = []
    limits = {"max.poll.interval.ms": 2500}

    async def main() -> None:
        async with AsyncProducer(bootstrap) as producer:
            await producer.send_many(topic, ["a", "b", "c"])
        async with AsyncConsumer[bytes, str](
            topic, bootstrap=bootstrap, group=topic, values=str, session_timeout=2, on_revoked=lost.append, librdkafka=limits
        ) as consumer:
            first = await consumer.poll(10)
            time.sleep(4)  # noqa: ASYNC251 - somebody's code that computes
            rest = await consumer.batch(2, 10)

            assert first is not None
            assert [first.value, *(record.value for record in rest)] == ["a", "b", "c"]
            assert lost == []

    asyncio.run(main())
