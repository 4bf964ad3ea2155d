"""Old segments go by age, by size and below the log start; never what a consumer has not been allowed to see."""

import gc
import random
import time
from typing import Any

import pytest

from headrace.log.log import Log
from headrace.log.memory.memory_log import MemoryLog
from headrace.log.segments.segment import segment_path
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.topic_settings import LogConfig
from headrace.records.batch import build_batch
from headrace.records.record import Record
from tests.unit.log.storing import (
    DIRECTORY,
    TIME,
    ManualClock,
    offsets_of,
    open_log,
    produce,
    read_all,
    simulated_disk,
    values_of,
)


def filled(config: LogConfig, count: int = 10) -> Log:
    """A log of one batch per segment, a second apart."""
    log = open_log(simulated_disk(), config)
    for index in range(count):
        produce(log, b"%d" % index * 50, timestamp=TIME + 1000 * index)
        log.roll()
    return log


def test_segments_go_when_their_newest_record_is_too_old() -> None:
    log = filled(LogConfig(retention_ms=5000))
    removed = log.apply_retention(TIME + 8500, 10)

    assert [(segment.base_offset, segment.reason) for segment in removed] == [(n, "retention.ms") for n in range(4)]
    assert log.start_offset == 4
    assert offsets_of(log) == [4, 5, 6, 7, 8, 9]


def test_segments_go_while_the_log_is_too_large() -> None:
    log = filled(LogConfig(retention_ms=-1, retention_bytes=500))
    size = log.segments[0].size
    removed = log.apply_retention(TIME, 10)

    assert {segment.reason for segment in removed} == {"retention.bytes"}
    assert 500 <= log.size_bytes < 500 + size


def test_nothing_above_the_high_watermark_goes() -> None:
    log = filled(LogConfig(retention_ms=0))
    log.apply_retention(TIME + 10**9, 3)

    assert log.start_offset == 3


def test_an_active_segment_that_is_all_too_old_goes_too_and_offsets_go_on() -> None:
    log = open_log(simulated_disk(), LogConfig(retention_ms=1000))
    produce(log, b"a", b"b")
    log.apply_retention(TIME + 2000, 2)

    assert (log.start_offset, log.end_offset, log.size_bytes) == (2, 2, 0)
    assert produce(log, b"c", timestamp=TIME + 2000) == 2
    assert values_of(log) == [b"c"]


def test_a_compacted_topic_is_not_cut_by_age() -> None:
    log = filled(LogConfig(retention_ms=1, cleanup_policy=frozenset({"compact"})))
    assert log.apply_retention(TIME + 10**9, 10) == []


def test_removed_files_are_renamed_first_and_unlinked_later() -> None:
    log = filled(LogConfig(retention_ms=5000))
    disk = log.disk
    removed = log.apply_retention(TIME + 8500, 10)

    assert not disk.exists(segment_path(DIRECTORY, 0, ".log"))
    assert disk.exists(segment_path(DIRECTORY, 0, ".log.deleted"))
    for segment in removed:
        segment.unlink()
    assert not [name for name in disk.list_names(DIRECTORY) if name.endswith(".deleted")]


def test_files_left_renamed_by_a_crash_are_gone_after_a_start() -> None:
    log = filled(LogConfig(retention_ms=5000))
    log.apply_retention(TIME + 8500, 10)
    log.sync()
    log.release()
    again = open_log(log.disk, LogConfig(retention_ms=5000))

    assert again.start_offset == 4
    assert not [name for name in log.disk.list_names(DIRECTORY) if name.endswith(".deleted")]


def test_a_broken_time_index_does_not_make_records_old() -> None:
    log = filled(LogConfig(retention_ms=5000))
    log.close()
    disk = log.disk
    for position in range(8):
        disk.flip_bit(segment_path(DIRECTORY, 6, ".timeindex"), position, 0)  # type: ignore[attr-defined]
        again = open_log(disk, LogConfig(retention_ms=5000), clean=True)
        again.apply_retention(TIME + 6500, 10)

        assert again.start_offset <= 2
        again.close()


