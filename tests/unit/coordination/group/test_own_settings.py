"""Settings that one group has of its own: in effect from its next decision on, and for no other group."""

from dataclasses import replace

import pytest

from headrace.coordination.group.settings import GroupSettings
from headrace.model.errors import RequestError
from tests.unit.coordination.group.group_driver import GROUP, Driver, catalog

SETTINGS = GroupSettings()


def is_member(driver: Driver, member_id: str, epoch: int) -> bool:
    try:
        driver.consumer_beat(member_id, epoch)
    except RequestError:
        return False
    return True


@pytest.mark.parametrize(("silence_ms", "stays"), [(49_000, True), (51_000, False)])
def test_a_members_session_lasts_as_long_as_its_group_says(silence_ms: int, *, stays: bool) -> None:
    driver = Driver(SETTINGS, catalog(t=1))
    driver.own_settings[GROUP] = replace(SETTINGS, consumer_session_timeout_ms=50_000)
    epoch = driver.consumer_join("a").member_epoch

    driver.pass_time(silence_ms)

    assert is_member(driver, "a", epoch) is stays


def test_a_session_that_runs_ends_as_before_until_the_member_is_heard_of_again() -> None:
    driver = Driver(SETTINGS, catalog(t=1))
    epoch = driver.consumer_join("a").member_epoch
    driver.own_settings[GROUP] = replace(SETTINGS, consumer_session_timeout_ms=60_000)

    driver.pass_time(44_000)
    driver.consumer_beat("a", epoch)
    driver.pass_time(59_000)

    assert is_member(driver, "a", epoch)


def test_members_are_told_their_own_groups_interval() -> None:
    driver = Driver(SETTINGS, catalog(t=1))
    driver.own_settings["others"] = replace(SETTINGS, consumer_heartbeat_interval_ms=9_000)
    before = driver.consumer_join("a").heartbeat_interval_ms
    driver.own_settings[GROUP] = replace(SETTINGS, consumer_heartbeat_interval_ms=7_000)

    after = driver.consumer_beat("a", 1).heartbeat_interval_ms

    assert (before, after) == (5_000, 7_000)


def test_a_group_assigns_anew_no_sooner_than_it_says() -> None:
    driver = Driver(SETTINGS, catalog(t=2))
    driver.own_settings[GROUP] = replace(SETTINGS, consumer_assignment_interval_ms=1_000)
    driver.consumer_join("a")
    driver.consumer_join("b")

    at_once = driver.consumer().target_epoch
    driver.pass_time(1_000)
    driver.consumer_beat("a", 1)
    later = driver.consumer().target_epoch

    assert (at_once, later) == (1, 2)
