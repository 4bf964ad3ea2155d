"""Who a transactional producer is: ids, epochs, and who is fenced by whom."""

import pytest

from headrace.coordination.transaction.producer_ids import PREFETCH_BELOW, ProducerIds
from headrace.coordination.transaction.requests import TransactionSettings
from headrace.coordination.transaction.state import TIMEOUT_NEVER_MS, TransactionState
from headrace.model.errors import ErrorCode, RequestError
from tests.unit.coordination.transaction.transaction_desk import BILLS, ORDERS, TIMEOUT_MS, Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_new_transactional_id_gets_a_fresh_producer_id_at_epoch_zero(desk: Desk) -> None:
    first, other = desk.init("t"), desk.init("other")

    assert (first.error, first.producer_epoch) == (ErrorCode.NONE, 0)
    assert other.producer_id != first.producer_id


def test_each_initialization_keeps_the_producer_id_and_bumps_the_epoch(desk: Desk) -> None:
    first, second = desk.init(), desk.init()

    assert second.producer_id == first.producer_id
    assert second.producer_epoch == first.producer_epoch + 1


def test_a_fenced_producer_can_neither_add_partitions_nor_end_its_transaction(desk: Desk) -> None:
    first = desk.init()
    desk.init()
    zombie = (first.producer_id, first.producer_epoch)

    assert desk.add(zombie, ORDERS) == ErrorCode.PRODUCER_FENCED
    assert desk.end(zombie, committed=True).error == ErrorCode.PRODUCER_FENCED
    assert desk.end(zombie, committed=True, version=0).error == ErrorCode.PRODUCER_FENCED
    assert desk.verify(zombie, ORDERS) == {ORDERS: ErrorCode.PRODUCER_FENCED}


@pytest.mark.parametrize("timeout_ms", [0, -1, 15 * 60 * 1000 + 1])
def test_a_timeout_outside_the_brokers_limits_is_refused(desk: Desk, timeout_ms: int) -> None:
    assert desk.init(timeout_ms=timeout_ms).error == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert desk.log == []


def test_an_empty_transactional_id_is_an_invalid_request(desk: Desk) -> None:
    assert desk.init("").error == ErrorCode.INVALID_REQUEST


def test_two_phase_commit_is_refused_unless_the_broker_allows_it(desk: Desk) -> None:
    refused = desk.init(enable_two_phase_commit=True)
    allowing = Desk(settings=TransactionSettings(two_phase_commit_enable=True))
    allowed = allowing.init(enable_two_phase_commit=True, timeout_ms=-5)

    assert refused.error == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert allowed.error == ErrorCode.NONE
    assert allowing.transaction.timeout_ms == TIMEOUT_NEVER_MS


def test_keeping_a_prepared_transaction_is_not_supported(desk: Desk) -> None:
    assert desk.init(keep_prepared_transaction=True).error == ErrorCode.UNSUPPORTED_VERSION


def test_a_producer_that_names_its_own_identity_goes_on_with_the_next_epoch(desk: Desk) -> None:
    first = desk.init()
    second = desk.init(expected=(first.producer_id, first.producer_epoch))

    assert (second.producer_id, second.producer_epoch) == (first.producer_id, first.producer_epoch + 1)


def test_a_repeated_bump_whose_reply_was_lost_gets_the_same_epoch_again(desk: Desk) -> None:
    first = desk.init()
    identity = (first.producer_id, first.producer_epoch)

    assert desk.init(expected=identity) == desk.init(expected=identity)


def test_a_bump_after_another_producer_took_over_is_fenced(desk: Desk) -> None:
    first = desk.init()
    identity = (first.producer_id, first.producer_epoch)
    desk.init(expected=identity)
    desk.init()

    assert desk.init(expected=identity).error == ErrorCode.PRODUCER_FENCED


def test_a_bump_under_a_foreign_producer_id_is_fenced(desk: Desk) -> None:
    first = desk.init()

    assert desk.init(expected=(first.producer_id + 1, 0)).error == ErrorCode.PRODUCER_FENCED


def test_a_producer_whose_transactional_id_was_forgotten_starts_anew(desk: Desk) -> None:
    found = desk.init(expected=(77, 5))

    assert (found.error, found.producer_epoch) == (ErrorCode.NONE, 0)
    assert found.producer_id != 77


def test_a_used_up_producer_id_is_replaced_by_a_new_one(desk: Desk) -> None:
    old = desk.at_epoch(32766)
    new = desk.init()

    assert (new.error, new.producer_epoch) == (ErrorCode.NONE, 0)
    assert new.producer_id != old[0]


def test_a_producer_repeats_its_last_bump_over_the_change_of_producer_id(desk: Desk) -> None:
    old = desk.at_epoch(32766)
    new = desk.init(expected=old)

    assert desk.init(expected=old) == new


def test_the_last_epoch_but_one_is_still_handed_out(desk: Desk) -> None:
    old = desk.at_epoch(32765)

    assert desk.init().producer_epoch == 32766
    assert desk.transaction.producer_id == old[0]


def test_a_stale_bump_of_a_used_up_producer_id_is_fenced(desk: Desk) -> None:
    old = desk.at_epoch(32766)

    assert desk.init(expected=(old[0], 5)).error == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [0, 2])
def test_initializing_over_an_open_transaction_aborts_it_and_asks_to_come_back(version: int) -> None:
    desk = Desk(settings=TransactionSettings(version=version))
    producer = desk.begun(ORDERS, BILLS, version=version)
    told = desk.init()
    state_after = desk.state
    desk.write_markers()
    again = desk.init()

    assert told.error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert state_after == TransactionState.PREPARE_ABORT
    assert {committed for outcomes in desk.written.values() for _, committed in outcomes} == {False}
    assert again.error == ErrorCode.NONE
    assert again.producer_epoch > producer[1] + 1
    assert desk.end(producer, committed=True, version=version).error == ErrorCode.PRODUCER_FENCED


def test_initializing_while_markers_are_being_written_asks_to_come_back(desk: Desk) -> None:
    desk.end(desk.begun(), committed=True)

    assert desk.init().error == ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("version", [0, 2])
def test_fencing_at_the_last_epoch_leads_to_a_new_producer_id(version: int) -> None:
    desk = Desk(settings=TransactionSettings(version=version))
    old = desk.at_epoch(32766)
    desk.add(old, ORDERS, version=version)
    desk.init()
    desk.write_markers()
    new = desk.init()

    assert desk.written[ORDERS][0][0].epoch == 32767
    assert new.error == ErrorCode.NONE
    assert new.producer_id != old[0]


def test_a_later_initialization_sets_its_own_timeout(desk: Desk) -> None:
    desk.init(timeout_ms=TIMEOUT_MS)
    desk.init(timeout_ms=5000)

    assert desk.transaction.timeout_ms == 5000


def test_without_producer_ids_a_new_producer_is_asked_to_come_back(desk: Desk) -> None:
    desk.producer_ids._blocks.clear()

    assert desk.init().error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_producer_ids_come_out_of_their_blocks_in_order_and_once_each() -> None:
    ids = ProducerIds()
    ids.add(range(10, 13))
    ids.add(range(50, 52))

    assert [ids.take() for _ in range(5)] == [10, 11, 12, 50, 51]
    with pytest.raises(RequestError):
        ids.take()


def test_a_new_block_is_wanted_before_the_last_id_is_gone() -> None:
    ids = ProducerIds()
    wanted_at_start = ids.wants_block
    ids.add(range(PREFETCH_BELOW))
    enough = not ids.wants_block
    ids.take()

    assert wanted_at_start
    assert enough
    assert ids.wants_block
