"""The simulated disk keeps what was synced, may lose the rest, and does what the real one does."""

import errno
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.host.disk import Disk, SystemDisk
from headrace.testing.disk import SimulatedCrash, SimulatedDisk


@pytest.fixture(params=["simulated", "system"])
def disk_and_root(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, Path]:
    if request.param == "system":
        return SystemDisk(), tmp_path
    disk = SimulatedDisk(random.Random(1))
    disk.make_directory(Path("/top"))
    return disk, Path("/top")


def test_both_disks_do_the_same(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root
    path = root / "a" / "b"
    disk.make_directory(path.parent)
    disk.make_directory(path.parent)
    file = disk.open(path, create=True)
    assert file.append([b"hello ", memoryview(b"world")]) == 0
    assert file.append([b"!"]) == 11
    assert file.read_at(0, 100) == b"hello world!"
    assert file.read_at(50, 10) == b""
    file.truncate(5)
    assert (file.size(), disk.size(path)) == (5, 5)
    file.sync()
    file.close()
    disk.write_atomically(root / "c", b"whole")
    assert disk.read_bytes(root / "c") == b"whole"
    assert disk.list_names(root) == ["a", "c"]
    assert disk.list_names(root / "nowhere") == []
    disk.rename(root / "a", root / "d")
    assert disk.read_bytes(root / "d" / "b") == b"hello"
    disk.remove(root / "c")
    disk.remove(root / "c")
    disk.remove_tree(root / "d")
    disk.remove_tree(root / "d")
    assert disk.list_names(root) == []
    with pytest.raises(FileNotFoundError):
        disk.open(root / "missing")
    with pytest.raises(FileNotFoundError):
        disk.read_bytes(root / "missing")
    assert not disk.exists(root / "missing")


def test_synced_bytes_survive_and_unsynced_ones_are_a_matter_of_luck() -> None:
    sizes = set()
    for seed in range(40):
        disk = SimulatedDisk(random.Random(seed))
        file = disk.open(Path("/f"), create=True)
        file.append([b"safe"])
        file.sync()
        disk.sync_directory(Path("/"))
        file.append([b"one"])
        file.append([b"two"])
        disk.crash()
        data = disk.read_bytes(Path("/f"))
        assert data == b"safeonetwo"[: len(data)]
        assert len(data) >= 4
        sizes.add(len(data))
    assert {4, 7, 10} <= sizes
    assert sizes - {4, 7, 10}, "no write was ever torn"


def test_a_name_is_durable_only_with_its_directory() -> None:
    lost = 0
    for seed in range(20):
        disk = SimulatedDisk(random.Random(seed))
        disk.open(Path("/f"), create=True).sync()
        disk.crash()
        lost += not disk.exists(Path("/f"))
    assert 0 < lost < 20


def test_a_failed_sync_loses_the_bytes_although_they_can_be_read() -> None:
    disk = SimulatedDisk(random.Random(1))
    file = disk.open(Path("/f"), create=True)
    disk.sync_directory(Path("/"))
    file.append([b"lost"])
    disk.fail("sync", times=1)
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()
    assert file.read_at(0, 4) == b"lost"
    disk.crash()
    assert disk.read_bytes(Path("/f")) == b""


def test_a_full_disk_refuses_the_whole_write() -> None:
    disk = SimulatedDisk(random.Random(1), capacity_bytes=10)
    file = disk.open(Path("/f"), create=True)
    file.append([b"12345678"])
    with pytest.raises(OSError) as error:
        file.append([b"90123"])
    assert error.value.errno == errno.ENOSPC
    assert file.size() == 8


def test_a_crash_can_be_had_at_a_chosen_operation() -> None:
    disk = SimulatedDisk(random.Random(1))
    file = disk.open(Path("/f"), create=True)
    disk.crash_after(1)
    file.append([b"done"])
    with pytest.raises(SimulatedCrash):
        file.append([b"never"])
    disk.crash()
    with pytest.raises(AssertionError, match="before the crash"):
        file.append([b"by a ghost"])


def test_the_same_seed_crashes_the_same_way() -> None:
    def history(seed: int) -> bytes:
        disk = SimulatedDisk(random.Random(seed), tearing="pages")
        file = disk.open(Path("/f"), create=True)
        disk.sync_directory(Path("/"))
        for index in range(20):
            file.append([bytes([index + 1]) * 3000])
        disk.crash()
        return disk.read_bytes(Path("/f"))

    assert history(5) == history(5)
    assert len({history(seed) for seed in range(10)}) > 5


def test_threads_may_use_it_side_by_side() -> None:
    disk = SimulatedDisk(random.Random(1), capacity_bytes=2**30)
    disk.make_directory(Path("/data"))

    def use(number: int) -> None:
        for turn in range(150):
            path = Path(f"/data/{number}-{turn}")
            file = disk.open(path, create=True)
            file.append([b"x" * 100])
            file.sync()
            disk.sync_directory(path.parent)
            disk.list_names(path.parent)
            disk.free_bytes(path)
            if turn % 2:
                disk.remove(path)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(use, range(4)))
    finally:
        sys.setswitchinterval(interval)

    assert len(disk.files()) == 4 * 75
