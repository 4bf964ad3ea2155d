"""What every log does, on disk and in memory alike."""

import gc
import random
import struct
import time
from itertools import pairwise
from typing import Any

import pytest

from headrace.log.cleaning.steps import finish
from headrace.log.interface import FoundOffset, Origin
from headrace.log.validation import RecordsRefused, deep_steps
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.topic_settings import LogConfig
from headrace.records.batch import build_batch, iterate_batches, read_header
from headrace.records.control import build_end_marker
from headrace.records.record import Record, read_records
from tests.unit.log.storing import (
    TIME,
    ManualClock,
    OpenLog,
    batch_of,
    offsets_of,
    produce,
    read_all,
    refused,
    values_of,
)


def checked(batch: bytes | bytearray, config: LogConfig, now_ms: int) -> Any:
    """A batch after deep validation, without a pause."""
    return finish(deep_steps(batch, config, now_ms))


# -- appending and reading


def test_offsets_are_consecutive_and_everything_comes_back(make_log: OpenLog) -> None:
    log = make_log()
    first = log.append(batch_of(b"a", b"b", b"c"), 0)
    second = log.append(batch_of(b"d"), 0)

    assert (first.base_offset, first.last_offset) == (0, 2)
    assert (second.base_offset, second.last_offset) == (3, 3)
    assert log.end_offset == 4
    assert values_of(log) == [b"a", b"b", b"c", b"d"]


def test_a_batch_is_stored_as_it_came_but_for_offset_and_epoch(make_log: OpenLog) -> None:
    log = make_log()
    produce(log, b"first")
    batch = batch_of(b"x" * 500, compression="zstd")
    log.append(batch, 7)

    read = log.read(1, max_bytes=10_000, up_to=2, at_least_one=True)
    assert bytes(read.data)[16:] == batch[16:]
    header = read_header(read.data)
    assert (header.base_offset, header.leader_epoch) == (1, 7)


def test_a_read_inside_a_batch_returns_that_whole_batch(make_log: OpenLog) -> None:
    log = make_log()
    produce(log, b"a", b"b", b"c")
    produce(log, b"d")

    read = log.read(1, max_bytes=10_000, up_to=4, at_least_one=True)
    assert (read.first_offset, read.next_offset) == (0, 4)


def test_a_read_is_cut_between_batches(make_log: OpenLog) -> None:
    log = make_log()
    for _ in range(10):
        log.append(batch_of(b"v" * 50), 0)
    sizes = [len(batch_of(b"v" * 50))] * 10
    for count in range(1, 10):
        for spare in (0, 1, sizes[0] - 1):
            read = log.read(0, max_bytes=sum(sizes[:count]) + spare, up_to=10, at_least_one=False)
            assert read.next_offset == count
            assert len(read.data) == sum(sizes[:count])


def test_the_first_batch_comes_whole_when_at_least_one_is_asked_for(make_log: OpenLog) -> None:
    log = make_log()
    produce(log, b"v" * 1000)
    produce(log, b"w")

    assert log.read(0, max_bytes=1, up_to=2, at_least_one=True).next_offset == 1
    nothing = log.read(0, max_bytes=1, up_to=2, at_least_one=False)
    assert (len(nothing.data), nothing.next_offset) == (0, 0)


@pytest.mark.parametrize("up_to", range(8))
def test_no_reader_sees_past_its_bound(make_log: OpenLog, up_to: int) -> None:
    log = make_log()
    for values in ([b"a"], [b"b", b"c"], [b"d", b"e", b"f"], [b"g"]):
        produce(log, *values)

    # Only whole batches below the bound: 0, 1-2, 3-5, 6.
    expected = max(end for end in (0, 1, 3, 6, 7) if end <= up_to)
    assert offsets_of(log, up_to=up_to) == list(range(expected))


def test_an_offset_that_is_not_there_is_out_of_range(make_log: OpenLog) -> None:
    log = make_log()
    produce(log, b"a", b"b")

    assert not log.read(2, max_bytes=100, up_to=2, at_least_one=True).data
    for offset in (-1, 3):
        with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
            log.read(offset, max_bytes=100, up_to=2, at_least_one=True)


def test_a_reader_at_the_end_gets_what_is_appended_next(make_log: OpenLog) -> None:
    log = make_log()
    for index in range(50):
        assert not log.read(index, max_bytes=1000, up_to=log.end_offset, at_least_one=True).data
        produce(log, b"%d" % index)
        read = log.read(index, max_bytes=1000, up_to=log.end_offset, at_least_one=True)
        assert (read.first_offset, read.next_offset) == (index, index + 1)


