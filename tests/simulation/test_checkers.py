"""Each rule is broken here by hand, and each checker notices its own and nothing else."""

import pytest

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from simulation.rules.checkers import FinalState, check
from simulation.rules.history import (
    AcceptAnswered,
    Accepting,
    Acknowledged,
    Assigned,
    Consented,
    Delivered,
    Ended,
    Fact,
    GaveUp,
    Heard,
    History,
    Led,
    OffsetCommitted,
    OffsetCommitting,
    OffsetRead,
    Passed,
    Polled,
    Refused,
    Sent,
    Took,
)
from simulation.rules.observer import Committed, CommittedBatch
from simulation.world.loop import SimulatedLoop

PARTITION, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
Records = list[tuple[int, str]]


def sent(value: str, transaction: str | None = None, partition: TopicPartition = PARTITION) -> Sent:
    return Sent(producer=value.split("/")[0], partition=partition, value=value, transaction=transaction)


def acknowledged(value: str, offset: int, broker: int = 1) -> Acknowledged:
    return Acknowledged(producer=value.split("/")[0], partition=PARTITION, value=value, offset=offset, broker=broker)


def polled(value: str, offset: int, *, isolated: bool = False) -> Polled:
    return Polled(consumer="c", partition=PARTITION, offset=offset, value=value, isolated=isolated)


def broken(
    facts: list[Fact],
    records: Records,
    isolated: Records | None = None,
    other: Records | None = None,
    *,
    start: int = 0,
    compacted: bool = False,
    lossy: bool = False,
) -> list[str]:
    history = History(SimulatedLoop(0))
    for fact in [Led(partition=PARTITION, leader_epoch=1, broker=1), *facts]:
        history.record(fact)
    final = FinalState(
        {PARTITION: records, OTHER: other or []},
        {PARTITION: records if isolated is None else isolated, OTHER: other or []},
        starts={PARTITION: start},
        compacted=frozenset({PARTITION} if compacted else ()),
        lossy=frozenset({PARTITION} if lossy else ()),
    )
    if compacted or lossy or start:
        return check(history, final, {})
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


WRITTEN: list[Fact] = [
    *(sent(value) for value in ("p/1~a", "p/2~b", "p/3~a")),
    *(acknowledged(value, offset) for offset, value in enumerate(("p/1~a", "p/2~b", "p/3~a"))),
]


def test_what_was_retained_long_enough_may_be_gone_and_the_rest_may_not() -> None:
    assert broken(WRITTEN, [(2, "p/3~a")], start=2) == []
    assert only(broken(WRITTEN, [(2, "p/3~a")], start=1), "lost write: p/2~b")
    assert only(broken(WRITTEN, [], start=3), "t-0 begins at 3, beyond its newest record at 2")


def test_a_compacted_partition_keeps_the_last_record_of_each_key() -> None:
    assert broken(WRITTEN, [(1, "p/2~b"), (2, "p/3~a")], compacted=True) == []
    assert only(broken(WRITTEN, [(2, "p/3~a")], compacted=True), "lost write: p/2~b")
    assert only(broken(WRITTEN, [(0, "p/1~a"), (1, "p/2~b")], compacted=True), "lost write: p/3~a")
    assert broken([*WRITTEN, polled("p/1~a", 0)], [(1, "p/2~b"), (2, "p/3~a")], compacted=True) == []
    passed = Passed(consumer="c", partition=PARTITION, start=0, end=3)
    everything = list(enumerate(("p/1~a", "p/2~b", "p/3~a")))
    assert broken([*WRITTEN, polled("p/2~b", 1), polled("p/3~a", 2), passed], everything, compacted=True) == []
    assert only(broken([*WRITTEN, polled("p/3~a", 2), passed], everything, compacted=True), "poll skip")


def test_a_partition_that_may_be_led_uncleanly_may_lose_and_not_invent() -> None:
    assert broken(WRITTEN, [], lossy=True) == []
    assert only(broken(WRITTEN, [(0, "q/1")], lossy=True), "unknown record: q/1")


def test_what_was_there_before_an_operator_consented_to_lose_it_may_be_gone_and_what_came_later_may_not() -> None:
    consent = Consented(partition=PARTITION)
    facts: list[Fact] = [sent("p/1"), acknowledged("p/1", 0), polled("p/1", 0), consent, sent("p/2"), acknowledged("p/2", 0)]

    assert broken(facts, [(0, "p/2")]) == []
    assert any(each.startswith("lost write: p/2") for each in broken(facts, []))
    assert any(each.startswith("lost write: p/1") for each in broken([each for each in facts if each is not consent], []))


def test_a_producer_may_be_refused_after_an_operator_consented_to_lose_what_it_sent_before() -> None:
    refused = Refused(producer="p", partition=PARTITION, value="p/2", reason="OUT_OF_ORDER_SEQUENCE_NUMBER")
    consent = Consented(partition=PARTITION)

    assert broken([sent("p/2"), consent, refused], []) == []
    assert only(broken([sent("p/2"), refused, consent], []), "refused write")


