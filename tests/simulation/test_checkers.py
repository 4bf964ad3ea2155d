"""Each rule is broken here by hand, and each checker notices its own and nothing else."""

import pytest

from headrace.model.identity import TopicPartition
from headrace.testing.simulation.checkers import FinalState, check
from headrace.testing.simulation.history import (
    Acknowledged,
    Ended,
    Fact,
    History,
    Led,
    OffsetCommitted,
    OffsetCommitting,
    OffsetRead,
    Passed,
    Polled,
    Refused,
    Sent,
)
from headrace.testing.simulation.loop import SimulatedLoop
from headrace.testing.simulation.observer import Committed, CommittedBatch

PARTITION, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
Records = list[tuple[int, str]]


def sent(value: str, transaction: str | None = None, partition: TopicPartition = PARTITION) -> Sent:
    return Sent(producer=value.split("/")[0], partition=partition, value=value, transaction=transaction)


def acknowledged(value: str, offset: int, broker: int = 1) -> Acknowledged:
    return Acknowledged(producer=value.split("/")[0], partition=PARTITION, value=value, offset=offset, broker=broker)


def polled(value: str, offset: int, *, isolated: bool = False) -> Polled:
    return Polled(consumer="c", partition=PARTITION, offset=offset, value=value, isolated=isolated)


def broken(facts: list[Fact], records: Records, isolated: Records | None = None, other: Records | None = None) -> list[str]:
    history = History(SimulatedLoop(0))
    for fact in [Led(partition=PARTITION, leader_epoch=1, broker=1), *facts]:
        history.record(fact)
    final = FinalState(
        {PARTITION: records, OTHER: other or []}, {PARTITION: records if isolated is None else isolated, OTHER: other or []}
    )
    batches = {offset: CommittedBatch(offset, offset + 1, 1, 0) for offset, _ in records}
    return check(history, final, {PARTITION: Committed(batches), OTHER: Committed()})


def only(found: list[str], beginning: str) -> bool:
    return bool(found) and all(each.startswith(beginning) for each in found)


def test_a_history_in_which_all_is_well_breaks_nothing() -> None:
    facts: list[Fact] = [
        sent("p/1"),
        sent("p/2"),
        acknowledged("p/1", 0),
        acknowledged("p/2", 1),
        polled("p/1", 0),
        Passed(consumer="c", partition=PARTITION, start=0, end=1),
        OffsetCommitting(group="g", partition=PARTITION, offset=1),
        OffsetCommitted(group="g", partition=PARTITION, offset=1),
        OffsetRead(group="g", partition=PARTITION, offset=1, asked=9),
    ]

    assert broken(facts, [(0, "p/1"), (1, "p/2")]) == []


def test_an_acknowledged_record_that_is_gone_is_a_lost_write() -> None:
    found = broken([sent("p/1"), acknowledged("p/1", 0)], [])

    assert found[0].startswith("lost write")


def test_an_acknowledged_record_at_another_offset_is_a_lost_write() -> None:
    assert only(broken([sent("p/1"), sent("q/1"), acknowledged("p/1", 1)], [(0, "p/1"), (1, "q/1")]), "lost write")


def test_a_record_that_is_there_twice_is_a_duplicate() -> None:
    assert only(broken([sent("p/1")], [(0, "p/1"), (1, "p/1")]), "duplicate")


def test_a_record_that_nobody_sent_is_noticed() -> None:
    assert only(broken([], [(0, "p/1")]), "unknown record")


def test_records_of_one_producer_in_another_order_are_noticed() -> None:
    assert only(broken([sent("p/1"), sent("p/2")], [(0, "p/2"), (1, "p/1")]), "disorder")


def test_a_record_that_was_read_and_is_gone_is_a_false_read() -> None:
    assert only(broken([sent("p/1"), sent("q/1"), polled("p/1", 0)], [(0, "q/1")]), "false read")