def test_several_batches_of_a_coordinator_are_one_append(make_log: OpenLog) -> None:
    log = make_log()
    appended = log.append(batch_of(b"a") + batch_of(b"b", b"c"), 0, origin=Origin.COORDINATOR)

    assert (appended.base_offset, appended.last_offset) == (0, 2)
    assert values_of(log) == [b"a", b"b", b"c"]


# -- what is refused


def test_a_client_sends_one_batch_at_a_time(make_log: OpenLog) -> None:
    log = make_log()
    with refused(ErrorCode.INVALID_RECORD):
        log.append(batch_of(b"a") + batch_of(b"b"), 0)
    assert log.end_offset == 0


def test_a_wrong_crc_is_refused(make_log: OpenLog) -> None:
    log = make_log()
    batch = bytearray(batch_of(b"value"))
    batch[-1] ^= 1
    with refused(ErrorCode.CORRUPT_MESSAGE):
        log.append(batch, 0)
    assert log.end_offset == 0
    assert log.size_bytes == 0


def test_a_batch_over_the_limit_is_refused(make_log: OpenLog) -> None:
    log = make_log(LogConfig(max_message_bytes=100))
    with refused(ErrorCode.MESSAGE_TOO_LARGE):
        produce(log, b"v" * 100)


@pytest.mark.parametrize("count", [0, 1, 3, -1])
def test_a_record_count_that_does_not_fit_the_offsets_is_refused(make_log: OpenLog, count: int) -> None:
    from headrace.records.header import write_crc

    batch = bytearray(batch_of(b"a", b"b"))
    struct.pack_into(">i", batch, 57, count)
    write_crc(batch)
    with refused(ErrorCode.INVALID_RECORD):
        make_log().append(batch, 0)


def test_clients_may_not_write_markers(make_log: OpenLog) -> None:
    with refused(ErrorCode.INVALID_RECORD):
        make_log().append(build_end_marker(1, 0, True, 0, TIME), 0)


def test_old_formats_are_refused(make_log: OpenLog) -> None:
    batch = bytearray(batch_of(b"a"))
    batch[16] = 1
    with refused(ErrorCode.INVALID_RECORD):
        make_log().append(batch, 0)


def test_a_timestamp_too_far_in_the_future_is_refused(make_log: OpenLog) -> None:
    log = make_log(LogConfig(message_timestamp_after_max_ms=1000))
    produce(log, b"a", timestamp=TIME + 1000)
    with refused(ErrorCode.INVALID_TIMESTAMP):
        produce(log, b"b", timestamp=TIME + 1001)


@pytest.mark.parametrize("noise", [b"", b"x", bytes(60), bytes(61), b"\xff" * 100])
def test_noise_is_refused(make_log: OpenLog, noise: bytes) -> None:
    log = make_log()
    with pytest.raises(RequestError):
        log.append(noise, 0)
    assert log.end_offset == 0


def test_a_compacted_topic_names_the_record_without_a_key() -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    batch = build_batch([Record(0, TIME, b"k", b"v"), Record(0, TIME, None, b"v")])

    assert config.needs_deep_validation
    with pytest.raises(RecordsRefused, match="record 1") as error:
        checked(batch, config, TIME)
    assert error.value.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.value.record_errors] == [1]


def test_a_topic_with_a_codec_packs_anew_and_keeps_the_producers_identity() -> None:
    config = LogConfig(compression_type="zstd")
    batch = batch_of(b"v" * 500, b"w" * 500, compression="gzip", producer_id=3, producer_epoch=1, base_sequence=8)

    changed = checked(batch, config, TIME)
    header = read_header(changed)
    assert header.compression == "zstd"
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 1, 8)
    assert read_records(changed) == read_records(batch)


def test_records_too_old_for_the_topic_are_refused_one_by_one() -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000)
    batch = build_batch([Record(0, TIME, None, b"v"), Record(0, TIME - 1001, None, b"v")])

    assert config.needs_deep_validation
    with pytest.raises(RecordsRefused, match="record 1") as error:
        checked(batch, config, TIME)
    assert error.value.code is ErrorCode.INVALID_TIMESTAMP


def test_every_wrong_record_is_named_however_large_the_batch() -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    wrong = {3, 150, 999}
    batch = build_batch([Record(0, TIME, None if index in wrong else b"k", b"v") for index in range(1000)], compression="gzip")
    with pytest.raises(RecordsRefused) as error:
        checked(batch, config, TIME)
    assert {index for index, _ in error.value.record_errors} == wrong


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_looking_at_each_record_is_never_busy_for_long(codec: str) -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}), compression_type="gzip")
    batch = build_batch([Record(0, TIME, b"key-%d" % index, b"v" * 20) for index in range(5_000)], compression=codec)

    # A busy machine makes a step longer now and then, and never shorter.
    assert max(map(min, zip(*(step_times(batch, config) for _ in range(5)), strict=True))) < 0.01