def test_records_without_time_age_from_when_they_were_written() -> None:
    clock = ManualClock()
    disk = simulated_disk(now_ms=clock.wall_ms)
    log = open_log(disk, LogConfig(retention_ms=1000), clock=clock)
    produce(log, b"v", timestamp=-1)
    log.roll()

    assert log.apply_retention(TIME + 1000, 1) == []
    assert len(log.apply_retention(TIME + 1001, 1)) == 1


# -- in memory


def memory(**settings: Any) -> MemoryLog:
    return MemoryLog(LogConfig(**settings), clock=ManualClock())


def test_a_full_memory_log_refuses_and_says_why() -> None:
    log = memory(memory_max_messages=3)
    for _ in range(3):
        produce(log, b"v")
    with pytest.raises(RequestError, match="full") as error:
        produce(log, b"v")
    assert error.value.code is ErrorCode.POLICY_VIOLATION
    assert log.end_offset == 3


def test_a_full_memory_log_drops_its_oldest_when_told_so() -> None:
    log = memory(memory_max_messages=5, memory_full_policy="drop-oldest")
    for index in range(3000):
        produce(log, b"%d" % index)

    assert values_of(log) == [b"%d" % index for index in range(2995, 3000)]
    assert (log.start_offset, log.end_offset) == (2995, 3000)


def test_a_memory_log_is_bounded_by_bytes_too() -> None:
    log = memory(memory_max_bytes=2000, memory_full_policy="drop-oldest")
    for _ in range(100):
        produce(log, b"v" * 100)
        assert log.size_bytes <= 2000
    with pytest.raises(RequestError) as error:
        produce(log, b"v" * 3000)
    assert error.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_memory_log_forgets_by_age_and_size() -> None:
    log = memory(retention_ms=5000)
    for index in range(10):
        produce(log, b"%d" % index, timestamp=TIME + 1000 * index)
    log.apply_retention(TIME + 8500, 10)
    assert offsets_of(log) == [4, 5, 6, 7, 8, 9]

    log = memory(retention_ms=-1, retention_bytes=300)
    for _ in range(10):
        produce(log, b"v" * 50)
    log.apply_retention(TIME, 10)
    assert 300 <= log.size_bytes < 450


def expiring(value: bytes, ttl_ms: int, **options: Any) -> bytes:
    return build_batch([Record(0, TIME, options.pop("key", None), value, (("headrace-ttl-ms", b"%d" % ttl_ms),))], **options)


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_in_memory_what_arrives_later_expires_in_its_turn(policy: str) -> None:
    log = memory(message_ttl_enable=True, cleanup_policy=frozenset({policy}), retention_ms=-1)
    log.append(expiring(b"a day", 86_400_000, key=b"a"), 0)
    log.apply_retention(TIME + 10, log.end_offset)
    for round_ in range(1, 4):
        log.append(expiring(b"short", 200 * round_, key=b"s%d" % round_), 0)
        log.apply_retention(TIME, log.end_offset)
        log.append(build_batch([Record(0, TIME, b"k%d" % round_, b"stays")]), 0)
        log.apply_retention(TIME + 200 * round_ + 1, log.end_offset)
        assert values_of(log) == [b"a day"] + [b"stays"] * round_
    log.apply_retention(TIME + 86_400_001, log.end_offset)
    assert values_of(log) == [b"stays"] * 3


