"""The classic protocol: rebalances, what ends them and who is left out, and how the leader assigns."""

from typing import Any

import pytest

from headrace.coordination.group.requests import Sync
from headrace.coordination.group.settings import GroupSettings
from headrace.model.errors import ErrorCode
from tests.unit.coordination.group.group_driver import GROUP, Driver, refusal

QUICK = GroupSettings(initial_rebalance_delay_ms=0)


def test_a_joining_member_starts_a_rebalance_that_ends_when_all_have_joined_again() -> None:
    driver = Driver(QUICK)
    leader, follower = driver.stable_group()
    _, newcomer = driver.enter()
    assert driver.state() == "PreparingRebalance"
    assert driver.beat(leader) is ErrorCode.REBALANCE_IN_PROGRESS

    first = driver.join(leader.member_id)
    assert driver.is_parked(first)
    second = driver.join(follower.member_id)

    assert {driver.joined(token).generation for token in (newcomer, first, second)} == {2}
    assert driver.state() == "CompletingRebalance"


def test_a_member_that_does_not_join_again_within_the_rebalance_timeout_is_out() -> None:
    driver = Driver(QUICK)
    leader, follower = driver.stable_group()
    _, newcomer = driver.enter()
    again = driver.join(leader.member_id)
    for _ in range(6):
        driver.pass_time(5_000)
        driver.beat(follower)

    assert driver.joined(again).generation == 2
    assert follower.member_id not in driver.classic().members
    assert driver.beat(follower) is ErrorCode.UNKNOWN_MEMBER_ID
    assert not driver.is_parked(newcomer)


def test_a_member_whose_session_ends_during_a_rebalance_does_not_hold_the_others_up() -> None:
    driver = Driver(QUICK)
    leader, _ = driver.stable_group()
    _, newcomer = driver.enter()
    again = driver.join(leader.member_id)

    driver.pass_time(10_001)

    assert driver.joined(again).generation == 2
    assert driver.joined(newcomer).generation == 2


def test_a_static_member_that_misses_a_rebalance_keeps_its_place_until_its_session_ends() -> None:
    driver = Driver(QUICK)
    tokens = [driver.enter()[1], driver.join(instance_id="arm", session_timeout_ms=40_000)]
    driver.settle()
    replies = driver.complete(tokens)
    static = next(reply for reply in replies if reply.member_id.startswith("arm"))
    other = next(reply for reply in replies if reply is not static)
    _, newcomer = driver.enter()
    again = driver.join(other.member_id)

    driver.pass_time(30_000)

    assert driver.joined(again).generation == 2
    assert static.member_id in driver.classic().members
    assert not driver.is_parked(newcomer)


def test_when_only_absent_static_members_are_left_the_group_waits_for_their_sessions() -> None:
    driver = Driver(QUICK)
    tokens = [driver.enter()[1], driver.join(instance_id="arm", session_timeout_ms=100_000)]
    driver.settle()
    replies = driver.complete(tokens)
    dynamic = next(reply for reply in replies if not reply.member_id.startswith("arm"))
    driver.leave(dynamic.member_id)

    driver.pass_time(60_000)
    assert driver.state() == "PreparingRebalance"
    driver.pass_time(60_000)

    assert driver.state() == "Empty"


def test_a_leader_that_joins_again_asks_for_a_rebalance_but_a_follower_without_news_does_not() -> None:
    driver = Driver(QUICK)
    leader, follower = driver.stable_group()

    assert driver.joined(driver.join(follower.member_id)).generation == 1
    assert driver.state() == "Stable"
    token = driver.join(leader.member_id)

    assert driver.is_parked(token)
    assert driver.state() == "PreparingRebalance"


def test_a_follower_with_a_new_subscription_starts_a_rebalance() -> None:
    driver = Driver(QUICK)
    _, follower = driver.stable_group()

    token = driver.join(follower.member_id, topics=("t", "u"))

    assert driver.is_parked(token)


def test_a_member_that_lost_the_join_reply_gets_it_again_while_the_group_waits_for_the_leader() -> None:
    driver = Driver(QUICK)
    tokens = [driver.enter()[1], driver.enter()[1]]
    driver.settle()
    lost = driver.joined(tokens[0])

    assert driver.joined(driver.join(lost.member_id)) == lost
    assert driver.state() == "CompletingRebalance"


def test_a_request_that_was_parked_is_answered_when_the_same_member_asks_again() -> None:
    driver = Driver()
    member_id, first = driver.enter()

    second = driver.join(member_id)

    assert refusal(driver, first) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.is_parked(second)


def test_members_wait_in_sync_until_the_leader_assigns() -> None:
    driver = Driver(QUICK)
    tokens = [driver.enter()[1], driver.enter()[1]]
    driver.settle()
    leader, follower = sorted(map(driver.joined, tokens), key=lambda reply: reply.member_id != reply.leader)

    waiting = driver.start_sync(follower)
    assert driver.is_parked(waiting)
    driver.start_sync(leader, {follower.member_id: b"yours"})

    assert driver.answer(waiting).assignment == b"yours"
    assert driver.state() == "Stable"
    assert driver.answer(driver.start_sync(leader)).assignment == b""


def test_heartbeats_between_join_and_sync_are_healthy() -> None:
    driver = Driver(QUICK)
    token = driver.enter()[1]
    driver.settle()

    assert driver.beat(driver.joined(token)) is ErrorCode.NONE


def test_a_leader_that_dies_before_it_syncs_is_out_and_the_others_rebalance() -> None:
    driver = Driver(QUICK)
    tokens = [driver.enter()[1], driver.enter()[1]]
    driver.settle()
    leader, follower = sorted(map(driver.joined, tokens), key=lambda reply: reply.member_id != reply.leader)
    waiting = driver.start_sync(follower)

    driver.pass_time(10_001)

    assert refusal(driver, waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.member_id not in driver.classic().members
    again = driver.join(follower.member_id)
    assert driver.joined(again).leader == follower.member_id


def test_a_leader_that_beats_but_never_syncs_is_out_after_the_rebalance_timeout() -> None:
    driver = Driver(QUICK)
    tokens = [driver.enter()[1], driver.enter()[1]]
    driver.settle()
    leader, follower = sorted(map(driver.joined, tokens), key=lambda reply: reply.member_id != reply.leader)
    waiting = driver.start_sync(follower)
    for _ in range(6):
        driver.pass_time(5_000)
        driver.beat(leader)

    assert refusal(driver, waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.member_id not in driver.classic().members


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": "arm"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_a_sync_that_does_not_fit_the_group_is_refused(change: dict[str, object], code: ErrorCode) -> None:
    driver = Driver()
    leader, _ = driver.stable_group()
    fitting: dict[str, Any] = {
        "group_id": GROUP,
        "member_id": leader.member_id,
        "generation": 1,
        "protocol": "range",
        "protocol_type": "consumer",
    }

    assert refusal(driver, driver.start("sync", Sync(**{**fitting, **change}))) is code


def test_a_sync_during_a_new_rebalance_is_sent_back_to_join() -> None:
    driver = Driver(QUICK)
    leader, _ = driver.stable_group()
    driver.enter()

    assert refusal(driver, driver.start_sync(leader)) is ErrorCode.REBALANCE_IN_PROGRESS
