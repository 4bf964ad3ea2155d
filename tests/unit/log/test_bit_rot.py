"""Flipped bits and lost ends in every kind of file: noticed, repaired where the log knows better, never served."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.log.directory import LogDirectory
from headrace.log.interface import CorruptBatch
from headrace.log.log import Log
from headrace.log.segments.segment import segment_path
from headrace.model.errors import StorageError
from headrace.model.identity import TopicPartition
from headrace.model.topic_settings import LogConfig
from headrace.records.record import Record
from headrace.testing.disk import SimulatedDisk, every_bit
from tests.unit.log.storing import (
    DIRECTORY,
    TIME,
    ManualClock,
    batch_of,
    end_transaction,
    open_log,
    produce,
    read_all,
    simulated_disk,
    values_of,
)

pytestmark = pytest.mark.slow

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=150)
IDENTITY = TopicPartition("topic", 0)


def written_log(*, close: bool, batches: int = 40) -> tuple[SimulatedDisk, list[Record], int]:
    """A log of several segments with a producer and aborted transactions; what is in it; its end."""
    disk = simulated_disk()
    log = open_log(disk, CONFIG)
    for index in range(batches):
        options = {}
        if index % 4 == 1:
            options = {"producer_id": 5, "producer_epoch": 0, "base_sequence": index // 4, "transactional": True}
        log.append(batch_of(b"%d:" % index + b"v" * 40, timestamp=TIME + index, **options), index // 10)
        if index % 8 == 2:
            end_transaction(log, 5, committed=False)
        elif index % 8 == 6:
            end_transaction(log, 5, committed=True)
    records = read_all(log)
    if close:
        log.close()
    else:
        log.sync()
        log.checkpoint()
        log.release()
    return disk, records, log.end_offset


def fork(disk: SimulatedDisk) -> SimulatedDisk:
    """The same files on another disk."""
    copy = simulated_disk()
    for path in disk.files():
        copy.make_directory(path.parent)
        copy.open(path, create=True).append([disk.read_bytes(path)])
    return copy


def files_ending(disk: SimulatedDisk, suffix: str) -> list[Path]:
    return [path for path in disk.files() if path.name.endswith(suffix)]


def read_around_damage(log: Log) -> tuple[list[Record], int]:
    """Everything that can be read, batch by batch, and how many offsets cannot."""
    records: list[Record] = []
    broken = 0
    offset = log.start_offset
    while offset < log.end_offset:
        try:
            read = log.read(offset, max_bytes=1, up_to=log.end_offset, at_least_one=True)
        except CorruptBatch:
            broken += 1
            offset += 1
            continue
        records += read_all(log, start=offset, up_to=read.next_offset)
        offset = read.next_offset
    return records, broken


def damaged(suffix: str, *, close: bool, samples: int) -> Iterator[tuple[SimulatedDisk, list[Record], int, str]]:
    """The log again and again, each time with one bit of one file of a kind flipped."""
    whole, records, end = written_log(close=close)
    randomness = random.Random(suffix)
    paths = files_ending(whole, suffix)
    assert paths, suffix
    for path in paths:
        size = whole.size(path)
        if size == 0:
            continue
        for position, bit in every_bit(size, randomness, max(1, samples // len(paths))):
            disk = fork(whole)
            disk.flip_bit(path, position, bit)
            yield disk, records, end, f"{path.name} byte {position} bit {bit}"


@pytest.mark.parametrize("close", [True, False], ids=["after a clean close", "after a crash"])
def test_a_flipped_bit_in_the_log_is_never_served_and_costs_only_its_own_batch(close: bool) -> None:
    for disk, records, end, where in damaged(".log", close=close, samples=400):
        log = open_log(disk, CONFIG, clean=close, recovery_point=end)
        found, broken = read_around_damage(log)

        assert all(record in records for record in found), where
        lost = [record for record in records if record not in found]
        # One batch; or two where the bit was in an offset and the neighbours contradict each other.
        assert len(lost) <= 2, where
        if lost:
            assert broken or log.corruption_count, where
            assert log.corruption_count, where
        assert log.end_offset >= end, where
        # The log goes on.
        offset = produce(log, b"after the damage", epoch=9)
        assert values_of(log, start=offset) == [b"after the damage"], where


@pytest.mark.parametrize("close", [True, False], ids=["after a clean close", "after a crash"])
@pytest.mark.parametrize(
    "suffix", [".index", ".timeindex", ".snapshot", ".txnindex", "leader-epoch-checkpoint", "checksums", "durable-offset"]
)
def test_a_flipped_bit_beside_the_log_changes_nothing(suffix: str, close: bool) -> None:
    reference_disk, records, end = written_log(close=close)
    reference = open_log(reference_disk, CONFIG, clean=close, recovery_point=end)
    for disk, _, _, where in damaged(suffix, close=close, samples=120):
        log = open_log(disk, CONFIG, clean=close, recovery_point=end)

        assert read_all(log) == records, where
        assert log.end_offset == end, where
        assert list(log.epochs) == list(reference.epochs), where
        assert [state.snapshot() for state in log.producers] == [state.snapshot() for state in reference.producers], where
        for start in range(0, end, 9):
            assert log.aborted_transactions(start, end) == reference.aborted_transactions(start, end), where
            assert log.read(start, max_bytes=1, up_to=end, at_least_one=True).data, where
        for delta in (0, 13, 27, 39):
            assert log.offset_for_timestamp(TIME + delta, end) == reference.offset_for_timestamp(TIME + delta, end), where


@pytest.mark.parametrize("close", [True, False], ids=["after a clean close", "after a crash"])
@pytest.mark.parametrize(
    "suffix", [".index", ".timeindex", ".snapshot", ".txnindex", "leader-epoch-checkpoint", "durable-offset"]
)
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_a_file_beside_the_log_that_lost_its_end_changes_nothing(suffix: str, close: bool, keep: float) -> None:
    whole, records, end = written_log(close=close)
    for path in files_ending(whole, suffix):
        disk = fork(whole)
        disk.cut(path, int(whole.size(path) * keep))
        log = open_log(disk, CONFIG, clean=close, recovery_point=end)

        assert read_all(log) == records, path
        assert len(log.aborted_transactions(0, end)) == 5, path
        assert log.offset_for_timestamp(TIME + 20, end) is not None, path


@pytest.mark.parametrize("close", [True, False], ids=["after a clean close", "after a crash"])
def test_a_log_file_that_lost_its_end_is_reported_and_the_rest_is_served(close: bool) -> None:
    whole, records, end = written_log(close=close)
    for path in files_ending(whole, ".log"):
        for size in (0, 1, 100, whole.size(path) // 2, whole.size(path) - 1):
            disk = fork(whole)
            disk.cut(path, size)
            log = open_log(disk, CONFIG, clean=close, recovery_point=end)
            found, _ = read_around_damage(log)

            assert all(record in records for record in found), (path, size)
            assert log.end_offset >= end, (path, size)
            assert log.corruption_count > 0, (path, size)


def test_damage_is_counted_once_however_often_it_is_read() -> None:
    disk, _, end = written_log(close=True)
    disk.flip_bit(segment_path(DIRECTORY, 0, ".log"), 700)
    log = open_log(disk, CONFIG, clean=True, recovery_point=end)
    for _ in range(3):
        read_around_damage(log)

    assert log.corruption_count == 1


def test_an_old_snapshot_serves_when_the_newest_is_broken() -> None:
    disk, _, end = written_log(close=True)
    newest = files_ending(disk, ".snapshot")[-1]
    disk.flip_bit(newest, 20)
    log = open_log(disk, CONFIG, clean=True, recovery_point=end)
    state = log.producers.get(5)

    assert state is not None
    assert state.last_sequence == 9
    assert any("snapshot" in finding for finding in log.findings)


def in_directory() -> tuple[SimulatedDisk, int]:
    disk = simulated_disk()
    directory = LogDirectory(Path("/data"), disk, ManualClock())
    directory.adopt("cluster", 1)
    log = directory.open_log(IDENTITY, None, CONFIG)
    for index in range(30):
        produce(log, b"%d" % index * 20)
    log.delete_before(3)
    log.sync()
    directory.close({IDENTITY: log}, {IDENTITY: 30})
    return disk, 30


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint", "checksums"]
)
def test_a_checkpoint_with_a_flipped_bit_is_not_believed(name: str) -> None:
    whole, end = in_directory()
    path = Path("/data") / name
    for position, bit in every_bit(whole.size(path), random.Random(1), 60):
        disk = fork(whole)
        disk.flip_bit(path, position, bit)
        directory = LogDirectory(Path("/data"), disk, ManualClock())
        log = directory.open_log(IDENTITY, None, CONFIG)

        assert log.end_offset == end, (position, bit)
        # Deleted records may come back; kept ones may not go.
        assert log.start_offset <= 3, (position, bit)
        assert values_of(log, start=3) == [b"%d" % index * 20 for index in range(3, 30)], (position, bit)
        assert directory.high_watermark(IDENTITY) in (0, 30), (position, bit)
        assert log.corruption_count == 0, (position, bit)


def test_a_broken_meta_file_stops_the_start_instead_of_changing_whose_data_it_is() -> None:
    disk, _ = in_directory()
    disk.flip_bit(Path("/data/meta.properties"), 12, 3)
    directory = LogDirectory(Path("/data"), disk, ManualClock())

    with pytest.raises(StorageError, match=r"meta\.properties"):
        directory.adopt("cluster", 1)
