"""Expiry removes what is over, and nothing else."""

import pytest

from headrace.log.cleaning.expiry import ROLL_MIN_MS, is_outdated, look, note, plan_expiry, plan_look
from headrace.log.interface import AbortedTransaction
from headrace.model.topic_settings import LogConfig
from headrace.records.batch import build_batch
from headrace.records.record import Record
from tests.unit.log.compacting import clean, look_for_expiries, put
from tests.unit.log.storing import (
    DAY_MS,
    TIME,
    end_transaction,
    open_log,
    read_all,
    simulated_disk,
)

# -- time to live


def expiring(value: bytes, ttl_ms: int, timestamp: int = TIME, key: bytes | None = None) -> Record:
    return Record(0, timestamp, key, value, (("headrace-ttl-ms", b"%d" % ttl_ms),))


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_expired_records_go_and_the_others_stay(policy: str) -> None:
    config = LogConfig(
        cleanup_policy=frozenset({policy}), message_ttl_enable=True, segment_bytes=2000, min_cleanable_dirty_ratio=0.01
    )
    log = open_log(simulated_disk(), config)
    for index in range(5):
        log.append(build_batch([expiring(b"short", 1000, key=b"s%d" % index), expiring(b"long", 100_000, key=b"l%d" % index)]), 0)
    log.append(build_batch([Record(0, TIME, b"p", b"plain")]), 0)
    log.roll()
    clean(log, TIME + 5000)

    assert [record.value for record in read_all(log)] == [b"long"] * 5 + [b"plain"]
    assert log.segments[0].next_expiry_ms == TIME + 100_000
    assert plan_expiry(log, TIME + 99_999, log.end_offset) is None
    clean(log, TIME + 100_001)
    assert [record.value for record in read_all(log)] == [b"plain"]


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_what_is_written_after_a_pass_expires_in_its_turn(policy: str) -> None:
    config = LogConfig(
        cleanup_policy=frozenset({policy}), message_ttl_enable=True, segment_bytes=200, min_cleanable_dirty_ratio=0.01
    )
    log = open_log(simulated_disk(), config)
    for round_ in range(4):
        now = TIME + round_ * 10_000
        log.append(build_batch([expiring(b"short", 200, now, b"s%d" % round_)]), 0)
        log.append(build_batch([Record(0, now, b"k%d" % round_, b"v" * 100)]), 0)
        log.roll()
        clean(log, now)
        clean(log, now + 201)
        assert [record.key for record in read_all(log)] == [b"k%d" % number for number in range(round_ + 1)]


def test_a_short_time_to_live_does_not_wait_for_a_longer_one_that_came_first() -> None:
    log = open_log(simulated_disk(), LogConfig(message_ttl_enable=True, segment_bytes=200))
    log.append(build_batch([expiring(b"a day", DAY_MS)]), 0)
    log.roll()
    clean(log, TIME + 10)
    log.append(build_batch([expiring(b"short", 200)]), 0)
    log.roll()
    clean(log, TIME + 201)

    assert [record.value for record in read_all(log)] == [b"a day"]


def test_expiry_on_a_compacted_topic_waits_for_nothing_and_uncovers_nothing() -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}), message_ttl_enable=True, min_cleanable_dirty_ratio=0.9)
    log = open_log(simulated_disk(), config)
    put(log, *[(b"%d" % index, b"v" * 100) for index in range(30)])
    log.roll()
    clean(log, TIME)
    # Too little dirt to compact, were it not for the record whose time is over; without its key's older one it may not go.
    log.append(build_batch([Record(0, TIME, b"7", b"hides"), expiring(b"expires", 1000, key=b"7")]), 0)
    log.roll()
    clean(log, TIME)
    assert [record.value for record in read_all(log) if record.key == b"7"] == [b"v" * 100, b"hides", b"expires"]
    clean(log, TIME + 1001)

    assert [record.value for record in read_all(log) if record.key == b"7"] == []
    assert len(read_all(log)) == 29


