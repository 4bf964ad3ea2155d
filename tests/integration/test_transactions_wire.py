"""Transactions as a broker answers them on a socket, request by request."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.records.batch import iterate_batches
from headrace.records.control import read_marker
from headrace.records.record import read_records
from headrace.testing import Broker
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.describe_transactions import DescribeTransactionsRequest
from headrace.wire.messages.list_transactions import ListTransactionsRequest
from tests.integration.transaction_wire import Teller
from tests.support.waiting import until


@pytest.fixture
def teller(bootstrap: str) -> Iterator[Teller]:
    with Teller(bootstrap) as connection:
        yield connection


@pytest.fixture
def partition(teller: Teller, topic: str) -> TopicPartition:
    teller.create_topic(topic, 2)
    return TopicPartition(topic, 0)


@pytest.fixture
def other(partition: TopicPartition) -> TopicPartition:
    return TopicPartition(partition.topic, 1)


def eventually(look: Callable[[], Any], wanted: Any, seconds: float = 5.0) -> None:
    """Markers follow the answer to EndTxn a moment later."""
    until(lambda: look() == wanted, lambda: f"{look()} is {wanted}", seconds)


def values(data: Any) -> list[bytes]:
    """What a consumer that trusts the aborted list would see."""
    aborted = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
    aborting: set[int] = set()
    seen = []
    for header, batch in iterate_batches(data.records or b""):
        while aborted and aborted[0][0] <= header.last_offset:
            aborting.add(aborted.pop(0)[1])
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None and not marker.committed:
                aborting.discard(header.producer_id)
        elif header.producer_id not in aborting:
            seen += [record.value or b"" for record in read_records(batch)]
    return seen


# --- the newer way: partitions join by being written to, every end bumps the epoch


def test_a_write_adds_its_partition_and_the_commit_shows_it(teller: Teller, partition: TopicPartition, topic: str) -> None:
    producer = teller.identity(topic)
    written = teller.produce(topic, producer, partition, b"one", b"two")
    before = values(teller.fetch(partition))
    ended = teller.end(topic, producer, committed=True)

    assert written == (ErrorCode.NONE, 0)
    assert before == []
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, producer[0], producer[1] + 1)
    eventually(lambda: values(teller.fetch(partition)), [b"one", b"two"])


def test_an_aborted_write_is_named_as_such_and_stays_readable_for_those_who_want_everything(
    teller: Teller, partition: TopicPartition, topic: str
) -> None:
    producer = teller.identity(topic)
    teller.produce(topic, producer, partition, b"gone")
    teller.end(topic, producer, committed=False)
    eventually(lambda: teller.end_offset(partition, committed=True), 2)
    data = teller.fetch(partition)

    assert values(data) == []
    assert [(each.producer_id, each.first_offset) for each in data.aborted_transactions] == [(producer[0], 0)]
    everything = teller.fetch(partition, committed=False)
    assert everything.aborted_transactions is None
    assert [record.value for _, batch in iterate_batches(everything.records) for record in read_records(batch)][:1] == [b"gone"]


def test_the_next_transaction_needs_the_epoch_from_the_last_end(teller: Teller, partition: TopicPartition, topic: str) -> None:
    producer = teller.identity(topic)
    teller.produce(topic, producer, partition, b"a")
    ended = teller.end(topic, producer, committed=True)
    eventually(lambda: teller.end_offset(partition, committed=True), 2)
    late, _ = teller.produce(topic, producer, partition, b"late", sequence=1)
    fresh, _ = teller.produce(topic, (ended.producer_id, ended.producer_epoch), partition, b"b")

    assert late == ErrorCode.INVALID_PRODUCER_EPOCH
    assert fresh == ErrorCode.NONE


def test_a_repeated_end_is_answered_as_the_first_was(teller: Teller, partition: TopicPartition, topic: str) -> None:
    producer = teller.identity(topic)
    teller.produce(topic, producer, partition, b"a")
    first = teller.end(topic, producer, committed=True)

    assert teller.end(topic, producer, committed=True) == first
    assert teller.end(topic, producer, committed=False).error_code == ErrorCode.INVALID_TXN_STATE


def test_many_transactions_in_a_row_do_not_wait_for_each_other(teller: Teller, partition: TopicPartition, topic: str) -> None:
    producer = teller.identity(topic)
    for number in range(20):
        assert teller.produce(topic, producer, partition, b"%d" % number)[0] == ErrorCode.NONE
        ended = teller.end(topic, producer, committed=True)
        assert ended.error_code == ErrorCode.NONE
        producer = (ended.producer_id, ended.producer_epoch)

    eventually(lambda: len(values(teller.fetch(partition))), 20)


@pytest.mark.parametrize("committed", [True, False])
def test_committing_offsets_adds_the_group_and_they_count_with_the_commit(
    teller: Teller, partition: TopicPartition, topic: str, committed: bool
) -> None:
    teller.find_group(topic)
    producer = teller.identity(topic)
    answered = teller.commit_offset(topic, producer, topic, partition, 42, version=5)
    between = teller.committed_offset(topic, partition)
    teller.end(topic, producer, committed=committed)

    assert answered == ErrorCode.NONE
    assert between[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    eventually(lambda: teller.committed_offset(topic, partition), (ErrorCode.NONE, 42 if committed else -1))


# --- the older way: partitions are added first


@pytest.mark.parametrize(("version", "error"), [(9, "INVALID_TXN_STATE"), (11, "TRANSACTION_ABORTABLE")])
def test_a_write_to_a_partition_that_was_not_added_is_refused(
    teller: Teller, partition: TopicPartition, topic: str, version: int, error: str
) -> None:
    producer = teller.identity(topic)
    code, _ = teller.produce(topic, producer, partition, b"stray", version=version)

    assert code.name == error
    assert teller.end_offset(partition, committed=False) == 0


def test_a_write_after_the_end_is_refused_and_cannot_leave_a_transaction_hanging(
    teller: Teller, partition: TopicPartition, topic: str
) -> None:
    producer = teller.identity(topic)
    teller.add(topic, producer, partition)
    teller.produce(topic, producer, partition, b"a", version=11)
    teller.end(topic, producer, committed=True, version=3)
    eventually(lambda: teller.end_offset(partition, committed=True), 2)
    code, _ = teller.produce(topic, producer, partition, b"late", sequence=1, version=11)

    assert code == ErrorCode.TRANSACTION_ABORTABLE
    assert teller.end_offset(partition, committed=True) == teller.end_offset(partition, committed=False)


def test_an_older_producer_goes_through_transactions_without_a_new_epoch(
    teller: Teller, partition: TopicPartition, other: TopicPartition, topic: str
) -> None:
    producer = teller.identity(topic, version=3)
    for number, committed in enumerate((True, False, True)):
        assert teller.add(topic, producer, partition, other) == [ErrorCode.NONE] * 2
        for each in (partition, other):
            code, _ = teller.produce(topic, producer, each, b"%d" % number, sequence=number, version=9)
            assert code == ErrorCode.NONE
        assert teller.end(topic, producer, committed=committed, version=3).error_code == ErrorCode.NONE

    eventually(lambda: (values(teller.fetch(partition)), values(teller.fetch(other))), ([b"0", b"2"], [b"0", b"2"]))


def test_one_unknown_partition_keeps_all_of_them_out(teller: Teller, partition: TopicPartition, topic: str) -> None:
    producer = teller.identity(topic)
    nowhere = TopicPartition(topic, 99)

    assert teller.add(topic, producer, partition, nowhere) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert teller.verify((topic, producer, partition)) == [ErrorCode.TRANSACTION_ABORTABLE]


def test_brokers_verify_many_transactions_in_one_request(
    teller: Teller, partition: TopicPartition, other: TopicPartition, topic: str
) -> None:
    first, second = teller.identity(f"{topic}-1"), teller.identity(f"{topic}-2")
    teller.add(f"{topic}-1", first, partition)

    assert teller.verify(
        (f"{topic}-1", first, partition),
        (f"{topic}-1x", first, partition),
        (f"{topic}-2", second, other),
        (f"{topic}-2", (second[0], second[1] + 1), other),
    ) == [
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.PRODUCER_FENCED,
    ]


def test_a_transactional_batch_without_a_transactional_id_is_refused(
    teller: Teller, partition: TopicPartition, topic: str
) -> None:
    code, _ = teller.produce(None, teller.identity(topic), partition, b"x")

    assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_batch_without_a_transactional_id_is_refused_in_an_open_transaction_too(
    teller: Teller, partition: TopicPartition, topic: str
) -> None:
    producer = teller.identity(topic)
    assert teller.produce(topic, producer, partition, b"first")[0] is ErrorCode.NONE

    code, _ = teller.produce(None, producer, partition, b"second", sequence=1)

    assert code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


# --- identities


def test_fenced_producers_are_told_in_words_they_know(teller: Teller, partition: TopicPartition, topic: str) -> None:
    old = teller.identity(topic)
    teller.identity(topic)

    assert teller.add(topic, old, partition, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert teller.add(topic, old, partition, version=3) == [ErrorCode.PRODUCER_FENCED]
    assert teller.add_offsets(topic, old, "group", version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert teller.add_offsets(topic, old, "group", version=3) == ErrorCode.PRODUCER_FENCED
    assert teller.end(topic, old, committed=True, version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert teller.end(topic, old, committed=True, version=3).error_code == ErrorCode.PRODUCER_FENCED
    assert teller.init(topic, identity=(old[0] + 1, 0), version=3).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert teller.init(topic, identity=(old[0] + 1, 0), version=4).error_code == ErrorCode.PRODUCER_FENCED


def test_an_idempotent_producer_gets_an_id_of_its_own_at_epoch_zero(teller: Teller) -> None:
    found = [teller.init(None) for _ in range(3)]

    assert {each.error_code for each in found} == {ErrorCode.NONE}
    assert {each.producer_epoch for each in found} == {0}
    assert len({each.producer_id for each in found}) == 3


def test_initialization_refuses_what_makes_no_sense(teller: Teller, topic: str) -> None:
    assert teller.init(topic, timeout_ms=15 * 60 * 1000 + 1).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert teller.init(topic, timeout_ms=0).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert teller.init(topic, identity=(5, -1)).error_code == ErrorCode.INVALID_REQUEST
    assert teller.init(topic, version=6, enable2_pc=True).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert teller.init(topic, version=6, keep_prepared_txn=True).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_new_producer_aborts_what_the_old_one_left_open(teller: Teller, partition: TopicPartition, topic: str) -> None:
    old = teller.identity(topic)
    teller.produce(topic, old, partition, b"left behind")
    new = teller.identity(topic)

    assert new[1] > old[1] + 1
    eventually(lambda: teller.end_offset(partition, committed=True), 2)
    assert values(teller.fetch(partition)) == []
    assert teller.end(topic, old, committed=True).error_code == ErrorCode.PRODUCER_FENCED


def test_a_transaction_that_takes_too_long_is_aborted(teller: Teller, partition: TopicPartition, topic: str) -> None:
    producer = teller.identity(topic, timeout_ms=150)
    teller.produce(topic, producer, partition, b"slow")
    open_until = teller.end_offset(partition, committed=True)

    assert open_until == 0
    eventually(lambda: teller.end_offset(partition, committed=True), 2)
    assert teller.produce(topic, producer, partition, b"late", sequence=1)[0] == ErrorCode.INVALID_PRODUCER_EPOCH


# --- what readers of committed records see


def test_the_last_stable_offset_moves_only_when_the_oldest_open_transaction_ends(
    teller: Teller, partition: TopicPartition, topic: str
) -> None:
    old, young = teller.identity(f"{topic}-old"), teller.identity(f"{topic}-young")
    teller.produce(f"{topic}-old", old, partition, b"old")
    teller.produce(f"{topic}-young", young, partition, b"young")
    teller.end(f"{topic}-young", young, committed=True)
    eventually(lambda: teller.end_offset(partition, committed=False), 3)
    between = teller.end_offset(partition, committed=True), values(teller.fetch(partition))
    teller.end(f"{topic}-old", old, committed=True)

    assert between == (0, [])
    eventually(lambda: teller.end_offset(partition, committed=True), 4)
    assert values(teller.fetch(partition)) == [b"old", b"young"]


def test_the_aborted_list_is_exactly_that_of_the_range_returned(teller: Teller, partition: TopicPartition, topic: str) -> None:
    """Offsets: aborted 0, marker 1, aborted 2, marker 3, kept 4, marker 5, aborted 6, marker 7."""
    producer = teller.identity(topic)
    for value, committed in ((b"a", False), (b"b", False), (b"kept", True), (b"c", False)):
        assert teller.produce(topic, producer, partition, value)[0] == ErrorCode.NONE
        ended = teller.end(topic, producer, committed=committed)
        producer = (ended.producer_id, ended.producer_epoch)
    eventually(lambda: teller.end_offset(partition, committed=True), 8)

    def aborted_from(offset: int, max_bytes: int = 1 << 20) -> list[int]:
        return [each.first_offset for each in teller.fetch(partition, offset, max_bytes=max_bytes).aborted_transactions]

    assert aborted_from(0) == [0, 2, 6]
    assert aborted_from(2) == [2, 6]
    assert aborted_from(4) == [6]
    assert aborted_from(0, max_bytes=1) == [0], "one batch is returned, so one transaction is named"
    assert aborted_from(4, max_bytes=1) == []
    assert values(teller.fetch(partition, 0)) == [b"kept"]


def test_an_aborted_transaction_between_two_fetches_is_named_in_both(
    teller: Teller, partition: TopicPartition, topic: str
) -> None:
    producer = teller.identity(topic)
    teller.produce(topic, producer, partition, b"a")
    teller.produce(topic, producer, partition, b"b", sequence=1)
    teller.end(topic, producer, committed=False)
    eventually(lambda: teller.end_offset(partition, committed=True), 3)

    for offset in (0, 1):
        data = teller.fetch(partition, offset, max_bytes=1)
        assert [each.first_offset for each in data.aborted_transactions] == [0]
        assert values(data) == []


# --- looking in


def test_an_open_transaction_is_listed_described_and_seen_in_its_partition(
    teller: Teller, partition: TopicPartition, topic: str
) -> None:
    producer = teller.identity(topic)
    teller.produce(topic, producer, partition, b"a", b"b")
    listed = teller.call(
        ListTransactionsRequest(
            state_filters=("Ongoing", "Nonsense"), producer_id_filters=(producer[0],), transactional_id_pattern=f"{topic}.*"
        ),
        2,
    )
    (described, unknown) = teller.call(DescribeTransactionsRequest(transactional_ids=(topic, "nobody")), 0).transaction_states
    (seen,) = teller.producers(partition)

    assert listed.unknown_state_filters == ("Nonsense",)
    assert [(each.transactional_id, each.producer_id, each.transaction_state) for each in listed.transaction_states] == [
        (topic, producer[0], "Ongoing")
    ]
    assert (described.producer_id, described.producer_epoch, described.transaction_state) == (*producer, "Ongoing")
    assert [(each.topic, each.partitions) for each in described.topics] == [(topic, (0,))]
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert (seen.producer_id, seen.producer_epoch, seen.last_sequence, seen.current_txn_start_offset) == (*producer, 1, 0)


def test_a_pattern_that_is_none_is_refused(teller: Teller, topic: str) -> None:
    teller.identity(topic)
    request = ListTransactionsRequest(state_filters=(), producer_id_filters=(), transactional_id_pattern="(")

    assert teller.call(request, 2).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_an_operator_ends_a_transaction_in_one_partition_by_a_marker(
    teller: Teller, partition: TopicPartition, topic: str
) -> None:
    producer = teller.identity(topic)
    teller.produce(topic, producer, partition, b"hanging")
    (state,) = teller.producers(partition)
    error = teller.write_marker(producer, partition, committed=False, coordinator_epoch=state.coordinator_epoch)
    nowhere = teller.write_marker(producer, TopicPartition(topic, 99), committed=False, coordinator_epoch=0)

    assert error == ErrorCode.NONE
    assert nowhere == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert teller.end_offset(partition, committed=True) == 2
    assert values(teller.fetch(partition)) == []


def test_a_marker_of_a_fenced_coordinator_is_refused(teller: Teller, partition: TopicPartition, topic: str) -> None:
    producer = teller.identity(topic)
    teller.produce(topic, producer, partition, b"a")

    assert teller.write_marker(producer, partition, committed=True, coordinator_epoch=7) == ErrorCode.NONE
    refused = teller.write_marker(producer, partition, committed=False, coordinator_epoch=6)
    assert refused == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    # Else the broker's own coordinator, which is refused as well, would try to end the transaction while other tests run.
    teller.call(DeleteTopicsRequest(topic_names=(topic,), timeout_ms=10_000), 5)


# --- over restarts


def test_producer_ids_and_epochs_go_on_over_a_restart(topic: str) -> None:
    with Broker(memory=False) as broker:
        with Teller(broker.bootstrap) as teller:
            teller.create_topic(topic)
            first, idempotent = teller.identity(topic), teller.init(None).producer_id
            teller.produce(topic, first, TopicPartition(topic, 0), b"open")
        broker.restart()
        with Teller(broker.bootstrap) as teller:
            second = teller.identity(topic)

            assert second[0] == first[0]
            assert second[1] > first[1]
            assert teller.init(None).producer_id > idempotent
            assert teller.end(topic, first, committed=True).error_code == ErrorCode.PRODUCER_FENCED
