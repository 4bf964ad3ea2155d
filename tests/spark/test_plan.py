"""Ranges, limits and tasks: values in, values out."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.identity import TopicPartition
from headrace.spark.source.plan import OffsetRange, limit_ends, ranges_between, split

A, B, C = (TopicPartition("t", number) for number in range(3))


def range_of(start: int, end: int, partition: TopicPartition = A) -> OffsetRange:
    return OffsetRange(partition=partition, start=start, end=end)


def test_empty_ranges_are_left_out() -> None:
    assert ranges_between({A: 3, B: 5}, {A: 3, B: 9}) == [range_of(5, 9, B)]


def test_a_limit_is_shared_in_proportion_to_the_backlog() -> None:
    assert limit_ends({A: 0, B: 100}, {A: 900, B: 200}, 100) == {A: 90, B: 110}


def test_a_limit_above_the_backlog_changes_nothing() -> None:
    assert limit_ends({A: 0, B: 0}, {A: 3, B: 4}, 7) == {A: 3, B: 4}


def test_exactly_as_many_tasks_as_asked_for_are_made() -> None:
    pieces = split([range_of(0, 1000), range_of(0, 10, B), range_of(0, 10, C)], partitions_min=7, records_max=None)

    assert len(pieces) == 7
    assert next(piece for piece in pieces if piece.partition == A).size in (200, 250)


def test_no_task_holds_more_records_than_allowed() -> None:
    pieces = split([range_of(5, 30)], partitions_min=None, records_max=10)

    assert [(piece.start, piece.end) for piece in pieces] == [(5, 13), (13, 21), (21, 30)]


def test_a_range_is_never_cut_finer_than_its_offsets() -> None:
    assert len(split([range_of(0, 3)], partitions_min=10, records_max=None)) == 3


ranges = st.lists(st.integers(1, 500), min_size=1, max_size=6).map(
    lambda sizes: [range_of(10, 10 + size, TopicPartition("t", number)) for number, size in enumerate(sizes)]
)


@given(ranges, st.one_of(st.none(), st.integers(1, 40)), st.one_of(st.none(), st.integers(1, 200)))
def test_tasks_cover_every_range_once_and_in_order(given_ranges: list[OffsetRange], least: int | None, most: int | None) -> None:
    pieces = split(given_ranges, partitions_min=least, records_max=most)

    for one in given_ranges:
        mine = [piece for piece in pieces if piece.partition == one.partition]
        assert (mine[0].start, mine[-1].end) == (one.start, one.end)
        assert all(before.end == after.start for before, after in itertools.pairwise(mine))
        assert all(0 < piece.size <= (most or one.size) for piece in mine)
    assert least is None or len(pieces) >= min(least, sum(one.size for one in given_ranges))


@given(st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1), st.integers(1, 300))
def test_a_limit_is_used_up_exactly(backlogs: dict[int, tuple[int, int]], most: int) -> None:
    starts = {TopicPartition("t", number): start for number, (start, _) in backlogs.items()}
    ends = {TopicPartition("t", number): start + size for number, (start, size) in backlogs.items()}

    limited = limit_ends(starts, ends, most)

    assert all(starts[one] <= limited[one] <= ends[one] for one in ends)
    assert sum(limited[one] - starts[one] for one in ends) == min(most, sum(ends[one] - starts[one] for one in ends))
