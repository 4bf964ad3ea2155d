"""Cron expressions in time zones, also on the days on which clocks are set."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from headrace.broker.scheduling.times import earlier, next_after, why_not_a_time
from headrace.coordination.schedule.entries import Definition

VIENNA = ZoneInfo("Europe/Vienna")


def times(cron: str, begin: str, count: int) -> list[str]:
    definition = Definition("s", cron, "Europe/Vienna", "jobs")
    found, moment = [], int(datetime.fromisoformat(begin).replace(tzinfo=VIENNA).timestamp() * 1000)
    for _ in range(count):
        due = next_after(definition, moment)
        assert due is not None
        moment = due
        found.append(datetime.fromtimestamp(due / 1000, VIENNA).isoformat())
    return found


def test_it_is_three_at_night_there_in_summer_and_in_winter() -> None:
    assert times("0 3 * * *", "2026-03-28T00:00", 2) == ["2026-03-28T03:00:00+01:00", "2026-03-29T03:00:00+02:00"]


def test_a_time_that_there_is_not_comes_just_after_the_gap() -> None:
    assert times("30 2 * * *", "2026-03-28T12:00", 2) == ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]


def test_a_time_that_there_is_twice_comes_once() -> None:
    assert times("30 2 * * *", "2026-10-24T12:00", 2) == ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]


def test_every_hour_is_every_hour() -> None:
    found = times("0 * * * *", "2026-10-25T01:30", 3)

    assert found == ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"]


@pytest.mark.parametrize(
    ("cron", "zone", "why"),
    [
        ("0 3 * * *", "Europe/Atlantis", "is not a time zone"),
        ("0 25 * * *", "UTC", "is not a cron expression"),
        ("", "UTC", "cron"),
    ],
)
def test_what_is_no_time_is_refused_in_words(cron: str, zone: str, why: str) -> None:
    assert why in (why_not_a_time(cron, zone) or "")


def test_a_day_that_never_comes_is_refused() -> None:
    assert "is not a cron expression" in (why_not_a_time("0 0 30 2 *", "UTC") or "")


def test_so_many_times_before_is_found_without_going_through_years() -> None:
    every_minute = Definition("s", "* * * * *", "Europe/Vienna", "jobs")
    noon = int(datetime(2026, 7, 1, 12, 0, 30, tzinfo=VIENNA).timestamp() * 1000)

    found = earlier(every_minute, noon, 10)

    assert found is not None
    assert datetime.fromtimestamp(found / 1000, VIENNA).isoformat() == "2026-07-01T11:51:00+02:00"
