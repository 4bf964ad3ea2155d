"""Turns by weight: everybody has its share, and nobody who is ready waits for ever."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.consumer.weighted_choice import WeightedTurns

WEIGHTS = st.dictionaries(st.sampled_from("abcde"), st.integers(1, 20), min_size=1)


def test_turns_are_spread_evenly() -> None:
    turns = WeightedTurns({"high": 3, "low": 1})

    assert [turns.next({"high", "low"}) for _ in range(8)] == ["high", "high", "low", "high"] * 2


def test_nobody_has_a_turn_who_is_not_ready() -> None:
    turns = WeightedTurns({"high": 9, "low": 1})

    assert [turns.next({"low"}) for _ in range(3)] == ["low"] * 3
    assert turns.next(()) is None


def test_what_was_empty_for_long_has_saved_nothing_up() -> None:
    turns = WeightedTurns({"high": 2, "low": 1})
    for _ in range(100):
        turns.next({"low"})

    assert [turns.next({"high", "low"}) for _ in range(3)].count("high") == 2


@given(WEIGHTS)
def test_each_has_exactly_its_share_where_all_are_ready(weights: dict[str, int]) -> None:
    turns, total = WeightedTurns(weights), sum(weights.values())

    assert Counter(turns.next(weights) for _ in range(total)) == weights


@given(WEIGHTS, st.lists(st.sets(st.sampled_from("abcde")), max_size=60))
def test_who_stays_ready_is_served_in_time(weights: dict[str, int], others: list[set[str]]) -> None:
    turns, total = WeightedTurns(weights), sum(weights.values())
    patient = min(weights)
    waited = 0
    for ready in others:
        waited = 0 if turns.next((ready & weights.keys()) | {patient}) == patient else waited + 1

        assert waited <= -(-total // weights[patient]) * 2
