"""Segments roll, indexes have Kafka's form, and neither memory nor descriptors grow with the log."""

import random
import struct
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.host.disk import SystemDisk
from headrace.log.indexes.offset_index import OffsetIndex
from headrace.log.indexes.time_index import TimeIndex
from headrace.log.log import Log
from headrace.log.origin import Origin
from headrace.log.producers.producer_snapshot import SnapshotEntry, WrittenBatch, decode_snapshot, encode_snapshot
from headrace.log.producers.producer_state import ProducerStates
from headrace.log.results import FoundOffset
from headrace.log.segments.files import FilePool
from headrace.log.segments.segment import Segment
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.topic_settings import LogConfig
from headrace.records.batch import iterate_batches, read_header
from headrace.records.header import BatchHeader
from tests.unit.log.storing import (
    DIRECTORY,
    TIME,
    ManualClock,
    batch_of,
    offsets_of,
    open_log,
    produce,
    read_all,
    simulated_disk,
    values_of,
)


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_a_segment_is_named_for_its_first_offset_in_twenty_digits() -> None:
    disk = simulated_disk()
    log = open_log(disk, LogConfig(segment_bytes=200))
    for _ in range(4):
        produce(log, b"v" * 60, b"w")
    names = [path.name for path in disk.files() if path.name.endswith(".log")]

    assert names == [f"{base:020d}.log" for base in bases(log)]
    assert bases(log) == [0, 2, 4, 6]


def test_a_segment_rolls_by_size_before_it_would_grow_beyond() -> None:
    disk = simulated_disk()
    log = open_log(disk, LogConfig(segment_bytes=1000))
    for _ in range(50):
        produce(log, b"v" * 100)
    sizes = [disk.size(path) for path in disk.files() if path.name.endswith(".log")]

    assert max(sizes) <= 1000
    assert min(sizes[:-1]) > 700


def test_a_segment_rolls_by_the_time_of_its_records() -> None:
    log = open_log(simulated_disk(), LogConfig(segment_ms=1000, message_timestamp_after_max_ms=10**9))
    for delta in (0, 500, 1000, 1001, 1500, 2002):
        produce(log, b"v", timestamp=TIME + delta)

    assert bases(log) == [0, 3, 5]


def test_logs_begun_together_roll_at_times_that_the_jitter_spreads(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=900, message_timestamp_after_max_ms=10**9)

    def rolled_at(name: str) -> int:
        log = Log.open(tmp_path / name, config, disk=SystemDisk(), clock=ManualClock(), clean=False)
        for delta in range(0, 1002, 10):
            produce(log, b"v", timestamp=TIME + delta)
            if len(bases(log)) > 1:
                return delta
        return 1001

    ages = [rolled_at(f"t-{index}") for index in range(12)]

    assert all(100 <= age <= 1010 for age in ages)
    assert len(set(ages)) > 6


def test_records_without_a_timestamp_roll_by_the_clock() -> None:
    clock = ManualClock()
    log = open_log(simulated_disk(), LogConfig(segment_ms=1000), clock=clock)
    produce(log, b"v", timestamp=-1)
    clock.now_ms += 1001
    produce(log, b"v", timestamp=-1)

    assert bases(log) == [0, 1]


