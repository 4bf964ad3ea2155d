"""Compaction keeps the last value per key, expiry removes what is over, and a crash at any step changes nothing a reader sees."""

import pickle
import random
from dataclasses import replace
from typing import Any

import pytest

from headrace.log.cleaning.compaction import compact, discard, plan_compaction, publish, swap_in
from headrace.log.cleaning.rules import KeyMap
from headrace.log.cleaning.steps import finish
from headrace.log.interface import AbortedTransaction, CorruptBatch, Origin, PartitionLog
from headrace.log.log import Log
from headrace.log.memory.cleaning import MemoryCleaning
from headrace.log.memory.memory_log import MemoryLog
from headrace.log.segments.segment import segment_path
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.topic_settings import LogConfig
from headrace.records.batch import build_batch, crc_matches, iterate_batches
from headrace.records.compression import CODEC_NAMES
from headrace.records.record import Record, read_records
from headrace.testing.disk import SimulatedCrash, SimulatedDisk
from tests.unit.log.compacting import COMPACTED, clean, latest_of, put
from tests.unit.log.storing import (
    DAY_MS,
    DIRECTORY,
    TIME,
    ManualClock,
    end_transaction,
    keyed,
    offsets_of,
    open_log,
    read_all,
    simulated_disk,
)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_the_last_value_of_each_key_stays_where_it_was(codec: str) -> None:
    log = open_log(simulated_disk(), COMPACTED)
    for index in range(60):
        put(log, (b"k%d" % (index % 4), b"%d" % index), (b"once-%d" % index, b"x"), compression=codec)
    before = read_all(log)
    log.roll()
    clean(log)
    after = read_all(log)

    assert latest_of(after) == latest_of(before)
    assert all(record in before for record in after)
    assert [record.offset for record in after if record.key == b"k1"] == [114]
    assert len(after) == 64
    assert log.end_offset == 120


@pytest.mark.slow
def test_random_writes_compact_to_what_a_dictionary_holds() -> None:
    for seed in range(8):
        randomness = random.Random(seed)
        log = open_log(simulated_disk(seed), COMPACTED)
        expected: dict[bytes, bytes | None] = {}
        for round_ in range(6):
            for _ in range(randomness.randint(1, 25)):
                pairs = [(b"%d" % randomness.randint(0, 9), randomness.choice([b"%d" % round_ * 20, None])) for _ in range(3)]
                put(log, *pairs, compression=randomness.choice(CODEC_NAMES))
                expected.update(pairs)
            if randomness.random() < 0.3:
                log.roll()
            clean(log, TIME + round_ * 2 * DAY_MS)
            assert latest_of(read_all(log)) == {k: v for k, v in expected.items() if v is not None}, seed
            offsets = offsets_of(log)
            assert offsets == sorted(set(offsets)), seed


def test_every_offset_can_still_be_asked_for() -> None:
    log = open_log(simulated_disk(), COMPACTED)
    for index in range(50):
        put(log, (b"k%d" % (index % 3), b"v" * 40))
    log.roll()
    clean(log)
    kept = offsets_of(log)
    for offset in range(50):
        following = [each for each in kept if each >= offset]
        assert offsets_of(log, start=offset) == following


def test_a_tombstone_stays_readable_for_its_time_and_then_goes() -> None:
    log = open_log(simulated_disk(), COMPACTED)
    put(log, (b"k", b"v"), (b"other", b"stays"))
    put(log, (b"k", None))
    log.roll()
    clean(log, TIME)
    assert [(record.key, record.value) for record in read_all(log)] == [(b"other", b"stays"), (b"k", None)]

    put(log, (b"x", b"1"))
    log.roll()
    clean(log, TIME + DAY_MS - 1)
    assert (b"k", None) in [(record.key, record.value) for record in read_all(log)]
    put(log, (b"x", b"2"))
    log.roll()
    clean(log, TIME + DAY_MS)
    assert [(record.key, record.value) for record in read_all(log)] == [(b"other", b"stays"), (b"x", b"2")]


def test_records_younger_than_the_lag_are_left_alone() -> None:
    config = LogConfig(
        cleanup_policy=frozenset({"compact"}), segment_bytes=600, min_cleanable_dirty_ratio=0.01, min_compaction_lag_ms=1000
    )
    log = open_log(simulated_disk(), config)
    put(log, (b"k", b"old"), timestamp=TIME)
    put(log, (b"k", b"newer"), timestamp=TIME)
    log.roll()
    put(log, (b"k", b"young"), timestamp=TIME + 900)
    log.roll()
    clean(log, TIME + 1500)

    assert [record.value for record in read_all(log)] == [b"newer", b"young"]


