"""A disk that fails: the log goes offline with a clear error, nothing torn is seen, and a restart finds everything promised.

One that is full costs what was to be written and nothing else."""

import contextlib
import errno
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from headrace.host.disk import File
from headrace.log.log import Log
from headrace.model.errors import NoRoom, StorageError
from headrace.model.topic_settings import LogConfig
from headrace.testing.disk import Action, SimulatedCrash, SimulatedDisk
from tests.support.waiting import until
from tests.unit.log.storing import (
    DIRECTORY,
    TIME,
    LogWalk,
    batch_of,
    end_transaction,
    open_log,
    produce,
    simulated_disk,
    values_of,
)

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200)


def working_log(count: int = 5) -> tuple[SimulatedDisk, Log]:
    disk = simulated_disk()
    log = open_log(disk, CONFIG)
    for index in range(count):
        produce(log, b"%d" % index)
    log.sync()
    return disk, log


def produce_many(log: Log, count: int, size: int = 300) -> None:
    for _ in range(count):
        produce(log, b"v" * size)
        log.sync()


def assert_offline(log: Log) -> None:
    assert log.failure is not None
    with pytest.raises(StorageError):
        produce(log, b"more")
    with pytest.raises(StorageError):
        log.sync()
    with pytest.raises(StorageError):
        log.read(0, max_bytes=100, up_to=1, at_least_one=True)
    log.close()


def test_a_failed_write_takes_the_log_offline_and_leaves_nothing_torn() -> None:
    disk, log = working_log()
    size = disk.size(DIRECTORY / "00000000000000000000.log")
    disk.fail("write", ".log", error=errno.EIO)
    with pytest.raises(StorageError, match="appending") as failure:
        produce(log, b"lost")

    assert isinstance(failure.value.cause, OSError)
    assert failure.value.cause.errno == errno.EIO
    assert log.end_offset == 5
    assert disk.size(DIRECTORY / "00000000000000000000.log") == size
    assert_offline(log)
    disk.heal()
    assert values_of(open_log(disk, CONFIG)) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_full_disk_costs_the_write_and_the_log_is_read_and_goes_on_when_there_is_room() -> None:
    disk, log = working_log()
    disk.capacity_bytes = 800
    with pytest.raises(NoRoom):
        produce_many(log, 100, 50)
    end = log.end_offset

    assert log.failure is None
    assert len(values_of(log)) == end
    with pytest.raises(NoRoom):
        produce(log, b"v" * 50)
    disk.heal()
    assert produce(log, b"room again") == end
    assert log.sync() == end + 1
    disk.crash()
    again = open_log(disk, CONFIG)
    assert values_of(again)[end:] == [b"room again"]
    assert again.end_offset == end + 1


