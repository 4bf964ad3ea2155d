"""Places in a topic, as people write them."""

import pytest
import typer

from headrace.cli.connection import position_given
from headrace.cli.groups.reset import Shift, reset_position
from headrace.client.positions import Position


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", Position("earliest")),
        ("LATEST", Position("latest")),
        ("0", Position("offset", 0)),
        ("1234", Position("offset", 1234)),
        ("1970-01-01T00:00:01Z", Position("time", 1000)),
        ("1970-01-01T01:00:00+01:00", Position("time", 0)),
        ("2026-05-01T12:00:00.250Z", Position("time", 1_777_636_800_250)),
    ],
)
def test_a_place_is_earliest_latest_an_offset_or_a_time(text: str, place: Position) -> None:
    assert position_given(text) == place


@pytest.mark.parametrize("text", ["yesterday", "-5", "", "2026-13-01", "1.5"])
def test_anything_else_is_a_wrong_use(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        position_given(text)


def test_a_reset_goes_to_a_place_or_by_a_shift_and_not_both() -> None:
    assert reset_position("earliest", None) == Position("earliest")
    assert reset_position(None, -3) == Shift(-3)
    for to, by in ((None, None), ("latest", 1)):
        with pytest.raises(typer.BadParameter):
            reset_position(to, by)
