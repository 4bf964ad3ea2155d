"""CONTRIBUTING says which files to touch for a new API, setting, command, task or pipeline.  They exist."""

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


def test_there_are_recipes() -> None:
    assert len(PLACES) >= 8
