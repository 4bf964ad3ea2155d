"""Looking for a time is work for a thread: it may have to look at every batch, and to open every file."""

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.partitions.reading import search
from headrace.host.disk import Disk
from headrace.log.interface import FoundOffset, PartitionLog
from headrace.log.log import Log
from headrace.log.memory import searching
from headrace.log.memory.memory_log import MemoryLog
from headrace.model.topic_settings import LogConfig
from headrace.records.record import read_records
from headrace.testing.disk import WatchedDisk
from tests.unit.log.storing import TIME, ManualClock, open_log, produce, simulated_disk

COUNT = 60
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=150)


class ThreadsOfOpening(WatchedDisk):
    """Notes which thread opens which file; on the loop's thread, reading is forbidden."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.opened: list[tuple[int, str]] = []

    def open(self, path: Path, *, create: bool = False) -> Any:
        self.opened.append((threading.get_ident(), path.name))
        return super().open(path, create=create)

    def forbid_here(self) -> None:
        self.forbidden_thread = threading.get_ident()
        self.forget_pages()
        self.opened.clear()

    def opened_here(self) -> list[str]:
        return [name for thread, name in self.opened if thread == threading.get_ident()]


def searched(log: PartitionLog, disk: Disk, timestamp: int | None, up_to: int = COUNT) -> FoundOffset | None:
    """As ListOffsets does it."""

    async def run() -> FoundOffset | None:
        partition: Any = SimpleNamespace(log=log, written_lately=None)
        return await search(asyncio.get_running_loop(), disk, partition, timestamp, up_to)

    return asyncio.run(run())


def restarted(disk: Disk, times: list[int]) -> Log:
    log = open_log(disk, SMALL)
    for time in times:
        produce(log, b"v" * 50, timestamp=time)
    log.close()
    return open_log(disk, SMALL, clean=True)


@pytest.mark.parametrize(
    "times",
    [[TIME + index for index in range(COUNT)], [TIME] * (COUNT - 1) + [TIME + COUNT - 1]],
    ids=["times rise", "times stand still"],
)
@pytest.mark.parametrize("wanted", [TIME + COUNT - 1, None])
def test_the_first_search_after_a_restart_opens_and_reads_nothing_on_the_loop(times: list[int], wanted: int | None) -> None:
    disk = ThreadsOfOpening(simulated_disk())
    log = restarted(disk, times)
    disk.forbid_here()
    found = searched(log, disk, wanted)

    assert found == FoundOffset(TIME + COUNT - 1, COUNT - 1, 0)
    assert disk.opened_here() == []
    assert disk.found == []


def test_a_second_search_does_not_open_every_segment_again() -> None:
    disk = ThreadsOfOpening(simulated_disk())
    log = restarted(disk, [TIME + index for index in range(COUNT)])
    searched(log, disk, TIME + COUNT - 1)
    disk.forbid_here()
    searched(log, disk, TIME + COUNT - 1)

    assert len(log.segments) > 10
    assert len({name for _, name in disk.opened}) <= 6, "of the segment that it ends in, and of one more"


def test_a_search_in_memory_looks_at_no_batch_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog(LogConfig(), ManualClock())
    for index in range(COUNT):
        produce(log, b"v", timestamp=TIME + index)
    threads: list[int] = []

    def noted(data: Any) -> Any:
        threads.append(threading.get_ident())
        return read_records(data)

    monkeypatch.setattr(searching, "read_records", noted)

    assert searched(log, simulated_disk(), TIME + 7) == FoundOffset(TIME + 7, 7, 0)
    assert searched(log, simulated_disk(), None) == FoundOffset(TIME + COUNT - 1, COUNT - 1, 0)
    assert len(threads) == 2
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_what_was_found_holds_until_it_is_cut_off_or_deleted(kind: str) -> None:
    disk = simulated_disk()
    log: PartitionLog = open_log(disk, SMALL) if kind == "disk" else MemoryLog(SMALL, ManualClock())
    for index in range(COUNT):
        produce(log, b"v" * 50, timestamp=TIME + index)

    def is_accepted_after(change: Any) -> bool:
        found = log.time_search(TIME + 30, log.end_offset)
        assert found is not None
        assert found.run(disk)
        change()
        return found.accept()

    assert is_accepted_after(lambda: None)
    assert is_accepted_after(lambda: produce(log, b"w" * 200, timestamp=TIME))
    assert is_accepted_after(lambda: log.delete_before(20))
    assert not is_accepted_after(lambda: log.delete_before(31))
    assert not is_accepted_after(lambda: log.truncate_to(40))


def test_a_search_that_meets_a_cut_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = simulated_disk()
    log = open_log(disk, SMALL)
    for index in range(COUNT):
        produce(log, b"v" * 50, timestamp=TIME + index)
    made: list[Any] = []
    time_search = log.time_search

    def cut_under_way(timestamp: int | None, up_to: int) -> Any:
        searching = time_search(timestamp, up_to)
        if not made:
            log.truncate_to(20)
            produce(log, b"w", timestamp=TIME + 100)
        made.append(searching)
        return searching

    monkeypatch.setattr(log, "time_search", cut_under_way)

    assert searched(log, disk, TIME + 30) == FoundOffset(TIME + 100, 20, 0)
    assert len(made) == 2


def test_a_damaged_index_is_mended_by_a_search() -> None:
    disk = simulated_disk()
    log = restarted(disk, [TIME + index for index in range(COUNT)])
    damaged = log.segments[3].times.handle.path
    data = bytearray(disk.read_bytes(damaged))
    data[7] ^= 1
    disk.write_atomically(damaged, bytes(data))

    wanted = log.segments[3].base_offset + 1
    assert searched(log, disk, TIME + wanted) == FoundOffset(TIME + wanted, wanted, 0)
