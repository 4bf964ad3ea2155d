"""A partition as a share group works on it: single stories."""

import pytest

from headrace.coordination.share.delivery import AcknowledgeType, AcquireMode, RecordState, StateBatch
from headrace.coordination.share.partition import (
    WINDOW_FACTOR,
    Acknowledgement,
    Acquired,
    Change,
    GivenUp,
    LogBatch,
    ShareLimits,
    SharePartition,
    Wish,
)
from headrace.model.errors import ErrorCode, RequestError

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
GAP, RENEW = AcknowledgeType.GAP, AcknowledgeType.RENEW
STRICT = AcquireMode.RECORD_LIMIT


def wish(member: str = "ann", records: int = 1000, size: int = 1000, mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED) -> Wish:
    return Wish(member, records, size, mode)


def said(first: int, end: int, *types: AcknowledgeType) -> Acknowledgement:
    return Acknowledgement(first, end, types)


def acknowledge(partition: SharePartition, *words: Acknowledgement, member: str = "ann", now: float = 1.0) -> Change:
    change = partition.acknowledge(member, words, now)
    assert change is not None
    partition.settle(change, written=True)
    return change


def with_ten(limits: ShareLimits | None = None) -> SharePartition:
    partition = SharePartition(0, limits=limits)
    partition.acquire(wish(), [LogBatch(0, 10)], 0.0)
    return partition


def refusal(partition: SharePartition, *words: Acknowledgement, member: str = "ann") -> ErrorCode:
    with pytest.raises(RequestError) as raised:
        partition.acknowledge(member, words, 1.0)
    return raised.value.code


def test_what_one_member_has_nobody_else_gets() -> None:
    partition = with_ten()

    assert partition.next_fetch_offset() == 10
    assert partition.acquire(wish("bob"), [LogBatch(10, 12)], 0.0) == (Acquired(10, 12, 1),)


def test_accepted_records_are_done_and_the_start_moves_past_them() -> None:
    partition = with_ten()

    change = acknowledge(partition, said(0, 10, ACCEPT))

    assert change == Change(1, 10, (StateBatch(0, 10, RecordState.ACKNOWLEDGED, 1),), 0)
    assert (partition.start, partition.end, partition.done) == (10, 10, 0)


def test_the_start_waits_for_the_first_record_that_is_not_done() -> None:
    partition = with_ten()

    change = acknowledge(partition, said(1, 10, ACCEPT))
    assert (change.start, change.done) == (partition.start, partition.done) == (0, 9)

    change = acknowledge(partition, said(0, 1, REJECT))
    assert (change.start, change.done) == (partition.start, partition.done) == (10, 0)


def test_released_records_are_delivered_again_and_counted() -> None:
    partition = with_ten()
    acknowledge(partition, said(3, 5, RELEASE))

    assert partition.next_fetch_offset() == 3
    assert partition.acquire(wish("bob"), [LogBatch(0, 10)], 0.0) == (Acquired(3, 5, 2),)


def test_after_the_last_delivery_a_released_record_is_given_up() -> None:
    partition = with_ten(ShareLimits(delivery_count_limit=1))

    change = acknowledge(partition, said(0, 10, RELEASE))

    assert change.batches == (StateBatch(0, 10, RecordState.ARCHIVED, 1),)
    assert partition.start == 10


def test_words_for_single_records_of_a_range_count_one_by_one() -> None:
    partition = with_ten()

    change = acknowledge(partition, said(0, 10, *(ACCEPT, ACCEPT, RELEASE, REJECT, GAP, *(ACCEPT,) * 5)))

    assert change.batches == (
        StateBatch(0, 2, RecordState.ACKNOWLEDGED, 1),
        StateBatch(2, 3, RecordState.AVAILABLE, 1),
        StateBatch(3, 5, RecordState.ARCHIVED, 1),
        StateBatch(5, 10, RecordState.ACKNOWLEDGED, 1),
    )
    assert (partition.start, partition.next_fetch_offset()) == (2, 2)