def test_too_little_dirt_is_not_worth_it_unless_it_is_overdue() -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=1_000_000, min_cleanable_dirty_ratio=0.5)
    log = open_log(simulated_disk(), config)
    for index in range(50):
        put(log, (b"%d" % index, b"v" * 100))
    log.roll()
    clean(log)
    put(log, (b"1", b"again"))
    log.roll()

    assert plan_compaction(log, TIME + 10_000, log.end_offset) is None
    log.reconfigure(LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=9_999))
    assert plan_compaction(log, TIME + 10_000, log.end_offset) is not None
    log.reconfigure(LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.5))
    assert plan_compaction(log, TIME + 10_000, log.end_offset) is None
    log.reconfigure(LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.001))
    assert plan_compaction(log, TIME + 10_000, log.end_offset) is not None


def test_nothing_above_the_high_watermark_or_an_open_transaction_is_touched() -> None:
    log = open_log(simulated_disk(), COMPACTED)
    for index in range(20):
        put(log, (b"k", b"%d" % index * 30))
    put(log, (b"k", b"open"), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    log.roll()
    plan = plan_compaction(log, TIME, 10)
    assert plan is not None
    assert plan.upper_bound <= 10
    plan = plan_compaction(log, TIME, log.end_offset)
    assert plan is not None
    assert plan.upper_bound <= 20


def test_a_map_that_is_full_compacts_a_part_and_goes_on_next_time() -> None:
    log = open_log(simulated_disk(), COMPACTED)
    for index in range(40):
        put(log, (b"k%d" % (index % 20), b"%d" % index * 10))
    log.roll()
    before = latest_of(read_all(log))
    for _ in range(6):
        clean(log, keys_max=7)
        assert latest_of(read_all(log)) == before
    assert len(read_all(log)) == 20
    assert log.segments.clean_offset == 40


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_a_batch_with_more_keys_than_the_map_holds_is_compacted_all_the_same(kind: str) -> None:
    log: Any = open_log(simulated_disk(), COMPACTED) if kind == "disk" else MemoryLog(COMPACTED, clock=ManualClock())
    for value in (b"old", b"new"):
        put(log, *((b"%d" % index, value) for index in range(30)))
    put(log, (b"last", b"1"))
    log.roll()
    for _ in range(4):
        if kind == "memory":
            finish(MemoryCleaning(log, TIME, log.end_offset, keys_max=7).steps())
        else:
            clean(log, keys_max=7)

    assert [record.value for record in read_all(log)] == [b"new"] * 30 + [b"1"]
    if kind == "disk":
        assert log.segments.clean_offset == 61


def test_long_keys_are_told_apart() -> None:
    keys = KeyMap()
    assert keys.put(b"a" * 100, 1)
    assert keys.put(b"a" * 101, 5)

    assert not keys.is_superseded(b"a" * 100, 1)
    assert keys.is_superseded(b"a" * 101, 4)


# -- transactions and producers


def test_aborted_records_go_and_markers_follow_when_their_records_are_gone() -> None:
    log = open_log(simulated_disk(), COMPACTED)
    put(log, (b"a", b"committed"), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    end_transaction(log, 1, committed=True)
    put(log, (b"a", b"aborted"), (b"b", b"aborted"), producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
    end_transaction(log, 2, committed=False)
    put(log, (b"c", b"plain"))
    log.producers.on_high_watermark(log.end_offset)
    log.roll()
    clean(log, TIME)

    assert [(record.key, record.value) for record in read_all(log)] == [(b"a", b"committed"), (b"c", b"plain")]
    # A reader that fetched the aborted records just before still learns that they do not count.
    assert log.aborted_transactions(0, log.end_offset) == [AbortedTransaction(2, 2)]

    # As long as producer 2 is known, its last batch stays, empty, and with it the marker; then both go.
    log.producers.remove_expired(0)
    for round_ in (1, 2, 3):
        put(log, (b"c", b"%d" % round_))
        log.roll()
        clean(log, TIME + round_ * DAY_MS)
    assert log.aborted_transactions(0, log.end_offset) == []
    assert latest_of(read_all(log)) == {b"a": b"committed", b"c": b"3"}


def test_what_a_producer_commits_after_an_aborted_transaction_counts() -> None:
    """A tombstone that hid nothing would go in its time, and what it deleted be back."""
    log = open_log(simulated_disk(), COMPACTED)
    put(log, (b"deleted", b"old"), (b"changed", b"old"))
    put(log, (b"x", b"aborted"), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    end_transaction(log, 1, committed=False)
    log.producers.on_high_watermark(log.end_offset)
    log.roll()
    clean(log)
    put(log, (b"deleted", None), (b"changed", b"new"), producer_id=1, producer_epoch=0, base_sequence=1, transactional=True)
    end_transaction(log, 1, committed=True)
    log.producers.on_high_watermark(log.end_offset)
    for round_ in range(4):
        log.roll()
        clean(log, TIME + round_ * 2 * DAY_MS)
        assert latest_of(read_all(log)) == {b"changed": b"new", **({b"dirt": b"."} if round_ else {})}
        put(log, (b"dirt", b"."))

    assert [record.value for record in read_all(log) if record.key == b"changed"] == [b"new"]


def test_in_memory_what_a_producer_commits_after_an_aborted_transaction_stays() -> None:
    """Also where nothing is left of the aborted one, not even its marker."""
    log = MemoryLog(COMPACTED, clock=ManualClock())

    def pass_time(rounds: range) -> None:
        for round_ in rounds:
            log.append(keyed((b"dirt", b".")), 0)
            log.producers.on_high_watermark(log.end_offset)
            log.apply_retention(TIME + round_ * 2 * DAY_MS, log.end_offset)

    def write(value: bytes, sequence: int, *, committed: bool) -> None:
        batch = keyed((b"k", value), producer_id=1, producer_epoch=0, base_sequence=sequence, transactional=True)
        log.append(batch, 0)
        end_transaction(log, 1, committed=committed)

    write(b"kept", 0, committed=True)
    write(b"aborted", 1, committed=False)
    write(b"committed", 2, committed=True)
    pass_time(range(4))
    assert log.aborted_transactions(0, log.end_offset) == []
    write(b"last", 3, committed=True)
    pass_time(range(4, 8))

    assert latest_of(read_all(log)) == {b"k": b"last", b"dirt": b"."}


def test_an_emptied_batch_keeps_a_producers_last_sequence_across_a_restart() -> None:
    disk = simulated_disk()
    log = open_log(disk, COMPACTED)
    put(log, (b"k", b"1"), producer_id=7, producer_epoch=0, base_sequence=0)
    put(log, (b"k", b"2"), producer_id=7, producer_epoch=0, base_sequence=1)
    put(log, (b"k", b"3"))
    log.roll()
    clean(log)
    assert [record.value for record in read_all(log)] == [b"3"]
    log.sync()
    disk.crash()
    # Without any snapshot only the batches can say.
    for path in disk.files():
        if path.name.endswith(".snapshot"):
            disk.remove(path)
    again = open_log(disk, COMPACTED)

    with pytest.raises(RequestError) as error:
        put(again, (b"k", b"x"), producer_id=7, producer_epoch=0, base_sequence=5)
    assert error.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    put(again, (b"k", b"x"), producer_id=7, producer_epoch=0, base_sequence=2)


def test_a_follower_of_a_compacted_leader_gets_the_gaps_too() -> None:
    leader = open_log(simulated_disk(), COMPACTED)
    for index in range(60):
        put(leader, (b"k%d" % (index % 5), b"%d" % index * 10))
    leader.roll()
    clean(leader)
    follower = open_log(simulated_disk(), COMPACTED)
    offset = 0
    while offset < leader.end_offset:
        read = leader.read(offset, max_bytes=200, up_to=leader.end_offset, at_least_one=True, as_stored=True)
        follower.append_as_follower(read.data)
        offset = read.next_offset
    assert read_all(follower) == read_all(leader)
    assert follower.end_offset == leader.end_offset


def heavily_compacted(log: PartitionLog) -> None:
    """Many producers of which nothing is left, then a few records, then a last producer of which nothing is left either."""
    for producer_id in range(40):
        batch = keyed((b"k", b"%d" % producer_id), producer_id=producer_id, producer_epoch=0, base_sequence=0)
        log.append(batch, 0)
    for index in range(3):
        log.append(keyed((b"k", b"last"), (b"stays-%d" % index, b"v"), compression="gzip"), 0)
    for producer_id in (50, 51):
        first = log.append(
            keyed((b"t", b"%d" % producer_id), producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True), 0
        )
        end_transaction(log, producer_id, committed=producer_id == 51)
        assert not first.duplicate
    record = Record(0, TIME, b"gone", b"x", (("headrace-ttl-ms", b"1"),))
    log.append(build_batch([record] * 4, producer_id=60, producer_epoch=0, base_sequence=0), 0)
    log.producers.on_high_watermark(log.end_offset)


@pytest.fixture(params=["disk", "memory"])
def compacted(request: pytest.FixtureRequest) -> PartitionLog:
    config = replace(COMPACTED, message_ttl_enable=True)
    if request.param == "memory":
        memory = MemoryLog(config, clock=ManualClock())
        heavily_compacted(memory)
        memory.apply_retention(TIME + 10, memory.end_offset)
        return memory
    log = open_log(simulated_disk(), config)
    heavily_compacted(log)
    log.roll()
    clean(log, TIME + 10)
    return log


def test_no_consumer_gets_a_batch_without_records_and_each_reaches_the_end(compacted: PartitionLog) -> None:
    for start in range(compacted.end_offset):
        for max_bytes in (1, 100, 100_000):
            offset = start
            while offset < compacted.end_offset:
                read = compacted.read(offset, max_bytes=max_bytes, up_to=compacted.end_offset, at_least_one=True)
                headers = [header for header, batch in iterate_batches(read.data) if crc_matches(batch)]
                assert headers
                assert all(header.record_count for header in headers)
                assert read.next_offset == headers[-1].next_offset > offset
                assert read.first_offset == headers[0].base_offset
                offset = read.next_offset
    assert latest_of(read_all(compacted)) == {b"k": b"last", b"t": b"51"} | {b"stays-%d" % index: b"v" for index in range(3)}


def test_the_end_of_a_log_without_records_is_a_control_record_to_step_over(compacted: PartitionLog) -> None:
    last = max(record.offset for record in read_all(compacted)) + 2
    read = compacted.read(last, max_bytes=1, up_to=compacted.end_offset, at_least_one=True)
    [(header, batch)] = iterate_batches(read.data)

    assert (header.is_control, header.is_transactional, header.producer_id) == (True, False, -1)
    assert (header.last_offset, len(read_records(batch))) == (compacted.end_offset - 1, 1)
    assert compacted.offset_of_max_timestamp(compacted.end_offset) is not None


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_a_replica_of_a_heavily_compacted_log_knows_every_producer(compacted: PartitionLog, kind: str) -> None:
    config = replace(COMPACTED, segment_bytes=100_000)
    follower = open_log(simulated_disk(), config) if kind == "disk" else MemoryLog(config, clock=ManualClock())
    offset = 0
    while offset < compacted.end_offset:
        read = compacted.read(offset, max_bytes=500, up_to=compacted.end_offset, at_least_one=True, as_stored=True)
        follower.append_as_follower(read.data)
        offset = read.next_offset

    sequences = {state.producer_id: state.last_sequence for state in follower.producers}
    assert [sequences[producer_id] for producer_id in range(40)] == [0] * 40
    # What it wrote itself it serves without looking, but not to consumers that could not step over it.
    test_no_consumer_gets_a_batch_without_records_and_each_reaches_the_end(follower)


# -- what can go wrong


DIRTY_RECORDS = 30


def dirty_log(disk: SimulatedDisk) -> Log:
    log = open_log(disk, COMPACTED)
    for index in range(DIRTY_RECORDS):
        put(log, (b"k%d" % (index % 6), b"%d" % index * 10))
    log.roll()
    log.sync()
    return log


@pytest.mark.slow
def test_a_crash_at_every_step_leaves_the_same_last_values() -> None:
    expected = latest_of(read_all(dirty_log(simulated_disk())))
    outcomes = set()
    for step in range(300):
        disk = simulated_disk(step)
        log = dirty_log(disk)
        disk.crash_after(step)
        try:
            clean(log)
            log.sync()
            finished = True
        except SimulatedCrash:
            finished = False
        disk.crash()
        again = open_log(disk, COMPACTED)
        assert latest_of(read_all(again)) == expected, step
        assert again.end_offset == DIRTY_RECORDS, step
        assert again.corruption_count == 0, step
        assert not [path for path in disk.files() if path.name.endswith((".cleaned", ".swap", ".deleted"))], step
        outcomes.add(len(read_all(again)))
        if finished:
            break
    else:
        pytest.fail("the crash never came late enough")
    # Both before and after the replacement were met.
    assert {6, DIRTY_RECORDS} <= outcomes


def test_a_broken_segment_is_reported_and_left_alone() -> None:
    disk = simulated_disk()
    log = dirty_log(disk)
    disk.flip_bit(segment_path(DIRECTORY, 0, ".log"), 300)
    plan = plan_compaction(log, TIME, log.end_offset)
    assert plan is not None
    with pytest.raises(CorruptBatch) as broken:
        compact(plan, disk)

    # It travels between processes.
    assert str(pickle.loads(pickle.dumps(broken.value))) == str(broken.value)
    assert not [path for path in disk.files() if path.name.endswith(".cleaned")]
    assert len(log.segments) > 3


def test_a_replacement_is_thrown_away_when_the_log_changed_meanwhile() -> None:
    disk = simulated_disk()
    log = dirty_log(disk)
    plan = plan_compaction(log, TIME, log.end_offset)
    assert plan is not None
    result = compact(plan, disk)
    publish(result, disk)
    for removed in log.delete_before(15):
        removed.unlink()
    before = read_all(log)

    assert swap_in(log, result) == []
    assert read_all(log) == before
    assert not [path for path in disk.files() if path.name.endswith((".cleaned", ".swap"))]


def test_a_result_that_is_not_wanted_leaves_nothing() -> None:
    disk = simulated_disk()
    log = dirty_log(disk)
    plan = plan_compaction(log, TIME, log.end_offset)
    assert plan is not None
    files = disk.files()
    discard(compact(plan, disk), disk)

    assert disk.files() == files


def test_reading_goes_on_while_a_worker_compacts() -> None:
    disk = simulated_disk()
    log = dirty_log(disk)
    plan = plan_compaction(log, TIME, log.end_offset)
    assert plan is not None
    result = compact(plan, disk)
    put(log, (b"k0", b"while it ran"))
    assert len(read_all(log)) == DIRTY_RECORDS + 1
    publish(result, disk)
    position = log.read(0, max_bytes=100, up_to=log.end_offset, at_least_one=True).next_offset
    swap_in(log, result)

    assert latest_of(read_all(log, start=position))[b"k0"] == b"while it ran"
    assert len(read_all(log)) == 7
    assert log.size_bytes == sum(segment.size for segment in log.segments)


def test_a_compacted_log_in_memory_keeps_the_last_values_too() -> None:
    log = MemoryLog(COMPACTED, clock=ManualClock())
    for index in range(100):
        log.append(keyed((b"k%d" % (index % 4), b"%d" % index)), 0)
    log.append(keyed((b"k0", b"aborted"), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True), 0)
    end_transaction(log, 1, committed=False)
    log.producers.on_high_watermark(log.end_offset)
    size = log.size_bytes
    log.apply_retention(TIME, log.end_offset)

    assert [record.value for record in read_all(log)] == [b"96", b"97", b"98", b"99"]
    assert log.size_bytes < size / 5
    assert log.append(keyed((b"z", b"1")), 0, origin=Origin.CLIENT).base_offset == 102


def test_in_memory_more_keys_than_the_map_holds_are_compacted_in_several_rounds() -> None:
    log = MemoryLog(COMPACTED, clock=ManualClock())
    for round_ in range(3):
        for index in range(50):
            log.append(keyed((b"%d" % index, b"%d" % round_)), 0)
    log.append(keyed((b"last", b"1"), (b"last", b"2")), 0)
    for _ in range(10):
        finish(MemoryCleaning(log, TIME, log.end_offset, keys_max=20).steps())

    assert [record.value for record in read_all(log)] == [b"2"] * 50 + [b"1", b"2"]
    log.append(keyed((b"new", b"1")), 0)
    finish(MemoryCleaning(log, TIME, log.end_offset, keys_max=20).steps())
    assert [record.value for record in read_all(log)] == [b"2"] * 51 + [b"1"]
