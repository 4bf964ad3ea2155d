"""The classic protocol: static members keep their place over a restart (KIP-345)."""

import pytest

from headrace.coordination.group.requests import JoinReply
from headrace.coordination.group.settings import GroupSettings
from headrace.model.errors import ErrorCode, RequestError
from tests.unit.coordination.group.group_driver import Driver, refusal, subscription

QUICK = GroupSettings(initial_rebalance_delay_ms=0)


def static_group(driver: Driver) -> list[JoinReply]:
    tokens = [driver.join(instance_id="arm"), driver.join(instance_id="leg")]
    driver.settle()
    return driver.complete(tokens)


def test_a_restarted_static_member_gets_its_place_and_assignment_back_without_a_rebalance() -> None:
    driver = Driver(QUICK)
    replies = static_group(driver)
    leg = next(reply for reply in replies if reply.member_id.startswith("leg"))

    reply = driver.joined(driver.join(instance_id="leg"))

    assert driver.state() == "Stable"
    assert reply.generation == 1
    assert reply.member_id != leg.member_id
    assert driver.answer(driver.start_sync(reply, instance_id="leg")).assignment == f"for {leg.member_id}".encode()


def test_the_old_self_of_a_static_member_is_fenced() -> None:
    driver = Driver(QUICK)
    replies = static_group(driver)
    leg = next(reply for reply in replies if reply.member_id.startswith("leg"))
    driver.join(instance_id="leg")

    assert driver.beat(leg, instance_id="leg") is ErrorCode.FENCED_INSTANCE_ID
    assert refusal(driver, driver.start_sync(leg, instance_id="leg")) is ErrorCode.FENCED_INSTANCE_ID
    assert refusal(driver, driver.join(leg.member_id, instance_id="leg")) is ErrorCode.FENCED_INSTANCE_ID
    assert driver.leave((leg.member_id, "leg"))[0].error is ErrorCode.FENCED_INSTANCE_ID
    with pytest.raises(RequestError) as caught:
        driver.commit(member_id=leg.member_id, instance_id="leg", generation=1)
    assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_restarted_static_leader_is_told_to_skip_the_assignment() -> None:
    driver = Driver(QUICK)
    replies = static_group(driver)
    instance = replies[0].member_id[:3]

    reply = driver.joined(driver.join(instance_id=instance))

    assert reply.leader == reply.member_id
    assert reply.skip_assignment
    assert {member.member_id for member in reply.members} == {reply.member_id, replies[1].member_id}


def test_a_restarted_static_leader_with_an_old_client_is_not_told_that_it_leads() -> None:
    driver = Driver(QUICK)
    replies = static_group(driver)
    instance = replies[0].member_id[:3]

    reply = driver.joined(driver.join(instance_id=instance, can_skip_assignment=False))

    assert reply.leader == replies[0].member_id
    assert reply.members == ()


def test_a_static_member_that_returns_with_another_protocol_starts_a_rebalance() -> None:
    driver = Driver(QUICK)
    both = (("range", subscription("t")), ("sticky", subscription("t")))
    tokens = [driver.join(instance_id="arm", protocols=both), driver.join(instance_id="leg", protocols=both)]
    driver.settle()
    driver.complete(tokens)

    token = driver.join(instance_id="leg", protocols=(("sticky", subscription("t")),))

    assert driver.is_parked(token)
    assert driver.state() == "PreparingRebalance"


def test_a_parked_old_self_of_a_static_member_is_fenced_at_once() -> None:
    driver = Driver()
    first = driver.join(instance_id="arm")

    second = driver.join(instance_id="arm")

    assert refusal(driver, first) is ErrorCode.FENCED_INSTANCE_ID
    assert driver.is_parked(second)


def test_a_static_member_that_returns_while_the_leader_assigns_starts_a_new_round() -> None:
    driver = Driver(QUICK)
    tokens = [driver.join(instance_id="arm"), driver.join(instance_id="leg")]
    driver.settle()
    replies = [driver.joined(token) for token in tokens]
    waiting = driver.start_sync(replies[1], instance_id="leg")

    token = driver.join(instance_id="leg")

    assert refusal(driver, waiting) is ErrorCode.FENCED_INSTANCE_ID
    assert driver.is_parked(token)
