"""The classic protocol: staying and leaving, and what a crash of the coordinator leaves."""

import pytest

from headrace.coordination.group.requests import Heartbeat
from headrace.coordination.group.settings import GroupSettings
from headrace.model.errors import ErrorCode, RequestError
from tests.unit.coordination.group.group_driver import GROUP, Driver, refusal

QUICK = GroupSettings(initial_rebalance_delay_ms=0)


def test_a_member_that_is_silent_for_its_session_is_out_and_the_others_rebalance() -> None:
    driver = Driver()
    leader, follower = driver.stable_group()
    for _ in range(4):
        driver.pass_time(3_000)
        driver.beat(leader)

    assert driver.beat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.beat(follower) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_of_strangers_and_of_old_generations_have_their_own_codes() -> None:
    driver = Driver()
    leader, _ = driver.stable_group()
    cases = (("stranger", 1, ErrorCode.UNKNOWN_MEMBER_ID), (leader.member_id, 0, ErrorCode.ILLEGAL_GENERATION))
    for member_id, generation, code in cases:
        with pytest.raises(RequestError) as caught:
            driver.ask("heartbeat", Heartbeat(group_id=GROUP, member_id=member_id, generation=generation))

        assert caught.value.code is code


def test_when_the_last_member_leaves_the_group_is_empty_and_a_generation_older() -> None:
    driver = Driver()
    (only,) = driver.stable_group(1)

    left = driver.leave(only.member_id)

    assert left[0].error is ErrorCode.NONE
    assert driver.state() == "Empty"
    assert driver.classic().generation == 2
    assert driver.reloaded().classic().generation == 2


def test_many_members_leave_with_one_request_each_with_its_own_answer() -> None:
    driver = Driver(QUICK)
    tokens = [driver.enter()[1], driver.enter()[1], driver.join(instance_id="arm")]
    leader, *others = driver.complete(tokens)
    follower = next(reply for reply in others if not reply.member_id.startswith("arm"))
    pending = driver.answer(driver.join()).member_id

    left = driver.leave(follower.member_id, "stranger", ("", "arm"), ("", "leg"), pending)

    codes = [member.error for member in left]
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert codes == [ErrorCode.NONE, unknown, ErrorCode.NONE, unknown, ErrorCode.NONE]
    assert set(driver.classic().members) == {leader.member_id}


def test_leaving_a_group_that_does_not_exist_is_leaving_as_a_stranger() -> None:
    assert [member.error for member in Driver().leave("anyone")] == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_member_that_leaves_while_its_join_is_parked_has_it_answered() -> None:
    driver = Driver()
    member_id, token = driver.enter()

    driver.leave(member_id)

    assert refusal(driver, token) is ErrorCode.UNKNOWN_MEMBER_ID
    driver.pass_time(10_000)
    assert driver.state() == "Empty"


def test_a_member_that_dies_while_its_first_join_is_parked_is_out_after_the_join_limit() -> None:
    driver = Driver(GroupSettings(initial_rebalance_delay_ms=0, new_member_join_timeout_ms=20_000))
    leader, _ = driver.stable_group(2, rebalance_timeout_ms=100_000)
    _, token = driver.enter(rebalance_timeout_ms=100_000)
    for _ in range(5):
        driver.pass_time(4_500)
        driver.beat(leader)

    assert refusal(driver, token) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_reloaded_group_goes_on_without_a_rebalance() -> None:
    driver = Driver()
    leader, follower = driver.stable_group()

    fresh = driver.reloaded()

    assert fresh.state() == "Stable"
    assert fresh.beat(leader) is ErrorCode.NONE
    assert fresh.answer(fresh.start_sync(follower)).assignment == f"for {follower.member_id}".encode()
    assert fresh.commit(3, member_id=follower.member_id, generation=1) == (ErrorCode.NONE,)


def test_members_of_a_reloaded_group_have_a_full_session_to_be_heard_of() -> None:
    driver = Driver()
    leader, follower = driver.stable_group()
    driver.pass_time(9_000)

    fresh = driver.reloaded()
    fresh.pass_time(9_000)
    assert fresh.beat(leader) is ErrorCode.NONE
    fresh.pass_time(1_001)

    assert fresh.beat(follower) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_assignment_that_could_not_be_written_is_given_to_nobody() -> None:
    driver = Driver(QUICK)
    tokens = [driver.enter()[1], driver.enter()[1]]
    driver.settle()
    leader, follower = sorted(map(driver.joined, tokens), key=lambda reply: reply.member_id != reply.leader)
    waiting = driver.start_sync(follower)
    driver.fails_to_write = True
    assignment = driver.start_sync(leader)

    assert refusal(driver, waiting) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refusal(driver, assignment) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.fails_to_write = False
    again = driver.start_sync(follower)
    driver.start_sync(leader, {follower.member_id: b"yours"})
    assert driver.answer(again).assignment == b"yours"


def test_a_group_whose_end_could_not_be_written_becomes_empty_when_it_can() -> None:
    driver = Driver()
    (only,) = driver.stable_group(1)
    driver.fails_to_write = True
    with pytest.raises(RequestError):
        driver.leave(only.member_id)
    driver.fails_to_write = False

    driver.pass_time(1_000)

    assert driver.state() == "Empty"
    assert driver.reloaded().state() == "Empty"
