"""What every log knows of its producers and their transactions, on disk and in memory alike."""

from typing import Any

import pytest

from headrace.log.interface import AbortedTransaction, Origin, PartitionLog
from headrace.model.errors import ErrorCode
from headrace.model.topic_settings import LogConfig
from headrace.records.control import build_end_marker
from tests.unit.log.storing import (
    DAY_MS,
    TIME,
    ManualClock,
    OpenLog,
    batch_of,
    end_transaction,
    produce,
    refused,
)

# -- idempotence


def send(
    log: PartitionLog, sequence: int, *, producer_id: int = 9, producer_epoch: int = 0, count: int = 1, **options: Any
) -> Any:
    batch = batch_of(*[b"v"] * count, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence, **options)
    return log.append(batch, 0)


def test_the_next_sequence_is_written_and_an_old_one_answered_with_its_offset(make_log: OpenLog) -> None:
    log = make_log()
    for sequence in range(5):
        assert not send(log, 2 * sequence, count=2).duplicate
    for sequence in range(5):
        again = send(log, 2 * sequence, count=2)
        assert again.duplicate
        assert (again.base_offset, again.last_offset) == (2 * sequence, 2 * sequence + 1)
    assert log.end_offset == 10


@pytest.mark.parametrize("sequence", [2, 100, 2**31 - 1])
def test_a_gap_in_the_sequence_is_out_of_order(make_log: OpenLog, sequence: int) -> None:
    log = make_log()
    send(log, 0)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        send(log, sequence)
    assert log.end_offset == 1


def test_a_sequence_older_than_the_last_five_is_out_of_order(make_log: OpenLog) -> None:
    log = make_log()
    for sequence in range(7):
        send(log, sequence)
    assert send(log, 2).duplicate
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        send(log, 1)
    assert log.end_offset == 7


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero(make_log: OpenLog) -> None:
    log = make_log()
    send(log, 0, producer_epoch=3)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        send(log, 1, producer_epoch=2)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        send(log, 1, producer_epoch=4)
    assert send(log, 0, producer_epoch=4).base_offset == 1


def test_sequences_wrap_from_the_greatest_to_zero(make_log: OpenLog) -> None:
    log = make_log()
    send(log, 2**31 - 2, count=2)
    assert send(log, 0).base_offset == 2
    assert send(log, 2**31 - 2, count=2).duplicate


def test_an_unknown_producer_may_begin_anywhere(make_log: OpenLog) -> None:
    log = make_log()
    assert send(log, 55).base_offset == 0
    assert send(log, 56).base_offset == 1


def test_a_producer_quiet_for_too_long_is_forgotten(make_log: OpenLog) -> None:
    clock = ManualClock()
    log = make_log(LogConfig(producer_id_expiration_ms=1000, retention_ms=-1), clock)
    send(log, 0)
    clock.now_ms += 999
    log.apply_retention(clock.wall_ms(), 1)
    assert len(log.producers) == 1
    clock.now_ms += 1
    log.apply_retention(clock.wall_ms(), 1)
    assert len(log.producers) == 0
    assert send(log, 7).base_offset == 1


def test_a_producer_ages_by_when_it_wrote_and_not_by_what_it_wrote(make_log: OpenLog) -> None:
    log = make_log(LogConfig(retention_ms=-1))
    send(log, 0, timestamp=TIME - 400 * DAY_MS)
    log.apply_retention(TIME, 1)

    assert send(log, 0, timestamp=TIME - 400 * DAY_MS).duplicate


def test_a_follower_remembers_producers_of_old_timestamps(make_log: OpenLog) -> None:
    leader, follower = make_log(LogConfig(retention_ms=-1)), make_log(LogConfig(retention_ms=-1))
    for sequence in range(3):
        send(leader, sequence, timestamp=TIME - 2 * DAY_MS)
    follower.append_as_follower(leader.read(0, max_bytes=10_000, up_to=3, at_least_one=True).data)
    follower.truncate_to(2)
    follower.apply_retention(TIME, 2)

    assert send(follower, 1, timestamp=TIME - 2 * DAY_MS).duplicate
    assert send(follower, 2, timestamp=TIME - 2 * DAY_MS).base_offset == 2


@pytest.mark.parametrize("jump_ms", [365 * DAY_MS, -365 * DAY_MS])
def test_a_wall_clock_that_jumps_makes_nobody_forget_a_producer(make_log: OpenLog, jump_ms: int) -> None:
    clock = ManualClock()
    log = make_log(LogConfig(retention_ms=-1, message_timestamp_after_max_ms=2**63 - 1), clock)
    send(log, 0)
    clock.set_ahead_by_ms = jump_ms
    log.apply_retention(clock.wall_ms(), 1)
    assert send(log, 0).duplicate
    clock.set_ahead_by_ms = 0
    log.apply_retention(clock.wall_ms(), 1)

    assert send(log, 0).duplicate


def test_a_producer_in_use_is_remembered_whoever_is_forgotten(make_log: OpenLog) -> None:
    clock = ManualClock()
    log = make_log(LogConfig(producer_id_expiration_ms=1000, retention_ms=-1), clock)
    produce(log, b"v", producer_id=8, producer_epoch=0, base_sequence=0)
    send(log, 0)
    clock.now_ms += 600
    send(log, 1)
    clock.now_ms += 600
    log.apply_retention(clock.wall_ms(), 3)

    assert [state.producer_id for state in log.producers] == [9]


