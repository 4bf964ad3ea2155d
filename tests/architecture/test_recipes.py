"""CONTRIBUTING says which files to touch for a new API, setting, command, task, metric or pipeline.  They exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = sorted(set(re.findall(r"`((?:src|tests|docs|pipelines|simulation)/[^`\s]+)`", (ROOT / "CONTRIBUTING.md").read_text())))


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_a_recipe_names_exists(place: str) -> None:
    """`<name>` stands for any name."""
    found = list(ROOT.glob(re.sub(r"<\w+>", "*", place)))

    assert found


@pytest.mark.parametrize("wanted", ["API", "part of a broker", "setting", "command", "background task", "metric", "pipeline"])
def test_there_is_a_recipe(wanted: str) -> None:
    assert f"\n- A new {wanted}: " in (ROOT / "CONTRIBUTING.md").read_text()


def test_the_recipe_for_a_setting_names_the_table_of_proofs() -> None:
    assert "tests/integration/test_every_setting_is_proven.py" in PLACES