def test_an_aborted_record_that_an_isolated_reader_got_is_an_aborted_read() -> None:
    facts: list[Fact] = [sent("p/1", "t1"), Ended(transaction="t1", outcome="aborted"), polled("p/1", 0, isolated=True)]

    assert only(broken(facts, [(0, "p/1")], isolated=[]), "aborted read")


def test_a_consumer_that_is_led_past_a_record_is_noticed() -> None:
    facts: list[Fact] = [sent("p/1"), sent("p/2"), polled("p/2", 1), Passed(consumer="c", partition=PARTITION, start=0, end=2)]

    assert only(broken(facts, [(0, "p/1"), (1, "p/2")]), "poll skip")


def test_a_producer_that_is_refused_is_noticed() -> None:
    refused = Refused(producer="p", partition=PARTITION, value="p/1", reason="OUT_OF_ORDER_SEQUENCE_NUMBER")

    assert only(broken([sent("p/1"), refused], []), "refused write")


def test_an_acknowledgement_by_a_broker_that_never_led_is_noticed() -> None:
    assert only(broken([sent("p/1"), acknowledged("p/1", 0, broker=2)], [(0, "p/1")]), "2 acknowledged p/1")


@pytest.mark.parametrize(
    ("outcome", "visible", "beginning"),
    [("committed", [], "lost transaction"), ("aborted", [(0, "p/1")], "aborted transaction"), ("unknown", [(0, "p/1")], "torn")],
)
def test_transactions_that_are_lost_leaked_or_torn_are_told_apart(outcome: str, visible: Records, beginning: str) -> None:
    facts: list[Fact] = [
        sent("p/1", "t1"),
        sent("p/2", "t1", OTHER),
        Ended(transaction="t1", outcome=outcome),
    ]

    assert only(broken(facts, [(0, "p/1")], isolated=visible), beginning)


def test_a_transaction_of_unknown_end_may_be_there_whole_or_not_at_all() -> None:
    facts: list[Fact] = [sent("p/1", "t1"), sent("p/2", "t1", OTHER), Ended(transaction="t1", outcome="unknown")]

    assert broken(facts, [(0, "p/1")], other=[(0, "p/2")]) == []
    assert broken(facts, [(0, "p/1")], isolated=[]) == []


@pytest.mark.parametrize(("offset", "visible"), [(0, [(0, "p/1")]), (7, [])])
def test_an_offset_that_parts_from_its_transaction_is_noticed(offset: int, visible: Records) -> None:
    facts: list[Fact] = [
        sent("p/1", "t1"),
        OffsetCommitting(group="g", partition=PARTITION, offset=7, transaction="t1"),
        Ended(transaction="t1", outcome="unknown"),
        OffsetRead(group="g", partition=PARTITION, offset=offset, asked=4),
    ]

    assert only(broken(facts, [(0, "p/1")], isolated=visible), "torn transaction")


def offsets(*, acknowledged_first: int, attempted: int, read: int, asked: int) -> list[Fact]:
    return [
        OffsetCommitting(group="g", partition=PARTITION, offset=acknowledged_first),
        OffsetCommitted(group="g", partition=PARTITION, offset=acknowledged_first),
        OffsetCommitting(group="g", partition=PARTITION, offset=attempted),
        OffsetRead(group="g", partition=PARTITION, offset=read, asked=asked),
    ]


def test_a_committed_offset_that_goes_back_is_noticed() -> None:
    assert only(broken(offsets(acknowledged_first=5, attempted=9, read=3, asked=4), []), "committed offset gone back")


def test_a_commit_without_an_answer_may_or_may_not_have_happened() -> None:
    assert broken(offsets(acknowledged_first=5, attempted=9, read=5, asked=4), []) == []
    assert broken(offsets(acknowledged_first=5, attempted=9, read=9, asked=4), []) == []


def test_a_question_asked_before_a_commit_was_acknowledged_may_miss_it() -> None:
    assert broken(offsets(acknowledged_first=5, attempted=9, read=0, asked=2), []) == []
