"""Group commit: one flush under way per partition, and whatever was asked for meanwhile is in the next."""

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from headrace.broker.partitions.flushing import Flusher
from headrace.model.errors import StorageError
from tests.support.waiting import until_async


class FakeLog:
    def __init__(self, *, fails: bool = False, seconds: float = 0.0) -> None:
        self.appended = 0
        self.flushed = 0
        self.syncs = 0
        self.at_once = 0
        self.at_once_max = 0
        self.failure: StorageError | None = None
        self._fails = fails
        self._seconds = seconds
        self._lock = threading.Lock()

    def sync(self) -> int:
        with self._lock:
            self.at_once += 1
            self.at_once_max = max(self.at_once, self.at_once_max)
        time.sleep(self._seconds)
        if self._fails:
            raise StorageError("a disk", "fdatasync")
        reached = self.appended
        with self._lock:
            self.syncs += 1
            self.at_once -= 1
        return reached

    def on_flushed(self, offset: int) -> None:
        self.flushed = offset

    def on_storage_failure(self, error: StorageError) -> None:
        self.failure = error


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_appends_of_one_turn_share_a_flush() -> None:
    async def scenario() -> None:
        flusher, log = Flusher(asyncio.get_running_loop()), FakeLog()
        for _ in range(100):
            log.appended += 1
            flusher.request(log)
        await flusher.drain()

        assert (log.syncs, log.flushed) == (1, 100)

    run(scenario())


def test_what_is_appended_during_a_flush_is_in_the_next_and_never_two_at_once() -> None:
    async def scenario() -> None:
        flusher, log = Flusher(asyncio.get_running_loop()), FakeLog(seconds=0.01)
        for _ in range(30):
            log.appended += 1
            flusher.request(log)
            await until_async(lambda: log.at_once, "a flush is under way")
        await flusher.drain()

        assert log.flushed == 30
        assert log.at_once_max == 1
        assert log.syncs < 30

    run(scenario())


def test_a_failed_flush_is_told_once_and_harms_no_other_partition() -> None:
    async def scenario() -> None:
        flusher = Flusher(asyncio.get_running_loop(), threads=1)
        bad, good = FakeLog(fails=True), FakeLog()
        for log in (bad, good):
            log.appended = 1
            flusher.request(log)
        await flusher.drain()

        assert bad.failure is not None
        assert good.flushed == 1

    run(scenario())


def test_many_partitions_flush_in_few_jobs() -> None:
    async def scenario() -> None:
        flusher = Flusher(asyncio.get_running_loop(), threads=4)
        logs = [FakeLog() for _ in range(200)]
        for log in logs:
            log.appended = 7
            flusher.request(log)
        await flusher.drain()

        assert all(log.flushed == 7 and log.syncs == 1 for log in logs)

    run(scenario())


class Clumsy(FakeLog):
    """Fails over hearing that it is flushed."""

    def on_flushed(self, offset: int) -> None:
        raise ValueError("oh")


def test_a_callback_that_fails_is_reported_and_holds_up_nobody_else() -> None:
    async def scenario() -> None:
        reported: list[str] = []
        flusher = Flusher(asyncio.get_running_loop(), threads=1, report=lambda kind, error: reported.append(f"{kind}: {error}"))
        logs = [FakeLog(), Clumsy(), FakeLog()]
        for log in logs:
            log.appended = 1
            flusher.request(log)
        async with asyncio.timeout(5):
            await flusher.drain()
            logs[1].appended = 2
            flusher.request(logs[1])
            await flusher.drain()

        assert [log.flushed for log in logs] == [1, 0, 1]
        assert logs[1].syncs == 2
        assert reported == ["flush callback: oh"] * 2

    run(scenario())


@pytest.mark.parametrize(("error", "shows"), [(KeyError("oh"), True), (OSError("the disk"), False)])
def test_a_flush_that_fails_for_no_fault_of_the_disk_is_logged_with_its_lines(
    error: Exception, shows: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(FakeLog):
        def sync(self) -> int:
            raise error

    async def scenario() -> None:
        flusher, log = Flusher(asyncio.get_running_loop()), Broken()
        flusher.request(log)
        await flusher.drain()
        assert log.failure is not None

    run(scenario())
    logged = [record for record in caplog.records if record.levelno == logging.ERROR and record.exc_info]
    assert bool(logged) == shows