def test_records_of_others_cannot_be_acknowledged_and_one_wrong_word_spoils_all() -> None:
    partition = with_ten()
    partition.acquire(wish("bob"), [LogBatch(10, 20)], 0.0)

    assert refusal(partition, said(0, 5, ACCEPT), said(10, 12, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE
    assert acknowledge(partition, said(0, 10, ACCEPT)).start == 10


def test_records_that_were_never_delivered_cannot_be_acknowledged() -> None:
    assert refusal(with_ten(), said(5, 11, ACCEPT)) is ErrorCode.INVALID_REQUEST


def test_a_record_is_acknowledged_once() -> None:
    partition = with_ten()
    acknowledge(partition, said(1, 3, ACCEPT))

    assert refusal(partition, said(2, 4, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE


def test_until_a_change_is_written_nobody_gets_its_records_and_no_second_word_counts() -> None:
    partition = with_ten()
    change = partition.acknowledge("ann", [said(0, 10, RELEASE)], 1.0)

    assert change is not None
    assert partition.next_fetch_offset() == 10
    assert refusal(partition, said(0, 1, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE
    assert partition.expire(100.0) is None
    assert partition.release("ann", was_lost=True) is None

    partition.settle(change, written=True)
    assert partition.next_fetch_offset() == 0


def test_a_change_that_could_not_be_written_leaves_all_as_before() -> None:
    partition = with_ten()
    change = partition.acknowledge("ann", [said(0, 10, ACCEPT)], 1.0)
    assert change is not None

    partition.settle(change, written=False)

    assert partition.start == 0
    assert partition.next_deadline() == 30.0
    assert partition.expire(30.0) == Change(0, 0, (StateBatch(0, 10, RecordState.AVAILABLE, 1),), 0)
    assert partition.acquire(wish("bob"), [LogBatch(0, 10)], 31.0) == (Acquired(0, 10, 2),)


def test_a_lock_runs_out_even_while_a_change_that_fails_is_written() -> None:
    partition = with_ten()
    change = partition.acknowledge("ann", [said(0, 10, ACCEPT)], 1.0)
    assert change is not None
    assert partition.expire(30.0) is None
    assert partition.next_deadline() is None

    partition.settle(change, written=False)

    assert partition.next_deadline() == 30.0


def test_a_renewed_lock_lasts_from_then_on() -> None:
    partition = with_ten()

    assert partition.acknowledge("ann", [said(0, 4, RENEW)], 20.0) is None

    expired = partition.expire(30.0)
    assert expired is not None
    assert expired.batches == (StateBatch(4, 10, RecordState.AVAILABLE, 1),)
    assert partition.next_deadline() == 50.0


def test_a_group_may_refuse_to_renew() -> None:
    assert refusal(with_ten(ShareLimits(renewal_enabled=False)), said(0, 1, RENEW)) is ErrorCode.INVALID_RECORD_STATE


def test_a_member_that_goes_gives_back_what_it_has() -> None:
    partition = with_ten()
    partition.acquire(wish("bob"), [LogBatch(10, 20)], 0.0)

    released = partition.release("ann", was_lost=True)

    assert released is not None
    assert released.batches == (StateBatch(0, 10, RecordState.AVAILABLE, 1),)
    assert partition.next_fetch_offset() == 0
    assert partition.acquired == 10


def test_what_a_member_gives_back_when_it_says_goodbye_does_not_count_as_delivered() -> None:
    partition = with_ten(ShareLimits(delivery_count_limit=1))

    released = partition.release("ann", was_lost=False)

    assert released is not None
    assert released.batches == (StateBatch(0, 10, RecordState.AVAILABLE, 0),)
    assert partition.acquire(wish("bob"), [LogBatch(0, 10)], 0.0) == (Acquired(0, 10, 1),)


def test_a_change_tells_when_what_is_given_up_was_first_delivered() -> None:
    partition = SharePartition(0, limits=ShareLimits(delivery_count_limit=2))
    partition.acquire(wish("ann"), [LogBatch(0, 10)], 5.0)
    partition.release("ann", was_lost=True)
    partition.acquire(wish("ann"), [LogBatch(0, 10)], 9.0)

    change = partition.acknowledge("ann", [said(2, 4, REJECT), said(4, 5, ACCEPT)], 10.0)
    assert change is not None
    assert change.given_up == (GivenUp(2, 4, 5.0),)
    expired = partition.expire(100.0)
    assert expired is not None
    assert expired.given_up == (GivenUp(0, 2, 5.0), GivenUp(5, 10, 5.0))


def test_no_timer_is_left_of_records_that_are_done() -> None:
    partition = SharePartition(0)
    for turn in range(1000):
        partition.acquire(wish(), [LogBatch(turn, turn + 1)], float(turn))
        acknowledge(partition, said(turn, turn + 1, ACCEPT))

    assert partition.next_deadline() is None
    assert len(partition._locks) == 0


def test_what_the_log_lacks_is_done() -> None:
    partition = SharePartition(0)

    acquired = partition.acquire(wish(), [LogBatch(5, 8), LogBatch(8, 9, has_data=False), LogBatch(12, 14)], 0.0)

    assert acquired == (Acquired(5, 8, 1), Acquired(12, 14, 1))
    assert partition.start == 5
    acknowledge(partition, said(5, 8, ACCEPT))
    assert partition.start == 12


def test_by_whole_batches_the_limit_may_be_passed_and_by_records_it_may_not() -> None:
    batches = [LogBatch(0, 10), LogBatch(10, 20), LogBatch(20, 30)]

    assert SharePartition(0).acquire(wish(records=12, size=5), batches, 0.0) == (Acquired(0, 10, 1), Acquired(10, 20, 1))
    assert SharePartition(0).acquire(wish(records=12, mode=STRICT), batches, 0.0) == (Acquired(0, 12, 1),)


def test_the_next_to_ask_by_records_goes_on_within_the_batch() -> None:
    partition = SharePartition(0)
    partition.acquire(wish(records=3, mode=STRICT), [LogBatch(0, 10)], 0.0)

    assert partition.next_fetch_offset() == 3
    assert partition.acquire(wish("bob", 4, mode=STRICT), [LogBatch(0, 10)], 0.0) == (Acquired(3, 7, 1),)


def test_no_more_than_the_limit_is_under_way() -> None:
    partition = SharePartition(0, limits=ShareLimits(max_record_locks=15))
    batches = [LogBatch(first, first + 10) for first in range(0, 100, 10)]

    assert partition.acquire(wish(), batches, 0.0) == (Acquired(0, 20, 1),)
    assert not partition.can_acquire()
    assert partition.acquire(wish("bob"), batches[2:], 0.0) == ()


def test_records_that_are_done_leave_room_though_one_before_them_is_not() -> None:
    limits = ShareLimits(max_record_locks=10)
    partition = SharePartition(0, limits=limits)
    partition.acquire(wish("stuck"), [LogBatch(0, 1)], 0.0)
    position = 1
    while partition.can_acquire():
        assert partition.acquire(wish(), [LogBatch(position, position + 1)], 0.0)
        acknowledge(partition, said(position, position + 1, ACCEPT))
        position += 1

    assert position == WINDOW_FACTOR * limits.max_record_locks
    assert partition.start == 0


def test_what_is_free_again_can_be_had_though_the_limit_is_reached() -> None:
    partition = SharePartition(0, limits=ShareLimits(max_record_locks=10))
    partition.acquire(wish(), [LogBatch(0, 10)], 0.0)
    acknowledge(partition, said(4, 5, RELEASE))

    assert partition.can_acquire()
    assert partition.acquire(wish("bob"), [LogBatch(0, 10), LogBatch(10, 20)], 0.0) == (Acquired(4, 5, 2),)


def test_it_goes_on_from_what_the_coordinator_kept() -> None:
    kept = [
        StateBatch(0, 2, RecordState.ACKNOWLEDGED, 1),
        StateBatch(4, 6, RecordState.AVAILABLE, 3),
        StateBatch(6, 8, RecordState.ARCHIVED, 5),
    ]
    partition = SharePartition(0, kept)

    assert (partition.start, partition.end, partition.done) == (2, 8, 2)
    assert partition.acquire(wish(), [LogBatch(0, 10)], 0.0) == (Acquired(2, 4, 1), Acquired(4, 6, 4), Acquired(8, 10, 1))


def test_deleted_records_are_no_more_and_word_of_them_is_taken_for_granted() -> None:
    partition = with_ten()

    partition.on_log_start(4)

    assert partition.start == 4
    change = acknowledge(partition, said(0, 6, ACCEPT))
    assert change.batches == (StateBatch(4, 6, RecordState.ACKNOWLEDGED, 1),)
    partition.on_log_start(100)
    assert (partition.start, partition.end, partition.acquired) == (100, 100, 0)
    assert partition.acknowledge("ann", [said(6, 10, ACCEPT)], 1.0) is None


def test_a_record_rests_twice_as_long_after_each_delivery_in_vain() -> None:
    partition = SharePartition(0, limits=ShareLimits(backoff_ms=1_000, delivery_count_limit=10), jitter=lambda: 0.5)
    now = 100.0
    rests = []
    for _ in range(3):
        assert partition.acquire(wish(), [LogBatch(0, 1)], now)
        change = partition.acknowledge("ann", [said(0, 1, RELEASE)], now)
        assert change is not None
        partition.settle(change, written=True, now=now)
        partition.expire(now)
        due = partition.next_due()
        assert due is not None
        assert partition.next_fetch_offset(due - 0.001) == 1
        assert partition.next_fetch_offset(due) == 0
        rests.append(due - now)
        now = due

    assert rests == [0.5, 1.0, 2.0]
    partition.expire(now)
    assert partition.next_due() is None


def test_a_lock_that_ran_out_makes_a_record_rest_and_a_member_that_has_gone_does_not() -> None:
    partition = SharePartition(0, limits=ShareLimits(backoff_ms=1_000))
    partition.acquire(wish("ann"), [LogBatch(0, 2)], 0.0)

    partition.expire(30.0)
    assert partition.next_fetch_offset(30.5) == 2
    assert partition.acquire(wish("bob"), [LogBatch(0, 2)], 31.0) == (Acquired(0, 2, 2),)
    partition.release("bob", was_lost=True)
    assert partition.next_fetch_offset(31.0) == 0


def test_what_rests_is_passed_over_and_what_is_free_around_it_is_not() -> None:
    partition = SharePartition(0, limits=ShareLimits(backoff_ms=1_000))
    partition.acquire(wish("ann"), [LogBatch(0, 3)], 0.0)
    change = partition.acknowledge("ann", [said(1, 2, RELEASE)], 0.0)
    assert change is not None
    partition.settle(change, written=True, now=0.0)
    partition.release("ann", was_lost=True)

    taken = partition.acquire(wish("bob"), [LogBatch(0, 3)], 0.5)
    assert taken == (Acquired(0, 1, 2), Acquired(2, 3, 2))
    assert partition.acquire(wish("bob"), [LogBatch(0, 3)], 1.0) == (Acquired(1, 2, 2),)
