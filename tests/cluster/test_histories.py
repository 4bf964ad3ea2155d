"""The load generator believes what the producer is told, also where it is told less than usual."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.testing.histories import Load, check


def acknowledged(*records: tuple[int | None, int]) -> Load:
    load = Load("127.0.0.1:1", "t", 1)
    for offset, value in records:
        message: Any = SimpleNamespace(partition=lambda: 0, offset=lambda o=offset: o, value=lambda v=value: str(v).encode())
        load._delivered(None, message)
    return load


def test_a_record_acknowledged_without_an_offset_counts_and_is_found_by_its_value() -> None:
    load = acknowledged((0, 10), (None, 11), (2, 12))

    assert len(load.acknowledged[0]) == len(load.acknowledged_at[0]) == 3
    check(load, {0: [(0, 10), (1, 11), (2, 12)]})


def test_a_record_acknowledged_without_an_offset_may_be_lost_no_more_than_another() -> None:
    with pytest.raises(AssertionError, match=r"lost \[11\]"):
        check(acknowledged((0, 10), (None, 11)), {0: [(0, 10)]})


def test_an_offset_that_was_told_is_held_against_the_log() -> None:
    with pytest.raises(AssertionError, match="other offsets"):
        check(acknowledged((3, 10)), {0: [(0, 10)]})
