"""The classic protocol: who may join, under which id, with which protocol, and how long a new group waits."""

from headrace.coordination.group.classic.state import TRANSITIONS, ClassicState
from headrace.coordination.group.settings import GroupSettings
from headrace.model.errors import ErrorCode
from tests.unit.coordination.group.group_driver import GROUP, Driver, refusal

QUICK = GroupSettings(initial_rebalance_delay_ms=0)


def test_every_state_but_dead_leads_somewhere() -> None:
    assert set(TRANSITIONS) == set(ClassicState)
    assert all(TRANSITIONS[state] for state in ClassicState if state is not ClassicState.DEAD)


def test_a_new_member_is_given_an_id_and_asked_to_come_back_with_it() -> None:
    driver = Driver()

    reply = driver.answer(driver.join(client="app"))

    assert reply.error is ErrorCode.MEMBER_ID_REQUIRED
    assert reply.member_id.startswith("app-")
    assert driver.state() == "Empty"


def test_a_client_that_does_not_know_of_ids_first_joins_at_once() -> None:
    driver = Driver(QUICK)
    token = driver.join(asks_for_id_first=False)
    driver.settle()

    assert driver.joined(token).error is ErrorCode.NONE


def test_a_static_member_joins_without_an_id_and_its_id_names_its_instance() -> None:
    driver = Driver(QUICK)
    token = driver.join(instance_id="left-arm")
    driver.settle()

    assert driver.joined(token).member_id.startswith("left-arm-")


def test_an_id_that_nobody_was_given_is_unknown() -> None:
    driver = Driver()

    assert refusal(driver, driver.join("made-up")) is ErrorCode.UNKNOWN_MEMBER_ID
    driver.stable_group()
    assert refusal(driver, driver.join("made-up")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_whose_owner_does_not_come_back_within_the_session_is_forgotten() -> None:
    driver = Driver()
    member_id = driver.answer(driver.join()).member_id

    driver.pass_time(10_001)

    assert refusal(driver, driver.join(member_id)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_a_member_that_was_given_an_id_but_only_for_its_session() -> None:
    driver = Driver(QUICK)
    leader, follower = driver.stable_group()
    newcomer = driver.answer(driver.join()).member_id
    tokens = [driver.join(leader.member_id), driver.join(follower.member_id)]
    assert all(driver.is_parked(token) for token in tokens)

    driver.pass_time(10_001)

    assert [driver.joined(token).generation for token in tokens] == [2, 2]
    assert newcomer not in driver.classic().members


def test_session_timeouts_outside_the_limits_are_refused() -> None:
    driver = Driver()

    assert refusal(driver, driver.join(session_timeout_ms=5_999)) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert refusal(driver, driver.join(session_timeout_ms=1_800_001)) is ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_group_needs_a_name_and_a_protocol() -> None:
    driver = Driver()

    assert refusal(driver, driver.join(group_id="")) is ErrorCode.INVALID_GROUP_ID
    assert refusal(driver, driver.join(protocols=())) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refusal(driver, driver.join(protocol_type="")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert GROUP not in driver.shard.groups


def test_a_member_that_shares_no_protocol_with_the_others_is_refused() -> None:
    driver = Driver(QUICK)
    driver.stable_group(protocols=(("range", b""), ("sticky", b"")))

    assert refusal(driver, driver.join(protocols=(("roundrobin", b""),))) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refusal(driver, driver.join(protocol_type="connect")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_is_the_one_most_members_prefer_among_those_all_know() -> None:
    driver = Driver()
    tokens = [
        driver.enter(protocols=(("solo", b""), ("range", b"r1"), ("sticky", b"s1")))[1],
        driver.enter(protocols=(("sticky", b"s2"), ("range", b"r2")))[1],
        driver.enter(protocols=(("sticky", b"s3"), ("range", b"r3")))[1],
    ]
    driver.pass_time(6_000)

    replies = [driver.joined(token) for token in tokens]

    assert {reply.protocol for reply in replies} == {"sticky"}
    leader = next(reply for reply in replies if reply.members)
    assert [member.metadata for member in leader.members] == [b"s1", b"s2", b"s3"]


def test_only_the_leader_is_told_who_is_there() -> None:
    driver = Driver()
    leader, follower = driver.stable_group()

    assert {member.member_id for member in leader.members} == {leader.member_id, follower.member_id}
    assert follower.members == ()
    assert follower.leader == leader.member_id


def test_a_new_group_waits_the_initial_delay_for_more_members() -> None:
    driver = Driver(GroupSettings(initial_rebalance_delay_ms=3_000))
    _, token = driver.enter()

    driver.pass_time(2_999)
    assert driver.is_parked(token)
    driver.pass_time(1)

    assert driver.joined(token).generation == 1


def test_the_initial_delay_grows_while_members_keep_arriving() -> None:
    driver = Driver()
    tokens = [driver.enter()[1]]
    for _ in range(4):
        driver.pass_time(2_000)
        tokens.append(driver.enter()[1])

    assert all(driver.is_parked(token) for token in tokens)
    driver.pass_time(6_000)

    assert {driver.joined(token).generation for token in tokens} == {1}


def test_the_initial_delay_never_grows_beyond_the_rebalance_timeout() -> None:
    driver = Driver()
    first = driver.enter(rebalance_timeout_ms=7_000)[1]
    for _ in range(7):
        driver.pass_time(1_000)
        if driver.is_parked(first):
            driver.enter(rebalance_timeout_ms=7_000)

    assert not driver.is_parked(first)


def test_a_full_group_refuses_newcomers() -> None:
    driver = Driver(GroupSettings(max_size=2, initial_rebalance_delay_ms=0))
    driver.stable_group(2)

    assert refusal(driver, driver.join()) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(driver.classic().members) == 2


def test_a_group_loaded_above_a_lowered_limit_rebalances_and_sheds_the_last_to_join() -> None:
    driver = Driver(GroupSettings(initial_rebalance_delay_ms=0))
    replies = driver.stable_group(3)
    driver.settings = GroupSettings(max_size=2, initial_rebalance_delay_ms=0)
    smaller = driver.reloaded()
    assert smaller.state() == "PreparingRebalance"

    tokens = [smaller.join(reply.member_id) for reply in replies]

    assert refusal(smaller, tokens[2]) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert {smaller.joined(token).generation for token in tokens[:2]} == {2}
