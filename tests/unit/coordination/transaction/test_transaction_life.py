"""How a transaction begins, grows, ends and times out."""

import pytest

from headrace.coordination.transaction.markers import RETRY_BACKOFF_MS
from headrace.coordination.transaction.requests import ListFilter, TransactionSettings
from headrace.coordination.transaction.state import TRANSITIONS, Tombstone, TransactionEntry, TransactionState
from headrace.coordination.transaction.timeouts import Deadlines
from headrace.model.errors import ErrorCode, RequestError
from tests.unit.coordination.transaction.transaction_desk import BILLS, OFFSETS, ORDERS, TIMEOUT_MS, Desk

WEEK_MS = 7 * 24 * 60 * 60 * 1000


@pytest.fixture
def desk() -> Desk:
    return Desk()


# --- adding


def test_the_first_partition_begins_the_transaction_and_sets_its_start(desk: Desk) -> None:
    desk.begun(ORDERS)

    assert desk.state == TransactionState.ONGOING
    assert desk.transaction.start_ms == desk.now_ms


def test_further_partitions_join_and_keep_the_start(desk: Desk) -> None:
    producer = desk.begun(ORDERS)
    start_ms = desk.now_ms
    desk.pass_time(500)
    desk.add(producer, BILLS, OFFSETS)

    assert desk.transaction.partitions == {ORDERS, BILLS, OFFSETS}
    assert desk.transaction.start_ms == start_ms


def test_adding_what_is_there_already_writes_nothing(desk: Desk) -> None:
    producer = desk.begun(ORDERS, BILLS)
    written = len(desk.log)

    assert desk.add(producer, BILLS) == ErrorCode.NONE
    assert len(desk.log) == written


def test_an_unknown_transactional_id_has_no_producer(desk: Desk) -> None:
    assert desk.add((5, 0), ORDERS) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.end((5, 0), committed=True).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_foreign_producer_id_is_told_so(desk: Desk) -> None:
    producer_id, epoch = desk.begun()

    assert desk.add((producer_id + 1, epoch), BILLS) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    for version in (0, 2):
        end = desk.end((producer_id + 1, epoch), committed=True, version=version)
        assert end.error == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_verification_names_partitions_outside_the_transaction_as_abortable(desk: Desk) -> None:
    producer = desk.begun(ORDERS)

    assert desk.verify(producer, ORDERS, BILLS) == {ORDERS: ErrorCode.NONE, BILLS: ErrorCode.TRANSACTION_ABORTABLE}


def test_verification_of_a_transaction_that_is_ending_says_so(desk: Desk) -> None:
    producer = desk.begun(ORDERS, version=0)
    desk.end(producer, committed=True, version=0)

    assert desk.verify(producer, ORDERS) == {ORDERS: ErrorCode.CONCURRENT_TRANSACTIONS}


# --- ending


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_the_end_writes_one_marker_per_partition_and_completes(desk: Desk, committed: bool, version: int) -> None:
    producer = desk.begun(ORDERS, BILLS, version=version)
    ended = desk.end(producer, committed=committed, version=version)
    desk.write_markers()

    assert ended.error == ErrorCode.NONE
    assert {partition: [outcome for _, outcome in written] for partition, written in desk.written.items()} == {
        ORDERS: [committed],
        BILLS: [committed],
    }
    assert desk.state == (TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT)
    assert desk.transaction.partitions == frozenset()


def test_version_two_bumps_the_epoch_with_every_end_and_says_so(desk: Desk) -> None:
    producer_id, epoch = desk.begun()
    ended = desk.end((producer_id, epoch), committed=True)
    desk.write_markers()

    assert (ended.producer_id, ended.producer_epoch) == (producer_id, epoch + 1)
    assert desk.written[ORDERS][0][0].epoch == epoch + 1
    assert desk.add((producer_id, epoch), ORDERS) == ErrorCode.PRODUCER_FENCED
    assert desk.add((producer_id, epoch + 1), ORDERS) == ErrorCode.NONE