def test_little_that_unpacks_to_much_is_unpacked_elsewhere() -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    batch = build_batch([Record(0, TIME, b"k", bytes(1_000_000))], compression="zstd")
    assert len(batch) < 1_000

    unpack = next(deep_steps(batch, config, TIME))
    assert callable(unpack)
    assert len(unpack()) > 1_000_000


def step_times(batch: bytes, config: LogConfig) -> list[float]:
    """The seconds for which this thread computes in each step."""
    steps = deep_steps(batch, config, TIME)
    taken, answer = [], None
    gc.collect()
    gc.disable()
    try:
        while True:
            began = time.thread_time()
            try:
                step = steps.send(answer)
            except StopIteration as end:
                checked = end.value
                break
            finally:
                taken.append(time.thread_time() - began)
            answer = step() if step is not None else None
    finally:
        gc.enable()

    assert read_records(checked) == read_records(batch)
    return taken


def test_deep_validation_does_not_give_broken_bytes_a_good_crc() -> None:
    batch = bytearray(batch_of(b"value", compression="none"))
    batch[-2] ^= 1
    with refused(ErrorCode.CORRUPT_MESSAGE):
        checked(batch, LogConfig(compression_type="lz4"), TIME)


# -- time


def test_the_brokers_time_is_stamped_where_the_topic_asks(make_log: OpenLog) -> None:
    log = make_log(LogConfig(message_timestamp_type="LogAppendTime"), ManualClock(TIME + 777))
    appended = log.append(batch_of(b"a", timestamp=5), 0)

    assert appended.log_append_time == TIME + 777
    assert [record.timestamp for record in read_all(log)] == [TIME + 777]