def test_a_transaction_is_judged_by_the_partitions_that_nobody_consented_to_lose() -> None:
    facts: list[Fact] = [sent("p/1", "t1"), sent("p/2", "t1", OTHER), Consented(partition=PARTITION)]

    assert broken([*facts, Ended(transaction="t1", outcome="committed")], [], other=[(0, "p/2")]) == []
    assert only(broken([*facts, Ended(transaction="t1", outcome="committed")], [(0, "p/1")]), "lost transaction")


def test_a_record_of_a_topic_that_was_deleted_is_unknown_to_its_namesake() -> None:
    before, now = TopicPartition("t#1", 0), TopicPartition("t#2", 0)
    facts: list[Fact] = [
        sent("p/1", partition=before),
        Acknowledged(producer="p", partition=before, value="p/1", offset=0, broker=1),
        Polled(consumer="c", partition=now, offset=0, value="p/1", isolated=False),
    ]

    assert broken(facts[:-1], []) == []
    assert only(broken(facts, []), "unknown record: c got p/1 of t#2-0")


SILENT = -9.0


@pytest.mark.parametrize(
    ("owner_heard", "taker_heard", "gives_up", "is_well"),
    [(0.0, 0.0, False, False), (0.0, 0.0, True, True), (SILENT, 0.0, False, True), (0.0, SILENT, False, True)],
    ids=["both are members", "given up", "the owner is silent", "the taker may be a member no more"],
)
def test_a_partition_is_taken_when_it_was_given_up_or_its_owner_is_silent(
    owner_heard: float, taker_heard: float, gives_up: bool, is_well: bool
) -> None:
    facts: list[Fact] = [
        Heard(group="g", member="a", sent_at=owner_heard),
        Heard(group="g", member="b", sent_at=taker_heard),
        Took(group="g", member="a", partition=PARTITION),
        *([GaveUp(group="g", member="a", partition=PARTITION)] if gives_up else []),
        Took(group="g", member="b", partition=PARTITION),
    ]

    found = broken(facts, [])

    assert (found == []) if is_well else only(found, "b took t-0 of g")


def test_a_partition_with_two_readers_in_one_generation_is_noticed() -> None:
    given: list[Fact] = [Assigned(group="g", generation=3, member=member, partition=PARTITION) for member in ("a", "b")]
    later: list[Fact] = [given[0], Assigned(group="g", generation=4, member="b", partition=PARTITION)]

    assert only(broken(given, []), "t-0 belongs to a and to b in generation 3")
    assert broken(later, []) == []


def test_a_consumer_that_gets_a_record_twice_on_its_way_is_noticed() -> None:
    again: list[Fact] = [
        sent("p/1"),
        polled("p/1", 0),
        polled("p/1", 0),
        Passed(consumer="c", partition=PARTITION, start=0, end=1),
    ]

    assert only(broken(again, [(0, "p/1")]), "non-monotonic poll")


def test_an_unclean_election_is_noticed_where_it_is_not_allowed() -> None:
    for lossy in (frozenset({PARTITION}), frozenset[TopicPartition]()):
        history = History(SimulatedLoop(0))
        history.tell("[error] unclean election: t-0 is led by 3; records may be lost")

        found = check(history, FinalState({PARTITION: []}, {PARTITION: []}, lossy=lossy), {})

        assert (found == []) if lossy else only(found, "not allowed")


def test_an_operators_consent_is_good_for_one_unclean_election() -> None:
    history = History(SimulatedLoop(0))
    history.record(Consented(partition=PARTITION))
    told = "[error] unclean election: t-0 is led by 3; records may be lost"
    nothing = FinalState({PARTITION: []}, {PARTITION: []})
    history.tell(told)
    assert check(history, nothing, {}) == []

    history.tell(told)

    assert only(check(history, nothing, {}), "not allowed")


def accepting(offset: int) -> Accepting:
    return Accepting(group="g", partition=PARTITION, offset=offset)


def answered(offset: int, error: ErrorCode = ErrorCode.NONE) -> AcceptAnswered:
    return AcceptAnswered(group="g", partition=PARTITION, offset=offset, error=error)


def delivered(offset: int, asked: int) -> Delivered:
    return Delivered(group="g", partition=PARTITION, offset=offset, asked=asked)


def test_a_record_that_comes_to_a_share_group_again_after_it_was_accepted_is_noticed() -> None:
    facts: list[Fact] = [sent("a/0"), acknowledged("a/0", 0), accepting(0), answered(0)]

    assert only(broken([*facts, delivered(0, asked=5)], [(0, "a/0")]), "work done again")
    # Who asked before may hear late, and who was not told that it counts may see it again.
    assert broken([*facts, delivered(0, asked=2)], [(0, "a/0")]) == []
    unsure = answered(0, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert broken([*facts[:3], unsure, delivered(0, asked=5)], [(0, "a/0")]) == []


def test_a_record_that_no_member_of_a_share_group_got_done_is_noticed() -> None:
    records = [(0, "a/0"), (1, "a/1")]
    facts: list[Fact] = [*(sent(value) for _, value in records), *(acknowledged(value, offset) for offset, value in records)]

    assert only(broken([*facts, accepting(0), answered(0)], records), "work never done: a/1")
    refused = [accepting(1), answered(1, ErrorCode.INVALID_RECORD_STATE)]
    assert only(broken([*facts, accepting(0), answered(0), *refused], records), "work never done: a/1")
    assert broken([*facts, accepting(0), accepting(1)], records) == []
