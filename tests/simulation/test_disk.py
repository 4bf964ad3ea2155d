"""The simulated disk forgets what a real one may forget, and keeps what a real one must keep."""

import random
from pathlib import Path

import pytest

from simulation.world.disk import SimulatedDisk
from simulation.world.machine import PowerFailure
from simulation.world.medium import PAGE_BYTES, Medium

FILE = Path("data/file")


def mount(medium: Medium) -> SimulatedDisk:
    return SimulatedDisk(medium, lambda: 0, lambda: None)


def with_directory(seed: int) -> tuple[Medium, SimulatedDisk]:
    medium = Medium(random.Random(seed))
    disk = mount(medium)
    disk.make_directory(FILE.parent)
    disk.sync_directory(Path())
    return medium, disk


def after_power_failure(medium: Medium) -> SimulatedDisk:
    medium.lose_power()
    return mount(medium)


@pytest.mark.parametrize("seed", range(50))
def test_synced_bytes_under_a_synced_name_survive(seed: int) -> None:
    medium, disk = with_directory(seed)
    file = disk.open(FILE, create=True)
    file.append([b"kept"])
    file.sync()
    disk.sync_directory(FILE.parent)
    file.append([b", or not"])

    assert after_power_failure(medium).read_bytes(FILE).startswith(b"kept")


def test_unsynced_bytes_survive_whole_in_part_or_not_at_all() -> None:
    found = set()
    for seed in range(200):
        medium, disk = with_directory(seed)
        file = disk.open(FILE, create=True)
        disk.sync_directory(FILE.parent)
        file.append([b"abcd"])
        file.append([b"efgh"])
        found.add(after_power_failure(medium).read_bytes(FILE))

    assert {b"", b"abcd", b"abcdefgh"} <= found
    assert any(len(each) % 4 > 0 for each in found), "no write was ever torn"


def test_pages_reach_the_medium_in_any_order_and_each_as_a_whole() -> None:
    found = set()
    for seed in range(200):
        medium, disk = with_directory(seed)
        file = disk.open(FILE, create=True)
        file.append([b"kept"])
        file.sync()
        disk.sync_directory(FILE.parent)
        for letter in (b"a", b"b"):
            file.append([letter * (PAGE_BYTES - 4)])
        found.add(after_power_failure(medium).read_bytes(FILE))

    first, second = b"kept" + b"a" * (PAGE_BYTES - 4), b"b" * (PAGE_BYTES - 4)
    assert {b"kept", first + second, b"kept" + bytes(PAGE_BYTES - 4) + second, first + bytes(PAGE_BYTES - 4)} <= found


def test_a_name_that_was_not_synced_may_be_gone_with_all_its_synced_bytes() -> None:
    survived = set()
    for seed in range(50):
        medium, disk = with_directory(seed)
        file = disk.open(FILE, create=True)
        file.append([b"synced"])
        file.sync()
        survived.add(after_power_failure(medium).exists(FILE))

    assert survived == {True, False}


@pytest.mark.parametrize("seed", range(50))
def test_a_rename_leaves_the_old_or_the_new_and_never_neither(seed: int) -> None:
    medium, disk = with_directory(seed)
    disk.write_atomically(FILE, b"old")
    other = disk.open(FILE.with_name("other"), create=True)
    other.append([b"new"])
    other.sync()
    disk.sync_directory(FILE.parent)
    disk.rename(FILE.with_name("other"), FILE)

    assert after_power_failure(medium).read_bytes(FILE) in (b"old", b"new")


@pytest.mark.parametrize("seed", range(20))
def test_what_is_written_atomically_is_durable_at_once(seed: int) -> None:
    medium, disk = with_directory(seed)
    disk.write_atomically(FILE, b"first")
    disk.write_atomically(FILE, b"second")

    assert after_power_failure(medium).read_bytes(FILE) == b"second"


def test_a_write_during_which_the_power_fails_is_torn_and_nothing_follows() -> None:
    failures = []
    medium = Medium(random.Random(1))
    disk = SimulatedDisk(medium, lambda: 0, lambda: failures.append("dark"))
    disk.make_directory(FILE.parent)
    file = disk.open(FILE, create=True)
    disk.changes_until_power_failure = 2
    file.append([b"whole"])

    with pytest.raises(PowerFailure):
        file.append([b"torn"])
    disk.is_off = True

    assert failures == ["dark"]
    with pytest.raises(PowerFailure):
        file.append([b"more"])
    assert bytes(medium.file(FILE).data).startswith(b"whole")
    assert len(medium.file(FILE).data) <= len(b"wholetorn")


def test_a_full_disk_and_a_failing_sync_say_so() -> None:
    medium, disk = with_directory(1)
    file = disk.open(FILE, create=True)
    medium.is_full = True
    with pytest.raises(OSError, match="No space"):
        file.append([b"x"])
    with pytest.raises(OSError, match="No space"):
        mount(medium).open(FILE.with_name("other"), create=True)
    medium.is_full = False
    disk.failing_syncs = 1
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()