def test_a_refused_append_changes_nothing_for_its_producer(make_log: OpenLog) -> None:
    log = make_log(LogConfig(max_message_bytes=200))
    send(log, 0)
    with refused(ErrorCode.MESSAGE_TOO_LARGE):
        log.append(batch_of(b"v" * 300, producer_id=9, producer_epoch=0, base_sequence=1), 0)
    assert send(log, 1).base_offset == 1


def test_after_a_truncation_the_producer_is_where_the_log_is(make_log: OpenLog) -> None:
    log = make_log(LogConfig(segment_bytes=250))
    for sequence in range(8):
        send(log, sequence)
    log.truncate_to(3)

    assert send(log, 2).duplicate
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        send(log, 4)
    assert send(log, 3).base_offset == 3


# -- transactions


def test_an_open_transaction_holds_the_stable_offset_back_until_its_end_is_replicated(make_log: OpenLog) -> None:
    log = make_log()
    produce(log, b"plain")
    send(log, 0, transactional=True)
    send(log, 0, producer_id=10, transactional=True)
    assert log.producers.first_unstable_offset == 1

    end_transaction(log, 9, committed=True)
    assert log.producers.first_unstable_offset == 1
    log.producers.on_high_watermark(4)
    assert log.producers.first_unstable_offset == 2
    end_transaction(log, 10, committed=False)
    log.producers.on_high_watermark(5)
    assert log.producers.first_unstable_offset is None


def test_aborted_transactions_are_listed_for_exactly_the_range_asked_for(make_log: OpenLog) -> None:
    log = make_log(LogConfig(segment_bytes=400))
    send(log, 0, producer_id=1, transactional=True)  # 0
    send(log, 0, producer_id=2, transactional=True)  # 1
    end_transaction(log, 1, committed=False)  # 2
    produce(log, b"plain" * 30)  # 3
    send(log, 1, producer_id=2, transactional=True)  # 4
    end_transaction(log, 2, committed=False)  # 5
    send(log, 1, producer_id=1, transactional=True)  # 6
    end_transaction(log, 1, committed=True)  # 7

    assert log.aborted_transactions(0, 8) == [AbortedTransaction(1, 0), AbortedTransaction(2, 1)]
    assert log.aborted_transactions(0, 1) == [AbortedTransaction(1, 0)]
    assert log.aborted_transactions(3, 8) == [AbortedTransaction(2, 1)]
    assert log.aborted_transactions(6, 8) == []


def test_a_marker_of_a_zombie_coordinator_or_an_old_epoch_is_refused(make_log: OpenLog) -> None:
    log = make_log()
    send(log, 0, producer_epoch=5, transactional=True)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        end_transaction(log, 9, committed=True, epoch=4)
    log.append(build_end_marker(9, 5, True, 8, TIME), 0, origin=Origin.COORDINATOR)
    with refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        log.append(build_end_marker(9, 5, True, 7, TIME), 0, origin=Origin.COORDINATOR)


def test_under_transactions_version_2_a_marker_must_bump_the_epoch(make_log: OpenLog) -> None:
    log = make_log()
    send(log, 0, producer_epoch=5, transactional=True)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        log.append(build_end_marker(9, 5, False, 0, TIME), 0, origin=Origin.COORDINATOR, transaction_version=2)
    log.append(build_end_marker(9, 6, False, 0, TIME), 0, origin=Origin.COORDINATOR, transaction_version=2)
    # The reply was lost and the coordinator tries again: nothing is open, so the same epoch is no harm.
    log.append(build_end_marker(9, 6, False, 0, TIME), 0, origin=Origin.COORDINATOR, transaction_version=2)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        send(log, 1, producer_epoch=5, transactional=True)
    send(log, 0, producer_epoch=6, transactional=True)

    assert log.aborted_transactions(0, 10) == [AbortedTransaction(9, 0)]


def test_a_producer_in_a_transaction_may_not_write_outside_it(make_log: OpenLog) -> None:
    log = make_log()
    send(log, 0, transactional=True)
    with refused(ErrorCode.INVALID_TXN_STATE):
        send(log, 1)


def test_a_transaction_begins_only_with_the_guard_its_verification_gave(make_log: OpenLog) -> None:
    log = make_log()
    batch = batch_of(b"v", producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    with refused(ErrorCode.INVALID_TXN_STATE):
        log.append(batch, 0, guard=None)
    stale = log.producers.begin_verification(9, 0, 0, supports_epoch_bump=False)
    end_transaction(log, 9, committed=False)
    with refused(ErrorCode.INVALID_TXN_STATE):
        log.append(batch, 0, guard=stale)
    guard = log.producers.begin_verification(9, 0, 0, supports_epoch_bump=False)
    log.append(batch, 0, guard=guard)

    assert log.producers.begin_verification(9, 0, 1, supports_epoch_bump=False) is None
    log.append(batch_of(b"w", producer_id=9, producer_epoch=0, base_sequence=1, transactional=True), 0, guard=None)


def test_higher_sequences_do_not_overtake_the_one_being_verified(make_log: OpenLog) -> None:
    log = make_log()
    guard = log.producers.begin_verification(9, 0, 0, supports_epoch_bump=True)
    log.producers.begin_verification(9, 0, 1, supports_epoch_bump=True)
    second = batch_of(b"w", producer_id=9, producer_epoch=0, base_sequence=1, transactional=True)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.append(second, 0, guard=guard)