def test_older_clients_keep_their_epoch_over_the_end(desk: Desk) -> None:
    producer = desk.begun(version=0)
    ended = desk.end(producer, committed=True, version=0)
    desk.write_markers()

    assert (ended.producer_id, ended.producer_epoch) == (-1, -1)
    assert desk.add(producer, ORDERS, version=0) == ErrorCode.NONE


@pytest.mark.parametrize("committed", [True, False])
def test_a_late_end_of_the_last_transaction_does_not_touch_the_next(desk: Desk, committed: bool) -> None:
    producer_id, epoch = desk.begun()
    desk.end((producer_id, epoch), committed=committed)
    desk.write_markers()
    desk.add((producer_id, epoch + 1), BILLS)

    assert desk.end((producer_id, epoch), committed=committed).error == ErrorCode.PRODUCER_FENCED
    assert desk.state == TransactionState.ONGOING


@pytest.mark.parametrize(
    ("state", "committed", "repeated", "error"),
    [
        (TransactionState.EMPTY, False, True, ErrorCode.PRODUCER_FENCED),
        (TransactionState.EMPTY, False, False, ErrorCode.NONE),
        (TransactionState.EMPTY, True, True, ErrorCode.PRODUCER_FENCED),
        (TransactionState.EMPTY, True, False, ErrorCode.INVALID_TXN_STATE),
        (TransactionState.COMPLETE_ABORT, False, True, ErrorCode.NONE),
        (TransactionState.COMPLETE_ABORT, False, False, ErrorCode.NONE),
        (TransactionState.COMPLETE_ABORT, True, True, ErrorCode.INVALID_TXN_STATE),
        (TransactionState.COMPLETE_ABORT, True, False, ErrorCode.INVALID_TXN_STATE),
        (TransactionState.COMPLETE_COMMIT, False, True, ErrorCode.INVALID_TXN_STATE),
        (TransactionState.COMPLETE_COMMIT, False, False, ErrorCode.NONE),
        (TransactionState.COMPLETE_COMMIT, True, True, ErrorCode.NONE),
        (TransactionState.COMPLETE_COMMIT, True, False, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_an_end_without_an_open_transaction_follows_the_table_of_kip_890(
    desk: Desk, state: TransactionState, committed: bool, repeated: bool, error: ErrorCode
) -> None:
    producer = desk.begun() if state is not TransactionState.EMPTY else None
    if producer is not None:
        desk.end(producer, committed=state is TransactionState.COMPLETE_COMMIT)
        desk.write_markers()
    else:
        desk.init()
        desk.init()
    assert desk.state == state
    current = desk.transaction.identity
    written = len(desk.log)
    ended = desk.end((current.producer_id, current.epoch - repeated), committed=committed)

    assert ended.error == error
    bumped = error == ErrorCode.NONE and not repeated
    assert len(desk.log) == written + bumped
    if error == ErrorCode.NONE:
        assert (ended.producer_id, ended.producer_epoch) == (current.producer_id, current.epoch + bumped)


def test_an_abort_of_nothing_completes_without_any_marker(desk: Desk) -> None:
    identified = desk.init()
    desk.end((identified.producer_id, identified.producer_epoch), committed=False)
    desk.write_markers()

    assert desk.state == TransactionState.COMPLETE_ABORT
    assert desk.written == {}


@pytest.mark.parametrize("committed", [True, False])
def test_older_clients_may_repeat_their_end_but_not_change_their_mind(desk: Desk, committed: bool) -> None:
    producer = desk.begun(version=0)
    desk.end(producer, committed=committed, version=0)
    desk.write_markers()

    assert desk.end(producer, committed=committed, version=0).error == ErrorCode.NONE
    assert desk.end(producer, committed=not committed, version=0).error == ErrorCode.INVALID_TXN_STATE


def test_a_fenced_producer_is_not_given_the_identity_of_an_older_client_that_took_over(desk: Desk) -> None:
    first = desk.init()
    second = desk.begun(ORDERS, version=0)
    desk.end(second, committed=True, version=0)
    desk.write_markers()

    assert second == (first.producer_id, first.producer_epoch + 1)
    assert desk.end((first.producer_id, first.producer_epoch), committed=True).error == ErrorCode.PRODUCER_FENCED


def test_older_clients_cannot_end_what_never_began(desk: Desk) -> None:
    identified = desk.init()
    producer = (identified.producer_id, identified.producer_epoch)

    for committed in (True, False):
        assert desk.end(producer, committed=committed, version=0).error == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("version", [0, 2])
def test_while_markers_are_written_everybody_is_asked_to_come_back(desk: Desk, version: int) -> None:
    producer = desk.begun(version=version)
    desk.end(producer, committed=True, version=version)
    current = desk.transaction.identity

    assert desk.end(producer, committed=True, version=version).error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.end(producer, committed=False, version=version).error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.add((current.producer_id, current.epoch), BILLS) == ErrorCode.CONCURRENT_TRANSACTIONS


def test_the_last_epoch_hands_over_to_a_new_producer_id_when_the_markers_are_written(desk: Desk) -> None:
    old = desk.at_epoch(32766)
    desk.add(old, ORDERS)
    ended = desk.end(old, committed=True)
    early = desk.add((ended.producer_id, 0), BILLS)
    desk.write_markers()

    assert ended.producer_epoch == 0
    assert ended.producer_id != old[0]
    assert early == ErrorCode.CONCURRENT_TRANSACTIONS
    assert [(identity.producer_id, identity.epoch) for identity, _ in desk.written[ORDERS]] == [(old[0], 32767)]
    assert desk.end(old, committed=True) == ended
    assert desk.add((ended.producer_id, 0), BILLS) == ErrorCode.NONE


# --- markers


def test_markers_wait_until_the_decision_is_committed(desk: Desk) -> None:
    desk.end(desk.begun(), committed=True)
    decision_offset = len(desk.log) - 1

    assert desk.take_markers(committed_to=decision_offset) == ()
    assert len(desk.take_markers(committed_to=decision_offset + 1)) == 1


def test_markers_on_their_way_are_not_sent_twice(desk: Desk) -> None:
    desk.end(desk.begun(), committed=True)

    assert len(desk.take_markers()) == 1
    assert desk.take_markers() == ()


def test_only_partitions_that_failed_are_tried_again_after_a_pause(desk: Desk) -> None:
    desk.failing = {BILLS}
    desk.end(desk.begun(ORDERS, BILLS), committed=True)
    desk.write_markers()
    too_early = desk.take_markers()
    desk.now_ms += RETRY_BACKOFF_MS
    (again,) = desk.take_markers()
    desk.failing = set()
    desk.write_markers((again,))

    assert too_early == ()
    assert again.partitions == {BILLS}
    assert desk.state == TransactionState.COMPLETE_COMMIT
    assert [committed for _, committed in desk.written[ORDERS]] == [True]


def test_a_partition_that_never_answers_is_asked_for_ever(desk: Desk) -> None:
    desk.failing = {ORDERS}
    desk.end(desk.begun(), committed=False)
    for _ in range(1000):
        desk.write_markers()
        desk.now_ms += RETRY_BACKOFF_MS

    assert desk.state == TransactionState.PREPARE_ABORT
    assert len(desk.take_markers()) == 1


def test_a_completion_that_cannot_be_written_is_tried_again(desk: Desk) -> None:
    desk.end(desk.begun(), committed=True)
    desk.log_broken = True
    desk.write_markers()
    desk.log_broken = False
    desk.now_ms += RETRY_BACKOFF_MS
    desk.write_markers()

    assert desk.state == TransactionState.COMPLETE_COMMIT


def test_a_partition_with_a_newer_epoch_does_not_hold_up_the_transaction(desk: Desk) -> None:
    desk.end(desk.begun(ORDERS), committed=True)
    (marker,) = desk.take_markers()
    desk.carry_out(desk.shard.note_markers(marker, {ORDERS: ErrorCode.INVALID_PRODUCER_EPOCH}, desk.moment))

    assert desk.state == TransactionState.COMPLETE_COMMIT


def test_answers_for_an_older_decision_are_ignored(desk: Desk) -> None:
    producer_id, epoch = desk.begun()
    desk.end((producer_id, epoch), committed=True)
    (old,) = desk.take_markers()
    desk.write_markers((old,))
    desk.add((producer_id, epoch + 1), BILLS)
    desk.end((producer_id, epoch + 1), committed=False)
    desk.take_markers()
    desk.carry_out(desk.shard.note_markers(old, {ORDERS: ErrorCode.NONE}, desk.moment))

    assert desk.state == TransactionState.PREPARE_ABORT


# --- time


def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(desk: Desk) -> None:
    producer = desk.begun(ORDERS)
    desk.pass_time(TIMEOUT_MS)
    before = desk.state
    desk.pass_time(1)
    desk.write_markers()

    assert before == TransactionState.ONGOING
    assert desk.state == TransactionState.COMPLETE_ABORT
    assert desk.written[ORDERS][0][0].epoch == producer[1] + 1
    assert desk.end(producer, committed=True).error == ErrorCode.INVALID_TXN_STATE
    assert desk.add(producer, ORDERS) == ErrorCode.PRODUCER_FENCED


def test_the_timeout_of_an_older_clients_transaction_fences_it(desk: Desk) -> None:
    producer = desk.begun(ORDERS, version=0)
    desk.pass_time(TIMEOUT_MS + 1)
    desk.write_markers()

    assert desk.end(producer, committed=True, version=0).error == ErrorCode.PRODUCER_FENCED


def test_a_two_phase_transaction_never_times_out() -> None:
    desk = Desk(settings=TransactionSettings(two_phase_commit_enable=True))
    identified = desk.init(enable_two_phase_commit=True)
    desk.add((identified.producer_id, identified.producer_epoch), ORDERS)
    desk.pass_time(50 * WEEK_MS)

    assert desk.state == TransactionState.ONGOING


def test_the_timeout_runs_on_over_a_restart(desk: Desk) -> None:
    desk.begun()
    desk.now_ms += TIMEOUT_MS + 1
    desk.restart()
    desk.pass_time(0)

    assert desk.state == TransactionState.PREPARE_ABORT


def test_an_idle_transactional_id_is_forgotten_after_a_week(desk: Desk) -> None:
    desk.init()
    desk.pass_time(WEEK_MS - 1)
    before = desk.shard.get("t")
    desk.pass_time(1)

    assert before is not None
    assert desk.shard.get("t") is None
    assert desk.log[-1] == Tombstone("t")


@pytest.mark.parametrize("jump_ms", [52 * WEEK_MS, -52 * WEEK_MS])
def test_an_idle_transactional_id_survives_a_start_under_a_wrong_clock_and_the_next_under_the_right_one(
    desk: Desk, jump_ms: int
) -> None:
    desk.now_ms += 60 * WEEK_MS
    desk.init()
    desk.now_ms += jump_ms
    desk.restart()
    desk.pass_time(WEEK_MS // 2)
    desk.init("another")
    desk.now_ms -= jump_ms
    desk.restart()
    desk.pass_time(WEEK_MS - 1)
    assert desk.shard.get("t") is not None
    assert desk.shard.get("another") is not None
    desk.pass_time(1)

    assert len(desk.shard) == 0


def test_a_transaction_that_seems_to_begin_in_the_future_times_out_all_the_same(desk: Desk) -> None:
    desk.begun()
    desk.now_ms -= 500_000
    desk.restart()
    desk.pass_time(TIMEOUT_MS)
    assert desk.state == TransactionState.ONGOING
    desk.pass_time(2)

    assert desk.state == TransactionState.PREPARE_ABORT


def test_an_open_transaction_keeps_its_transactional_id(desk: Desk) -> None:
    desk.begun()
    desk.failing = {ORDERS}
    desk.pass_time(2 * WEEK_MS)

    assert desk.state == TransactionState.PREPARE_ABORT


def test_a_transactional_id_is_remembered_for_as_long_as_is_set() -> None:
    desk = Desk(settings=TransactionSettings(transactional_id_expiration_ms=5000))
    desk.init()
    desk.pass_time(4999)
    assert desk.shard.get("t") is not None
    desk.pass_time(1)

    assert desk.shard.get("t") is None


def test_many_expiries_are_spread_over_several_writes(desk: Desk) -> None:
    for number in range(1200):
        desk.init(f"t{number}")
    desk.now_ms += WEEK_MS
    first = desk.shard.tick(desk.moment)
    desk.carry_out(first)
    desk.pass_time(0)

    assert len(first.entries) == 500
    assert len(desk.shard) == 0


def test_a_tick_that_cannot_be_written_does_not_spin(desk: Desk) -> None:
    desk.begun()
    desk.log_broken = True
    desk.pass_time(TIMEOUT_MS + 1)
    deadline = desk.shard.next_deadline()
    desk.log_broken = False
    desk.pass_time(1000)

    assert deadline is not None
    assert deadline > (desk.now_ms - 1000) / 1000
    assert desk.state == TransactionState.PREPARE_ABORT


def test_deadlines_of_a_busy_transactional_id_do_not_pile_up() -> None:
    deadlines = Deadlines()
    for moment in range(10_000):
        deadlines.put("busy", moment)

    assert deadlines.next() == 9999
    assert len(deadlines._heap) < 200


# --- looking


def test_a_description_tells_all_there_is(desk: Desk) -> None:
    producer = desk.begun(ORDERS, BILLS)
    description = desk.shard.describe("t")
    unknown = desk.shard.describe("nobody")

    assert description.state == "Ongoing"
    assert (description.producer_id, description.producer_epoch) == producer
    assert description.partitions == {ORDERS, BILLS}
    assert (description.timeout_ms, description.start_ms) == (TIMEOUT_MS, desk.now_ms)
    assert unknown.error == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_listing_filters_by_state_producer_duration_and_pattern(desk: Desk) -> None:
    producer_id, _ = desk.begun()
    desk.init("idle-1")
    desk.now_ms += 1000

    def ids(**filtered: object) -> set[str]:
        return {each.transactional_id for each in desk.shard.list(ListFilter(**filtered), desk.moment)}  # type: ignore[arg-type]

    assert ids() == {"t", "idle-1"}
    assert ids(states=frozenset({"Ongoing"})) == {"t"}
    assert ids(states=frozenset({"Nonsense"})) == set()
    assert ids(producer_ids=frozenset({producer_id})) == {"t"}
    assert "t" in ids(duration_ms=999)
    assert "t" not in ids(duration_ms=1000)
    assert ids(transactional_id_pattern="idle-.*") == {"idle-1"}
    assert ids(transactional_id_pattern="idle") == set()
    with pytest.raises(RequestError) as refused:
        ids(transactional_id_pattern="(")
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_state_labels_are_the_protocols(desk: Desk) -> None:
    assert [state.label for state in TransactionState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


def test_a_step_outside_the_table_is_our_mistake() -> None:
    for state, allowed in TRANSITIONS.items():
        transaction = TransactionEntry(transactional_id="t", producer_id=1, producer_epoch=0, timeout_ms=1, state=state)
        for target in TransactionState:
            if target in allowed:
                assert transaction.moved_to(target).state == target
            else:
                with pytest.raises(AssertionError):
                    transaction.moved_to(target)
