"""The SDK's queue on a real broker: jobs are worked off, tried again, set aside, and never lost with their workers."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import IO

import pytest

from headrace import Admin, AsyncQueue, Consumer, InvalidArgument, Job, Queue, Reject, WrongState
from headrace.testing import Broker
from tests.support.waiting import until

SHORT = {
    "group.share.min.record.lock.duration.ms": "100",
    "share.coordinator.state.topic.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
}
Open = Callable[..., Queue[bytes, str]]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SHORT) as broker:
        yield broker


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)[:100]


@pytest.fixture
def opened(broker: Broker, topic: str) -> Open:
    def open_queue(group: str = topic, **more: object) -> Queue[bytes, str]:
        return Queue(topic, group=group, bootstrap=broker.bootstrap, values=str, **more)  # type: ignore[arg-type]

    return open_queue


def letters(broker: Broker, topic: str) -> list[tuple[str | None, dict[str, bytes | None]]]:
    with Consumer(f"dlq.{topic}", bootstrap=broker.bootstrap, values=str) as consumer:
        return [(record.value, dict(record.headers)) for record in consumer.to_end()]


def test_what_was_put_before_the_first_worker_came_is_worked_off_once(broker: Broker, opened: Open) -> None:
    with opened() as queue:
        queue.put("a")
        assert queue.put_many(["b", "c"]) == 2
        worked = [(job.value, job.attempt) for job in queue.jobs(timeout=1)]
    with opened() as queue:
        assert list(queue.jobs(timeout=0.3)) == []
    assert worked == [("a", 1), ("b", 1), ("c", 1)]


def test_a_loop_that_is_left_has_done_its_last_job_and_gives_the_rest_back_uncounted(opened: Open) -> None:
    with opened(prefetch=10) as queue:
        queue.put_many(["a", "b", "c"])
        for job in queue:
            if job.value == "b":
                break
    with opened() as queue:
        assert [(job.value, job.attempt) for job in queue.jobs(timeout=0.5)] == [("c", 1)]


def fail_with_the_first(queue: Queue[bytes, str]) -> None:
    with queue:
        queue.put("a")
        for _ in queue:
            raise ZeroDivisionError


def test_an_exception_that_leaves_the_queue_releases_the_job(opened: Open) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_with_the_first(opened())
    with opened() as queue:
        assert [(job.value, job.attempt) for job in queue.jobs(timeout=0.5)] == [("a", 2)]


def test_jobs_that_fail_come_again_and_those_that_are_rejected_are_set_aside_with_the_reason(
    broker: Broker, topic: str, opened: Open
) -> None:
    worked = []
    with opened(attempts=3, backoff=timedelta(milliseconds=20)) as queue:
        queue.put_many(["fails twice", "fails always", "bad"])
        for job in queue.jobs(timeout=1):
            worked.append((job.value, job.attempt))
            with job:
                if job.value == "bad":
                    raise Reject("it is not JSON")
                if job.value == "fails always" or job.attempt < 3:
                    raise ValueError("once more")
        depth = queue.depth()
    found = letters(broker, topic)

    assert sorted(worked) == [
        ("bad", 1),
        *(("fails always", attempt) for attempt in (1, 2, 3)),
        *(("fails twice", attempt) for attempt in (1, 2, 3)),
    ]
    reasons = {value: headers["headrace-dead-letter-reason"] for value, headers in found}
    assert reasons == {"bad": b"it is not JSON", "fails always": b"Offset delivery count exceeded the threshold."}
    assert all(headers["headrace-dead-letter-first-delivered-at"] for _, headers in found)
    assert (depth.unfinished, depth.dead, depth.oldest) == (0, 2, None)


def test_a_lock_is_renewed_for_as_long_as_somebody_works(opened: Open) -> None:
    with opened(lock=1) as queue, opened() as other:
        queue.put("slow")
        (job,) = queue.take_many(1, timeout=5)
        assert other.take(timeout=2.5) is None
        job.done()
    with opened() as queue:
        assert list(queue.jobs(timeout=0.3)) == []


def test_a_job_that_nobody_began_with_is_given_back_before_its_lock_runs_out(opened: Open) -> None:
    with opened(lock=1, prefetch=10) as greedy, opened() as other:
        greedy.put_many(["a", "b"])
        first = greedy.take(timeout=5)
        second = other.take(timeout=5)
        assert first is not None
        assert second is not None
        assert (first.value, second.value) == ("a", "b")


def test_handlers_run_beside_each_other_and_an_exception_of_one_stops_nobody(opened: Open) -> None:
    together = threading.Barrier(3)
    worked: list[str] = []

    def handler(job: Job[bytes, str]) -> None:
        if job.attempt == 1:
            together.wait(10)
            if job.value == "a":
                raise ValueError("once more")
        worked.append(job.value)
        if len(worked) == 3:
            queue.stop()

    with opened() as queue:
        queue.put_many(["a", "b", "c"])
        queue.work(handler, workers=3)
    assert sorted(worked) == ["a", "b", "c"]


def test_work_ends_when_no_job_has_come_for_a_while(opened: Open) -> None:
    worked: list[str] = []
    with opened() as queue:
        queue.put_many(["a", "b"])
        queue.work(lambda job: worked.append(job.value), workers=2, idle=0.5)
    assert sorted(worked) == ["a", "b"]


def test_delayed_jobs_wait_and_old_ones_are_passed_over(broker: Broker, opened: Open) -> None:
    with opened() as queue:
        queue.put("later", delay=3600, key=b"k")
        queue.put("cancelled", delay=3600, key=b"c")
        queue.cancel(b"c")
        queue.put("old", ttl=0.001)
        queue.put("now")
        until(lambda: queue.depth().delayed == 1, "one waits")
        assert [job.value for job in queue.jobs(timeout=0.5)] == ["now"]
        broker.clock.advance(3601)
        assert [job.value for job in queue.jobs(timeout=1)] == ["later"]


def test_a_delay_is_refused_where_the_topic_has_none(broker: Broker, topic: str, opened: Open) -> None:
    with Admin(broker.bootstrap) as admin:
        admin.create_topic(topic)
    with opened() as queue, pytest.raises(WrongState, match=r"headrace.delay.enable=true` switches them on"):
        queue.put("a", delay=1)


def test_the_depth_tells_what_is_ready_in_flight_and_resting(opened: Open) -> None:
    with opened(backoff=60) as queue:
        queue.put_many(["a", "b", "c"])
        assert queue.depth().ready == 3
        first, second = queue.take(timeout=5), queue.take(timeout=5)
        assert first is not None
        assert second is not None
        first.release()
        until(lambda: queue.depth().resting == 1, "one rests")
        depth = queue.depth()
        assert (depth.ready, depth.in_flight, depth.unfinished) == (1, 1, 3)
        assert depth.oldest is not None


def test_what_cannot_be_read_is_set_aside_and_the_rest_goes_on(broker: Broker, topic: str, opened: Open) -> None:
    with Queue(topic, bootstrap=broker.bootstrap) as raw:
        raw.put_many([b"\xff", b"fine"])
    with opened() as queue:
        assert [job.value for job in queue.jobs(timeout=0.5)] == ["fine"]
    ((_, headers),) = _raw_letters(broker, topic)
    assert b"could not be read as str" in (headers["headrace-dead-letter-reason"] or b"")


def _raw_letters(broker: Broker, topic: str) -> list[tuple[bytes | None, dict[str, bytes | None]]]:
    with Consumer(f"dlq.{topic}", bootstrap=broker.bootstrap) as consumer:
        return [(record.value, dict(record.headers)) for record in consumer.to_end()]


def test_a_job_ends_once(opened: Open) -> None:
    with opened() as queue:
        queue.put("a")
        job = queue.take(timeout=5)
        assert job is not None
        job.done()
        with pytest.raises(WrongState, match="is over"):
            job.release()


def test_a_queue_without_a_group_takes_and_gives_nothing_out(broker: Broker, topic: str) -> None:
    with Queue(topic, bootstrap=broker.bootstrap) as queue:
        queue.put(b"a")
        with pytest.raises(WrongState, match=r"needs a group"):
            queue.take()
    with pytest.raises(InvalidArgument, match=r"attempts=0"):
        Queue(topic, group="g", attempts=0)


def test_with_asyncio_it_is_the_same(broker: Broker, topic: str) -> None:
    async def story() -> list[str]:
        worked = []
        async with AsyncQueue(topic, group=topic, bootstrap=broker.bootstrap, values=str) as queue:
            await queue.put("a")
            await queue.put_many(["b", "c"])
            async for job in queue.jobs(timeout=1):
                worked.append(job.value)
                if job.value == "b":
                    break

            async def handler(job: Job[bytes, str]) -> None:
                if job.attempt < 3:
                    raise ValueError("once more")
                worked.append(f"{job.value} {job.attempt}")
                queue.stop()

            await queue.work(handler, workers=2)
            while (await queue.depth()).unfinished:  # its word may be on its way
                pass
        return worked

    assert asyncio.run(story()) == ["a", "b", "c 3"]


def started(broker: Broker, topic: str, seconds: float) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.integration.queue_worker", broker.bootstrap, topic, topic, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def lines(stream: "IO[str] | None") -> Iterator[str]:
    assert stream is not None
    return (line.strip() for line in stream)


def test_sigterm_ends_a_worker_after_the_job_in_hand_and_kill_9_loses_none(broker: Broker, topic: str, opened: Open) -> None:
    with opened() as queue:
        queue.put_many(["a", "b", "c"])
        with started(broker, topic, 0.3) as polite:
            told = lines(polite.stdout)
            assert next(told) == "begun a 1"
            polite.send_signal(signal.SIGTERM)
            assert list(told) == ["done a", "ended"]
        assert polite.returncode == 0

        with started(broker, topic, 60) as killed:
            assert next(lines(killed.stdout)) == "begun b 1"
            killed.kill()
        assert [(job.value, job.attempt) for job in queue.jobs(timeout=1)] == [("b", 2), ("c", 1)]