class FullWalk:
    """A log on a disk that is full from some operation on, until it has room again; and what should be in it."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.log = open_log(disk, CONFIG)
        self.values: list[bytes] = []
        self.aborted: list[int] = []
        self.refusals = 0

    def go(self, rounds: int) -> None:
        for number in range(rounds):
            self.attempt(self.append)
            if number % 3 == 2:
                self.attempt(self.abort)
            if number % 2:
                self.attempt(self.log.sync)
            if number % 5 == 4:
                self.attempt(self.log.checkpoint)

    def attempt(self, work: Callable[[], object]) -> None:
        try:
            self.log.write_what_waits()
            work()
        except NoRoom:
            self.refusals += 1

    def append(self) -> None:
        value = b"%d" % len(self.values) + b"v" * 300
        produce(self.log, value)
        self.values.append(value)

    def abort(self) -> None:
        producer = self.log.end_offset
        value = b"aborted"
        self.log.append(batch_of(value, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True), 0)
        self.values.append(value)
        end_transaction(self.log, producer, committed=False)
        self.aborted.append(producer)

    def check(self, log: Log) -> None:
        assert values_of(log) == self.values
        found = [each.producer_id for each in log.aborted_transactions(0, log.end_offset)]
        assert [producer for producer in found if producer in self.aborted] == self.aborted


@pytest.mark.parametrize("action", ["write", "open"])
def test_a_disk_that_is_full_from_any_operation_on_loses_nothing_and_stops_nobody_for_good(action: Action) -> None:
    for operations in range(0, 90, 1):
        walk = FullWalk(simulated_disk(operations))
        walk.disk.fail(action, takes_room(walk.disk, action), error=errno.ENOSPC, after=operations)
        walk.go(12)
        assert walk.log.failure is None, f"after {operations} operations: {walk.log.failure}"
        walk.check(walk.log)
        walk.disk.heal()
        before = walk.refusals
        walk.go(8)
        assert walk.refusals == before
        assert walk.log.sync() == walk.log.end_offset
        walk.check(walk.log)
        walk.disk.crash()
        walk.check(open_log(walk.disk, CONFIG))


def test_a_failed_sync_is_never_tried_again_on_the_same_file() -> None:
    disk, log = working_log()
    produce(log, b"in doubt")
    fault = disk.fail("sync", ".log", times=1)
    with pytest.raises(StorageError, match="flushing"):
        log.sync()

    assert log.flushed_offset == 5
    assert_offline(log)
    # A second sync would have said yes: the page counts as clean.
    assert fault.hits == 1
    disk.crash()
    assert values_of(open_log(disk, CONFIG))[:5] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_new_segment_is_not_flushed_until_its_name_is() -> None:
    disk, log = working_log()
    log.roll()
    produce(log, b"in the new segment")
    disk.fail("sync_directory", times=1)
    with pytest.raises(StorageError):
        log.sync()
    assert log.flushed_offset == 5


def test_a_failed_read_is_an_error_and_the_log_lives() -> None:
    disk, log = working_log()
    disk.fail("read", ".log", times=1)
    with pytest.raises(StorageError, match="reading"):
        log.read(0, max_bytes=100, up_to=5, at_least_one=True)

    assert log.failure is None
    assert len(values_of(log)) == 5


@pytest.mark.parametrize("action", ["open", "write", "truncate", "sync"])
def test_a_roll_that_fails_takes_the_log_offline(action: str) -> None:
    disk, log = working_log()
    disk.fail(action, lambda path: path.name.endswith(".log") and not path.name.startswith("0" * 20))  # type: ignore[arg-type]
    with pytest.raises(StorageError):
        produce_many(log, 50)
    assert log.failure is not None
    disk.heal()
    disk.crash()
    assert open_log(disk, CONFIG).end_offset >= 5


def test_an_index_that_cannot_be_written_takes_the_log_offline_and_a_restart_makes_it_anew() -> None:
    disk, log = working_log()
    disk.fail("write", "index", error=errno.EIO)
    with pytest.raises(StorageError):
        produce_many(log, 600)
    disk.heal()
    again = open_log(disk, CONFIG)

    assert again.end_offset >= 5
    assert len(values_of(again)) == again.end_offset


def test_an_aborted_transaction_that_cannot_be_noted_takes_the_log_offline() -> None:
    disk, log = working_log()
    log.append(batch_of(b"v", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True), 0)
    disk.fail("open", ".txnindex")
    end_transaction(log, 1, committed=False)
    assert log.failure is not None
    disk.heal()
    again = open_log(disk, CONFIG)

    assert len(again.aborted_transactions(0, again.end_offset)) == 1


def test_a_log_that_cannot_be_opened_says_which() -> None:
    disk, log = working_log()
    log.close()
    disk.fail("read", ".log")
    with pytest.raises(StorageError, match="topic-0"):
        open_log(disk, CONFIG)


def test_a_failed_checkpoint_takes_the_log_offline() -> None:
    disk, log = working_log()
    log.epochs.assign(log.epochs.latest + 1, log.end_offset)
    disk.fail("write", "leader-epoch-checkpoint.tmp", error=errno.EIO)
    with pytest.raises(StorageError):
        log.checkpoint()
    assert log.failure is not None


def test_a_checkpoint_that_a_full_disk_refuses_is_made_up_for_by_the_next() -> None:
    disk, log = working_log()
    log.epochs.assign(log.epochs.latest + 1, log.end_offset)
    disk.fail("write", "leader-epoch-checkpoint.tmp", error=errno.ENOSPC)
    with pytest.raises(NoRoom):
        log.checkpoint()
    disk.heal()

    assert log.checkpoint() == 5
    assert log.failure is None
    assert b"1 5\n" in disk.read_bytes(DIRECTORY / "leader-epoch-checkpoint")


@pytest.mark.parametrize("operations", range(0, 60, 3))
def test_a_truncation_that_fails_half_way_leaves_a_log_that_opens(operations: int) -> None:
    disk, log = working_log()
    for index in range(30):
        produce(log, b"v" * 200, timestamp=TIME + index, epoch=index // 5)
    log.sync()
    seen: list[object] = []
    disk.fail("truncate", lambda path: bool(seen.append(path)) or len(seen) > operations)
    disk.fail("rename", lambda path: bool(seen.append(path)) or len(seen) > operations)
    try:
        log.truncate_to(12)
    except StorageError:
        assert log.failure is not None
    disk.heal()
    disk.crash()
    again = open_log(disk, CONFIG)

    assert again.end_offset >= 12
    assert len(values_of(again)) == again.end_offset


def log_that_starts_over(disk: SimulatedDisk) -> tuple[LogWalk, list[bytes | None]]:
    """A log of several segments, of which the first records are deleted, and what can be read of it."""
    walk = LogWalk(0, CONFIG, disk)
    for index in range(20):
        produce(walk.log, b"%d" % index + b"v" * 300, epoch=index // 4)
    walk.recovery_point = walk.log.sync()
    walk.log.checkpoint()
    walk.log.delete_before(3)
    return walk, values_of(walk.log)


def takes_room(disk: SimulatedDisk, action: Action) -> Callable[[Path], bool]:
    """New files and longer names do; a file that is there, and a shorter name, do not."""
    match action:
        case "open":
            return lambda path: not disk.exists(path)
        case "rename":
            return lambda path: path.suffix != ".begun"
        case _:
            return lambda path: True


@pytest.mark.parametrize("action", ["write", "open", "rename"])
def test_a_log_that_cannot_start_over_on_a_full_disk_is_as_it_was_and_starts_over_once_there_is_room(action: Action) -> None:
    refusals = 0
    for operations in range(20):
        walk, values = log_that_starts_over(simulated_disk())
        log, disk = walk.log, walk.disk
        disk.fail(action, takes_room(disk, action), error=errno.ENOSPC, after=operations)
        try:
            log.truncate_fully_and_start_at(100)
        except NoRoom:
            refusals += 1
            assert (log.start_offset, log.end_offset, values_of(log)) == (3, 20, values)
        assert log.failure is None, f"after {operations} operations: {log.failure}"
        disk.heal()
        log.truncate_fully_and_start_at(100)

        assert (log.start_offset, log.end_offset, log.size_bytes) == (100, 100, 0)
        assert produce(log, b"new", epoch=9) == 100
        assert log.sync() == 101
        disk.crash()
        again = open_log(disk, CONFIG, recovery_point=walk.recovery_point, start_offset=100)
        assert values_of(again) == [b"new"]
        assert again.findings == []
    assert refusals or action == "rename"


def test_a_power_failure_while_a_log_starts_over_leaves_a_beginning_of_the_old_log_or_nothing_of_it() -> None:
    for operations in range(60):
        walk, values = log_that_starts_over(simulated_disk(operations))
        walk.disk.crash_after(operations)
        with contextlib.suppress(SimulatedCrash):
            for removed in walk.log.truncate_fully_and_start_at(100):
                removed.unlink()
            walk.log.sync()
        walk.disk.crash()
        again = open_log(walk.disk, CONFIG, recovery_point=walk.recovery_point, start_offset=3)

        left = values[: again.end_offset - 3] if again.end_offset < 100 else []
        assert values_of(again) == left
        assert again.corruption_count == 0, f"after {operations} operations: {again.findings}"


class HeldFile:
    """A file whose sync takes until the test lets it."""

    def __init__(self, file: File, disk: "HeldDisk") -> None:
        self._file = file
        self._disk = disk

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def sync(self) -> None:
        self._disk.is_waited_for = True
        assert self._disk.may_end.wait(60)
        self._file.sync()


class HeldDisk(SimulatedDisk):
    """Syncs of what a checkpoint writes down take until the test lets them."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.may_end = threading.Event()
        self.is_waited_for = False

    def open(self, path: Path, *, create: bool = False) -> File:  # type: ignore[override]
        file = super().open(path, create=create)
        return cast(File, HeldFile(file, self)) if path.suffix in (".index", ".timeindex") else file


def test_a_flush_does_not_wait_for_a_checkpoint() -> None:
    disk = HeldDisk()
    log = open_log(disk, CONFIG)
    produce(log, b"v" * 300)
    log.roll()
    log.sync()
    with ThreadPoolExecutor(2) as threads:
        checkpoint = threads.submit(log.checkpoint)
        until(lambda: disk.is_waited_for)
        produce(log, b"more")
        try:
            assert threads.submit(log.sync).result(30) == 2
            assert not checkpoint.done()
        finally:
            disk.may_end.set()
        checkpoint.result(30)
