"""Task frameworks on a queue: tasks run, are put off, are tried again, and come again when their worker dies."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Consumer
from headrace.testing import Broker
from tests.support.waiting import until

dramatiq = pytest.importorskip("dramatiq", reason="dramatiq is not installed: pip install headrace[dramatiq]")
taskiq = pytest.importorskip("taskiq", reason="taskiq is not installed: pip install headrace[taskiq]")

FEW = {"share.coordinator.state.topic.num.partitions": "2", "offsets.topic.num.partitions": "2"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=FEW) as broker:
        yield broker


def test_dramatiq_runs_tasks_puts_them_off_and_sets_aside_what_fails(broker: Broker) -> None:
    from headrace.client.backends.dramatiq import HeadraceBroker

    tasks = HeadraceBroker(bootstrap=broker.bootstrap, group="d")
    ran: list[Any] = []

    @dramatiq.actor(broker=tasks, max_retries=0)  # type: ignore[untyped-decorator]
    def add(first: int, second: int) -> None:
        ran.append(first + second)

    @dramatiq.actor(broker=tasks, max_retries=1, min_backoff=10, max_backoff=20)  # type: ignore[untyped-decorator]
    def fail() -> None:
        ran.append("failed")
        raise ValueError("always")

    worker = dramatiq.Worker(tasks, worker_timeout=100, worker_threads=2)
    worker.start()
    add.send(1, 2)
    add.send_with_options(args=(3, 4), delay=3_600_000)
    fail.send()
    until(lambda: sorted(map(str, ran)) == ["3", "failed", "failed"], "both ran, one of them twice")
    until(lambda: tasks._all.shared("default").depth().dead == 1, "what failed is set aside")
    broker.clock.advance(hours=1, seconds=1)
    until(lambda: 7 in ran, "what was put off ran")
    worker.stop()
    tasks.close()

    with Consumer("dlq.dramatiq.default", bootstrap=broker.bootstrap) as consumer:
        (letter,) = list(consumer.to_end())
    assert b"ValueError" in (letter.header("headrace-dead-letter-reason") or b"")


def test_taskiq_runs_tasks_and_one_that_was_not_acknowledged_comes_again(broker: Broker) -> None:
    from headrace.client.backends.taskiq import HeadraceBroker

    async def story() -> list[bytes]:
        sender = HeadraceBroker("tasks", bootstrap=broker.bootstrap)

        @sender.task(task_name="add")  # type: ignore[untyped-decorator]
        async def add(first: int, second: int) -> int:
            return first + second

        await sender.startup()
        await add.kiq(1, 2)
        await add.kicker().with_labels(delay=3600).kiq(3, 4)
        lost = HeadraceBroker("tasks", bootstrap=broker.bootstrap)
        found = [await anext(lost.listen())]
        await lost.shutdown()
        worker = HeadraceBroker("tasks", bootstrap=broker.bootstrap)
        listening = worker.listen()
        for count in (1, 2):
            message = await anext(listening)
            found.append(message)
            message.ack()
            if count == 1:
                broker.clock.advance(hours=1, seconds=1)
        await worker.shutdown()
        await sender.shutdown()
        return [each.data for each in found]

    first, again, later = asyncio.run(story())
    assert first == again
    assert b'"args":[1,2]' in first.replace(b" ", b"")
    assert b'"args":[3,4]' in later.replace(b" ", b"")
