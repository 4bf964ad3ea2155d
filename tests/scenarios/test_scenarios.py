"""Plays every text file in this folder: commands above the line of dashes, what they must print below it."""

from pathlib import Path

import pytest

from tests.scenarios.model_cluster import play

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_cluster_behaves_as_written(path: Path) -> None:
    printed, expected = play(path.read_text())

    assert printed == expected


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 20


def test_a_scenario_whose_expectation_is_wrong_fails() -> None:
    printed, expected = play("cluster 1 leader=1\nappend 1 a\nlog 1\n----\n0:b@1")

    assert printed != expected