def test_a_record_is_found_by_its_time(make_log: OpenLog) -> None:
    log = make_log(LogConfig(segment_bytes=2000, index_interval_bytes=100))
    for index in range(100):
        produce(log, b"a" * 20, timestamp=TIME + 10 * index, epoch=index // 50)
    for index in (0, 1, 37, 50, 99):
        for early in (0, 9):
            assert log.offset_for_timestamp(TIME + 10 * index - early, 100) == FoundOffset(TIME + 10 * index, index, index // 50)
    assert log.offset_for_timestamp(TIME + 991, 100) is None
    assert log.offset_for_timestamp(TIME + 500, 50) is None


def test_within_a_batch_the_first_record_at_or_after_a_time_is_found(make_log: OpenLog) -> None:
    log = make_log()
    log.append(build_batch([Record(0, TIME + delta, None, b"v") for delta in (0, 30, 10, 50)]), 0)

    found = log.offset_for_timestamp(TIME + 20, 4)
    assert found is not None
    assert (found.offset, found.timestamp) == (1, TIME + 30)


def test_the_greatest_timestamp_is_found_wherever_it_is(make_log: OpenLog) -> None:
    log = make_log(LogConfig(segment_bytes=500))
    for delta in (5, 90, 20, 70, 60, 90, 1):
        produce(log, b"v" * 100, timestamp=TIME + delta)

    assert log.offset_of_max_timestamp(7) == FoundOffset(TIME + 90, 1, 0)
    assert log.offset_of_max_timestamp(1) == FoundOffset(TIME + 5, 0, 0)
    assert make_log().offset_of_max_timestamp(0) is None


def test_the_greatest_timestamp_is_that_of_what_may_be_seen(make_log: OpenLog) -> None:
    randomness = random.Random(5)
    for _ in range(20):
        log = make_log(LogConfig(segment_bytes=900, index_interval_bytes=200))
        times = [TIME + randomness.randrange(30) + index * randomness.randrange(2) for index in range(40)]
        for moment in times:
            produce(log, b"v" * 50, timestamp=moment)
        start = randomness.randrange(20)
        log.delete_before(start)

        for up_to in range(start + 1, 41):
            seen = times[start:up_to]
            assert log.offset_of_max_timestamp(up_to) == FoundOffset(max(seen), start + seen.index(max(seen)), 0), (times, start)


# -- less of it


def test_deleted_records_are_out_of_range_and_the_rest_stays(make_log: OpenLog) -> None:
    log = make_log(LogConfig(segment_bytes=300))
    for index in range(10):
        produce(log, b"%d" % index * 20)
    log.delete_before(4)

    assert log.start_offset == 4
    assert offsets_of(log) == [4, 5, 6, 7, 8, 9]
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        log.read(3, max_bytes=100, up_to=10, at_least_one=True)
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        log.delete_before(11)


def test_a_truncated_log_goes_on_from_where_it_was_cut(make_log: OpenLog) -> None:
    log = make_log(LogConfig(segment_bytes=300))
    for index in range(10):
        produce(log, b"%d" % index * 20, epoch=index // 4)
    log.truncate_to(6)

    assert log.end_offset == 6
    assert log.epochs.latest == 1
    assert produce(log, b"new", epoch=5) == 6
    assert values_of(log) == [b"%d" % index * 20 for index in range(6)] + [b"new"]
    assert list(log.epochs) == [(0, 0), (1, 4), (5, 6)]


def test_a_log_can_start_over_at_an_offset(make_log: OpenLog) -> None:
    log = make_log()
    produce(log, b"old")
    log.truncate_fully_and_start_at(100)

    assert (log.start_offset, log.end_offset, log.size_bytes) == (100, 100, 0)
    assert produce(log, b"new") == 100
    assert values_of(log) == [b"new"]


# -- what people see


def test_a_log_and_its_parts_say_what_they_are(make_log: OpenLog) -> None:
    log = make_log()
    produce(log, b"a", epoch=3, producer_id=7, producer_epoch=1, base_sequence=0, transactional=True)
    produce(log, b"b", epoch=3)

    assert "[0, 2)" in repr(log)
    assert repr(log.epochs) == "<epochs 3 from 0>"
    assert repr(log.producers.get(7)) == "<producer 7 epoch 1 at sequence 0, in a transaction from 0>"


# -- followers


def test_a_follower_keeps_the_leaders_offsets_and_epochs(make_log: OpenLog) -> None:
    leader, follower = make_log(), make_log()
    for index in range(10):
        produce(leader, b"%d" % index, epoch=index // 3)
    read = leader.read(0, max_bytes=10_000, up_to=10, at_least_one=True)
    follower.append_as_follower(read.data)

    assert follower.end_offset == 10
    assert read_all(follower) == read_all(leader)
    assert list(follower.epochs) == list(leader.epochs)


def test_a_follower_accepts_gaps_but_no_steps_back(make_log: OpenLog) -> None:
    log = make_log()
    log.append_as_follower(batch_of(b"a", base_offset=5, leader_epoch=2))
    log.append_as_follower(batch_of(b"b", base_offset=9, leader_epoch=2))

    assert log.end_offset == 10
    assert offsets_of(log, start=5) == [5, 9]
    with refused(ErrorCode.INVALID_RECORD):
        log.append_as_follower(batch_of(b"c", base_offset=9, leader_epoch=2))


def test_an_epoch_whose_first_records_the_leader_compacted_away_begins_where_the_follower_s_log_ended(make_log: OpenLog) -> None:
    log = make_log()
    for _ in range(3):
        produce(log, b"v", epoch=5)
    log.append_as_follower(batch_of(b"a", base_offset=5, leader_epoch=6) + batch_of(b"b", base_offset=9, leader_epoch=8))

    assert list(log.epochs) == [(5, 0), (6, 3), (8, 6)]
    # Who has something else at 3 or 4, of epoch 5, is told to give it up.
    assert log.epochs.end_offset_for(5) == (5, 3)


def test_the_end_of_an_epoch_is_where_the_next_one_began(make_log: OpenLog) -> None:
    log = make_log()
    for epoch, count in ((1, 3), (4, 2), (5, 4)):
        for _ in range(count):
            produce(log, b"v", epoch=epoch)

    assert log.epochs.end_offset_for(0) == (0, 0)
    assert log.epochs.end_offset_for(1) == (1, 3)
    assert log.epochs.end_offset_for(3) == (1, 3)
    assert log.epochs.end_offset_for(4) == (4, 5)
    assert log.epochs.end_offset_for(5) == (5, 9)
    assert log.epochs.end_offset_for(6) == (-1, -1)


def test_the_batches_a_reader_gets_parse_on(make_log: OpenLog) -> None:
    log = make_log()
    for index in range(20):
        produce(log, *[b"v"] * (index % 3 + 1))
    read = log.read(0, max_bytes=700, up_to=log.end_offset, at_least_one=True)

    headers = [header for header, _ in iterate_batches(read.data)]
    assert headers[-1].next_offset == read.next_offset
    assert all(a.next_offset == b.base_offset for a, b in pairwise(headers))