def test_in_memory_expiry_uncovers_no_older_value() -> None:
    log = memory(message_ttl_enable=True, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.9)
    for index in range(30):
        log.append(build_batch([Record(0, TIME, b"%d" % index, b"v" * 100)]), 0)
    log.apply_retention(TIME, log.end_offset)
    log.append(expiring(b"expires", 1000, key=b"7"), 0)
    log.append(build_batch([Record(0, TIME, b"8", b"last")]), 0)
    log.apply_retention(TIME, log.end_offset)
    assert len(values_of(log)) == 32
    log.apply_retention(TIME + 1001, log.end_offset)

    assert len(values_of(log)) == 29
    assert [record.value for record in read_all(log) if record.key in (b"7", b"8")] == [b"last"]


def test_a_log_in_memory_may_be_used_between_two_steps_of_its_cleaning() -> None:
    """Whatever happens to it meanwhile, the last value of each key is there at the end."""
    for seed in range(30):
        randomness = random.Random(seed)
        log = memory(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.01, message_ttl_enable=seed % 2 == 0)
        written: list[tuple[int, bytes, bytes]] = []

        def write(log: MemoryLog, randomness: random.Random, written: list[tuple[int, bytes, bytes]]) -> None:
            key, value = b"%d" % randomness.randint(0, 9), b"%d" % randomness.randint(0, 999)
            written.append((log.append(build_batch([Record(0, TIME, key, value)]), 0).base_offset, key, value))

        for _ in range(200):
            write(log, randomness, written)
        start = 0
        for _ in log.retention_steps(TIME, log.end_offset):
            match randomness.randint(0, 40):
                case 0:
                    start = max(start, min(log.end_offset, log.start_offset + randomness.randint(0, 9)))
                    log.delete_before(start)
                case 1:
                    cut = max(log.start_offset, log.end_offset - randomness.randint(0, 5))
                    log.truncate_to(cut)
                    written = [each for each in written if each[0] < log.end_offset]
                case 2 | 3 | 4 | 5:
                    write(log, randomness, written)
        log.apply_retention(TIME, log.end_offset)
        expected = {key: value for offset, key, value in written if offset >= log.start_offset}

        assert {record.key: record.value for record in read_all(log)} == expected, seed
        assert log.size_bytes == sum(len(batch.data) for batch in log.batches.some_from(0, 10_000)), seed
        assert log.batches.dirty_bytes == 0 or log.batches.compacted_to < log.end_offset, seed


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ttl", "compact", "compressed", "retention"])
def test_cleaning_in_memory_is_never_busy_for_long(kind: str) -> None:
    log = memory(
        message_ttl_enable=kind != "retention",
        cleanup_policy=frozenset({"delete" if kind in ("ttl", "retention") else "compact"}),
        min_cleanable_dirty_ratio=0.01,
        retention_ms=1000 if kind == "retention" else -1,
    )
    records = [Record(0, TIME, b"%d" % (index % 97), b"v" * 20, (("headrace-ttl-ms", b"5"),)) for index in range(3000)]
    log.append(build_batch(records, compression="gzip" if kind == "compressed" else "none"), 0)
    for index in range(4000):
        log.append(build_batch(records[index % 50 : index % 50 + 3]), 0)
    steps = log.retention_steps(TIME + 10_000, log.end_offset)
    longest, answer = 0.0, None
    gc.collect()
    gc.disable()
    try:
        while True:
            began = time.thread_time()
            try:
                step = steps.send(answer)
            except StopIteration:
                break
            finally:
                longest = max(longest, time.thread_time() - began)
            answer = step() if step is not None else None
    finally:
        gc.enable()

    assert log.batches.record_count == 0
    assert longest < 0.005


def test_a_memory_log_removes_what_expired() -> None:
    log = memory(message_ttl_enable=True)
    for ttl in (b"10", b"1000", b"x"):
        log.append(build_batch([Record(0, TIME, None, ttl, (("headrace-ttl-ms", ttl),))]), 0)
    log.apply_retention(TIME + 500, 3)
    assert values_of(log) == [b"1000", b"x"]
    log.apply_retention(TIME + 1001, 3)
    assert values_of(log) == [b"x"]
    assert log.end_offset == 3