def test_a_segment_rolls_when_its_index_is_full_and_when_offsets_no_longer_fit() -> None:
    log = open_log(simulated_disk(), LogConfig(index_interval_bytes=0, segment_index_bytes=80))
    for _ in range(30):
        produce(log, b"v")
    assert len(bases(log)) > 2

    log = open_log(simulated_disk())
    log.append_as_follower(batch_of(b"a", base_offset=5))
    log.append_as_follower(batch_of(b"b", base_offset=2**31 + 10))
    assert bases(log) == [0, 6]
    assert offsets_of(log, start=5) == [5, 2**31 + 10]


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    log = open_log(simulated_disk(), LogConfig(segment_bytes=200))
    with pytest.raises(RequestError) as error:
        produce(log, b"v" * 300)
    assert error.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_the_offset_index_has_an_entry_for_the_first_batch_after_each_interval() -> None:
    disk = simulated_disk()
    log = open_log(disk, LogConfig(index_interval_bytes=300))
    for _ in range(20):
        produce(log, b"v" * 50)
    log.close()
    data = disk.read_bytes(DIRECTORY / f"{0:020d}.log")
    entries = list(struct.iter_unpack(">ii", disk.read_bytes(DIRECTORY / f"{0:020d}.index")))

    # Each batch has 119 bytes: after three of them comes the first that gets an entry.
    assert entries == [(offset, offset * len(data) // 20) for offset in (3, 6, 9, 12, 15, 18)]
    for offset, position in entries:
        assert read_header(data, position).last_offset == offset


def test_the_time_index_ends_with_the_greatest_timestamp() -> None:
    disk = simulated_disk()
    log = open_log(disk, LogConfig(index_interval_bytes=200))
    for delta in (5, 3, 9, 1, 30, 7, 8, 2):
        produce(log, b"v" * 50, timestamp=TIME + delta)
    log.close()
    entries = list(struct.iter_unpack(">qi", disk.read_bytes(DIRECTORY / f"{0:020d}.timeindex")))

    assert entries[-1] == (TIME + 30, 4)
    assert entries == sorted(entries)


def test_the_greatest_timestamp_below_one_that_may_not_be_seen_yet_is_found_without_reading_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = open_log(simulated_disk(), LogConfig(segment_bytes=20_000, index_interval_bytes=500))
    for index in range(1000):
        produce(log, b"v" * 50, timestamp=TIME + index)
    read = []
    headers = Segment.headers

    def counted(segment: Segment, *position: int, **options: Any) -> Iterator[tuple[int, BatchHeader]]:
        for each in headers(segment, *position, **options):
            read.append(each)
            yield each

    monkeypatch.setattr(Segment, "headers", counted)

    assert log.offset_of_max_timestamp(999) == FoundOffset(TIME + 998, 998, 0)
    assert len(read) < 50


def test_a_snapshot_is_taken_at_each_roll_and_at_the_close() -> None:
    disk = simulated_disk()
    log = open_log(disk, LogConfig(segment_bytes=300))
    for sequence in range(7):
        log.append(batch_of(b"v" * 60, producer_id=3, producer_epoch=1, base_sequence=sequence), 0)
    log.close()
    snapshots = [path for path in disk.files() if path.name.endswith(".snapshot")]

    assert [int(path.name[:20]) for path in snapshots] == [*bases(log)[1:], 7]
    last = decode_snapshot(disk.read_bytes(snapshots[-1]))
    assert [(entry.producer_id, entry.producer_epoch, entry.last_sequence, entry.last_offset) for entry in last] == [(3, 1, 6, 6)]


@pytest.mark.parametrize("segment_bytes", [300, 100_000])
def test_after_a_restart_each_of_the_last_five_batches_is_still_known(segment_bytes: int) -> None:
    disk = simulated_disk()
    log = open_log(disk, LogConfig(segment_bytes=segment_bytes))
    batches = [batch_of(b"v" * 60, b"w", producer_id=3, producer_epoch=1, base_sequence=2 * index) for index in range(7)]
    for batch in batches:
        log.append(bytearray(batch), 0)
    log.close()
    log = open_log(disk, LogConfig(segment_bytes=segment_bytes), clean=True)

    for index in range(2, 7):
        again = log.append(bytearray(batches[index]), 0)
        assert (again.duplicate, again.base_offset) == (True, 2 * index)
    with pytest.raises(RequestError) as refused:
        log.append(bytearray(batches[1]), 0)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_snapshot_with_nothing_behind_its_entries_is_read_too() -> None:
    entry = SnapshotEntry(3, 1, 6, 6, 0, TIME, -1, -1)

    assert decode_snapshot(encode_snapshot([entry])) == [entry]
    with_earlier = entry._replace(earlier=(WrittenBatch(4, 5, 4, 5, TIME),))
    assert decode_snapshot(encode_snapshot([with_earlier, entry._replace(producer_id=9)]))[0] == with_earlier


@pytest.mark.parametrize("count", [0, 1, 511, 512, 513, 5000])
def test_an_index_finds_what_a_list_finds(count: int) -> None:
    disk = simulated_disk()
    disk.make_directory(DIRECTORY)
    pool = FilePool(disk)
    offsets = OffsetIndex(pool.handle(DIRECTORY / "o"), 1000, is_new=True)
    times = TimeIndex(pool.handle(DIRECTORY / "t"), 1000, is_new=True)
    for index in range(count):
        offsets.append(1000 + 3 * index, 100 * index)
        times.append(TIME + 5 * index, 1000 + 3 * index)
    randomness = random.Random(count)
    for _ in range(200):
        offset = randomness.randint(990, 1000 + 3 * count + 10)
        expected = min((offset - 1000) // 3, count - 1)
        assert offsets.lookup(offset) == ((1000 + 3 * expected, 100 * expected) if expected >= 0 else (999, 0))
        time = TIME + randomness.randint(-5, 5 * count + 10)
        expected = min((time - TIME) // 5, count - 1)
        assert times.lookup(time) == ((TIME + 5 * expected, 1000 + 3 * expected) if expected >= 0 else (-1, 1000))
    cut = count // 2
    offsets.truncate_to(1000 + 3 * cut)
    times.truncate_to(1000 + 3 * cut)
    assert (len(offsets), len(times)) == (cut, cut)
    assert times.last().timestamp == (TIME + 5 * (cut - 1) if cut else -1)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_records(tmp_path: Path) -> None:
    log = Log.open(
        tmp_path / "t-0",
        LogConfig(segment_bytes=400_000, index_interval_bytes=256),
        disk=SystemDisk(),
        clock=ManualClock(),
        clean=False,
    )
    batch = batch_of(b"v" * 200)
    tracemalloc.start()
    try:
        for _ in range(2000):
            log.append(batch, 0)
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(20_000):
            log.append(batch, 0)
        offset = 0
        while offset < log.end_offset:
            offset = log.read(offset, max_bytes=100_000, up_to=log.end_offset, at_least_one=True).next_offset
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    log.release()

    # 22,000 index entries in 15 segments: a segment costs some kilobytes, an entry nothing.
    assert len(log.segments) > 10
    assert (after - before) / len(log.segments) < 8_000


def test_open_files_are_bounded_however_many_logs_there_are(tmp_path: Path) -> None:
    disk = SystemDisk()
    pool = FilePool(disk, open_files_max=8)
    logs = [
        Log.open(tmp_path / f"t-{n}", LogConfig(segment_bytes=500), disk=disk, clock=ManualClock(), clean=False, files=pool)
        for n in range(20)
    ]
    for turn in range(12):
        for log in logs:
            produce(log, b"%d" % turn * 50)
            log.sync()
            assert len(pool.opened) <= 9
    for log in logs:
        assert values_of(log) == [b"%d" % turn * 50 for turn in range(12)]
        log.close()
    assert len(pool.opened) == 0


def test_a_file_with_unsynced_bytes_is_not_closed_to_make_room() -> None:
    disk = simulated_disk()
    pool = FilePool(disk, open_files_max=2)
    first, *others = [
        Log.open(Path(f"/data/t-{n}"), LogConfig(), disk=disk, clock=ManualClock(), clean=False, files=pool) for n in range(5)
    ]
    produce(first, b"unsynced")
    for log in others:
        produce(log, b"v")
        log.sync()

    assert first.segments[-1].log.is_open
    assert sum(log.segments[-1].log.is_open for log in others) <= 2


def test_a_reader_that_reads_on_needs_no_index() -> None:
    disk = simulated_disk()
    log = open_log(disk, LogConfig(index_interval_bytes=100))
    for _ in range(200):
        produce(log, b"v" * 50)
    log.close()
    log = open_log(disk, LogConfig(index_interval_bytes=100), clean=True)
    offset = log.read(0, max_bytes=500, up_to=200, at_least_one=True).next_offset
    disk.fail("read", "index")
    while offset < 200:
        offset = log.read(offset, max_bytes=500, up_to=200, at_least_one=True).next_offset
    assert offset == 200


def test_producers_are_bounded_and_those_in_transactions_stay() -> None:
    producers = ProducerStates(lambda: 0.0, producers_max=100)
    for producer_id in range(500):
        transactional = producer_id < 5
        batch = batch_of(
            b"v",
            timestamp=TIME + producer_id,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
        )
        header = read_header(batch)
        assert producers.check(header, Origin.CLIENT) is None
        producers.apply(header, producer_id)

    assert len(producers) <= 100
    assert {state.producer_id for state in producers} >= {0, 1, 2, 3, 4, 499}


def test_settings_change_while_the_log_is_open() -> None:
    log = open_log(simulated_disk(), LogConfig())
    produce(log, b"v" * 100)
    log.reconfigure(LogConfig(segment_bytes=200, max_message_bytes=150))
    produce(log, b"w" * 60)

    assert bases(log) == [0, 1]
    with pytest.raises(RequestError):
        produce(log, b"x" * 100)


def test_a_thousand_segments_open_quickly_and_read_right() -> None:
    disk = simulated_disk()
    log = open_log(disk, LogConfig(segment_bytes=150))
    for index in range(300):
        produce(log, b"%d" % index)
    assert len(log.segments) == 150
    log.close()
    log = open_log(disk, LogConfig(segment_bytes=150), clean=True)

    assert values_of(log, max_bytes=10_000) == [b"%d" % index for index in range(300)]
    assert read_all(log, start=211)[0].offset == 211


def test_batches_are_read_across_the_roll_by_a_reader_at_the_end() -> None:
    log = open_log(simulated_disk(), LogConfig(segment_bytes=250))
    offset = 0
    seen = []
    for index in range(30):
        produce(log, b"%d" % index * 20)
        read = log.read(offset, max_bytes=1000, up_to=log.end_offset, at_least_one=True)
        seen += [header.base_offset for header, _ in iterate_batches(read.data)]
        offset = read.next_offset
    assert seen == list(range(30))


def test_a_file_is_closed_only_after_the_sync_that_uses_it() -> None:
    disk = simulated_disk()
    disk.make_directory(DIRECTORY)
    pool = FilePool(disk)
    handle = pool.handle(DIRECTORY / "f")
    file = handle.file()
    during: list[bool] = []

    def sync_while_somebody_closes() -> None:
        handle.close()
        during.append(handle.is_open)

    file.sync = sync_while_somebody_closes  # type: ignore[method-assign]
    handle.sync()

    assert during == [True]
    assert not handle.is_open


class LockThatSomebodyTakesFirst:
    """A lock for which another thread was a moment earlier."""

    def __init__(self, lock: threading.Lock, before: Callable[[], object]) -> None:
        self._lock = lock
        self._before: Callable[[], object] | None = before

    def __enter__(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            before()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_cut_just_before_a_sync_begins_is_not_promised(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(), disk=SystemDisk(), clock=ManualClock(), clean=False)
    log.append(batch_of(b"v"), 0)
    log.sync()
    for _ in range(4):
        log.append(batch_of(b"v"), 0)
    durability: Any = log._durability
    durability._lock = LockThatSomebodyTakesFirst(durability._lock, lambda: log.truncate_to(2))

    assert log.sync() == log.end_offset == 2
    log.close()


@pytest.mark.parametrize("cut", ["truncate_to", "truncate_fully_and_start_at"])
def test_a_sync_amid_a_cut_does_not_promise_what_is_going(tmp_path: Path, cut: str) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(), disk=SystemDisk(), clock=ManualClock(), clean=False)
    for _ in range(5):
        log.append(batch_of(b"v"), 0)
    durability: Any = log._durability
    lower = durability.lower

    def lower_and_let_somebody_sync(offset: int) -> None:
        lower(offset)
        log.sync()

    durability.lower = lower_and_let_somebody_sync
    getattr(log, cut)(2)

    assert log.flushed_offset <= log.end_offset == 2
    log.close()


def test_appends_go_on_while_another_thread_syncs(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(segment_bytes=20_000), disk=SystemDisk(), clock=ManualClock(), clean=False)
    stop = threading.Event()
    seen: list[int] = []

    def sync_on() -> None:
        while not stop.is_set():
            seen.append(log.sync())

    thread = threading.Thread(target=sync_on)
    thread.start()
    batch = batch_of(b"v" * 100)
    for index in range(3000):
        log.append(batch, 0)
        if index % 500 == 499:
            log.truncate_to(log.end_offset - 100)
            log.delete_before(log.end_offset // 2)
    stop.set()
    thread.join()
    flushed = log.sync()

    assert flushed == log.end_offset == 3000 - 600
    assert all(offset <= 3000 for offset in seen)
    assert log.failure is None
    assert len(offsets_of(log, max_bytes=100_000)) == log.end_offset - log.start_offset
    log.close()
