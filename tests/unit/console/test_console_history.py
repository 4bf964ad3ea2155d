"""The ring in which the console keeps the last day."""

from pathlib import Path

import pytest

from headrace.console.watching import history
from headrace.console.watching.history import SLOT_S, SLOTS, History

DAY = SLOT_S * SLOTS
NOON = 1_800_000_000.0


def test_what_was_noted_is_read_again_also_by_another_console(tmp_path: Path) -> None:
    kept = History(tmp_path)
    for step in range(6):
        kept.note(NOON + step * SLOT_S, {"cluster/lag": float(step)})

    points = History(tmp_path).read("cluster/lag", NOON + 5 * SLOT_S, 60)

    assert points == [(int(NOON) + step * SLOT_S, float(step)) for step in range(6)]
    assert History(tmp_path).read("cluster/other", NOON, 60) == []


def test_a_time_in_which_nobody_looked_is_a_gap(tmp_path: Path) -> None:
    kept = History(tmp_path)
    kept.note(NOON, {"a": 1.0})
    kept.note(NOON + 3 * SLOT_S, {"a": 4.0})

    assert [value for _, value in kept.read("a", NOON + 3 * SLOT_S, 40)] == [1.0, None, None, 4.0]


def test_what_is_older_than_a_day_is_gone_though_its_slot_still_has_it(tmp_path: Path) -> None:
    kept = History(tmp_path)
    kept.note(NOON, {"a": 1.0})
    kept.note(NOON + DAY + SLOT_S, {"a": 2.0})

    found = [value for _, value in kept.read("a", NOON + DAY + SLOT_S, DAY) if value is not None]

    assert found == [2.0]
    assert next(tmp_path.iterdir()).stat().st_size <= SLOTS * 8


def test_a_long_time_is_told_in_few_points_each_the_mean(tmp_path: Path) -> None:
    kept = History(tmp_path)
    for step in range(8):
        kept.note(NOON + step * SLOT_S, {"a": float(step)})

    points = kept.read("a", NOON + 7 * SLOT_S, 8 * SLOT_S, points_max=4)

    assert len(points) <= 5
    assert [value for _, value in points if value is not None] == [0.5, 2.5, 4.5, 6.5]


def test_series_that_nobody_writes_to_any_more_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "SERIES_MAX", 3)
    kept = History(tmp_path)
    for number in range(5):
        kept.note(NOON, {f"topic/{number}": 1.0})

    kept.forget_the_oldest()

    assert len(list(tmp_path.iterdir())) == 3