def test_segments_in_which_nothing_expires_are_read_once_and_never_rewritten() -> None:
    log = open_log(simulated_disk(), LogConfig(message_ttl_enable=True, segment_bytes=300))
    for _ in range(6):
        put(log, (b"k", b"v" * 200))
    log.append(build_batch([expiring(b"x" * 200, 1000)]), 0)
    put(log, (b"k", b"v" * 200))
    log.roll()
    look_for_expiries(log)
    assert plan_look(log) is None
    plan = plan_expiry(log, TIME + 1001, log.end_offset)

    assert plan is not None
    assert [source.base_offset for source in plan.sources] == [6]


def test_a_segment_that_was_cut_is_looked_at_again() -> None:
    log = open_log(simulated_disk(), LogConfig(message_ttl_enable=True))
    put(log, (b"k", b"1"), (b"k", b"2"))
    put(log, (b"k", b"3"))
    log.roll()
    look_for_expiries(log)
    log.truncate_to(2)
    log.append(build_batch([expiring(b"short", 10)]), 0)
    log.roll()
    clean(log, TIME + 11)

    assert [record.value for record in read_all(log)] == [b"1", b"2"]


def test_the_active_segment_is_closed_when_something_in_it_has_expired_and_not_before() -> None:
    log = open_log(simulated_disk(), LogConfig(message_ttl_enable=True))
    now = log.clock.wall_ms()
    log.append(build_batch([expiring(b"a day", DAY_MS, now)]), 0)
    clean(log, now + 20_000)
    log.append(build_batch([expiring(b"short", 20_000, now)]), 0)
    clean(log, now + 20_000)
    assert len(log.segments) == 1
    assert plan_look(log) is None
    clean(log, now + 20_001)
    assert [record.value for record in read_all(log)] == [b"a day"]

    # The next one waits until the segment that was begun then is some seconds old.
    began = log.segments[-1].created_ms
    log.append(build_batch([expiring(b"next", 1, began)]), 0)
    clean(log, began + ROLL_MIN_MS - 1)
    assert [record.value for record in read_all(log)] == [b"a day", b"next"]
    clean(log, began + ROLL_MIN_MS)
    assert [record.value for record in read_all(log)] == [b"a day"]


def test_a_small_segment_in_which_something_expired_does_not_have_its_large_neighbour_rewritten() -> None:
    log = open_log(simulated_disk(), LogConfig(message_ttl_enable=True))
    put(log, (b"large", b"v" * 10_000))
    log.roll()
    put(log, (b"small", b"v"))
    log.roll()
    log.append(build_batch([expiring(b"short", 10)]), 0)
    log.roll()
    look_for_expiries(log)
    plan = plan_expiry(log, TIME + 11, log.end_offset)

    assert plan is not None
    assert [source.base_offset for source in plan.sources] == [1, 2]


def test_what_was_seen_of_a_segment_that_was_cut_meanwhile_is_forgotten() -> None:
    log = open_log(simulated_disk(), LogConfig(message_ttl_enable=True))
    put(log, (b"k", b"1"))
    put(log, (b"k", b"2"))
    plan = plan_look(log)
    assert plan is not None
    found = look(plan, log.disk)
    log.truncate_to(1)
    log.append(build_batch([expiring(b"short" * 100, 10)]), 0)

    assert is_outdated(log, plan)
    note(log, plan, found)
    assert plan_look(log) is not None


def test_a_topic_without_time_to_live_keeps_records_that_carry_one() -> None:
    log = open_log(simulated_disk(), LogConfig())
    log.append(build_batch([expiring(b"v", 1)]), 0)
    log.roll()

    assert plan_expiry(log, TIME + 1000, log.end_offset) is None


def test_aborted_transactions_stay_known_when_only_expired_records_go() -> None:
    log = open_log(simulated_disk(), LogConfig(message_ttl_enable=True))
    batch = build_batch([expiring(b"v", 1)], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    log.append(batch, 0)
    end_transaction(log, 1, committed=False)
    log.producers.on_high_watermark(2)
    log.roll()
    clean(log, TIME + 10)

    assert log.aborted_transactions(0, 2) == [AbortedTransaction(1, 0)]
