"""Durations and times of delivery as people write them."""

import pytest
import typer

from headrace.cli.topics.delays import duration_ms, time_of_delivery


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("500ms", 500), ("90s", 90_000), ("1.5h", 5_400_000), ("7d", 604_800_000), ("2w", 1_209_600_000)]
)
def test_a_duration_has_a_number_and_a_unit(text: str, milliseconds: int) -> None:
    assert duration_ms("--delay", text) == milliseconds


@pytest.mark.parametrize("text", ["soon", "5", "-5s", "5 minutes", ""])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="500ms, 90s, 15m, 2h, 7d"):
        duration_ms("--delay", text)


def test_a_time_with_a_zone_is_a_point_in_time() -> None:
    assert time_of_delivery(None, "1970-01-01T01:00:01+01:00") == [("headrace-deliver-at", b"1000")]


def test_it_is_one_or_the_other() -> None:
    with pytest.raises(typer.BadParameter, match="not both"):
        time_of_delivery("5s", "2030-01-01")
    with pytest.raises(typer.BadParameter, match="2027-01-31T08:00"):
        time_of_delivery(None, "tomorrow")
    assert time_of_delivery(None, None) == []
