"""The classic protocol: joining, rebalancing, syncing, staying, leaving."""

import pytest
from group_driver import GROUP, Driver, refusal, subscription

from headrace.coordination.group.requests import Heartbeat, JoinReply, Sync
from headrace.coordination.group.settings import GroupSettings
from headrace.coordination.group.state import TRANSITIONS, ClassicState
from headrace.model.errors import ErrorCode, RequestError

QUICK = GroupSettings(initial_rebalance_delay_ms=0)


def test_every_state_but_dead_leads_somewhere() -> None:
    assert set(TRANSITIONS) == set(ClassicState)
    assert all(TRANSITIONS[state] for state in ClassicState if state is not ClassicState.DEAD)


# --- joining ----------------------------------------------------------------------------------------------------------------


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


# --- the initial delay ------------------------------------------------------------------------------------------------------


def test_a_new_group_waits_the_initial_delay_for_more_members() -> None:
    driver = Driver()
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


# --- rebalancing ------------------------------------------------------------------------------------------------------------


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


# --- syncing ----------------------------------------------------------------------------------------------------------------


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
    fitting = {
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


# --- staying and leaving ----------------------------------------------------------------------------------------------------


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


# --- limits -----------------------------------------------------------------------------------------------------------------


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


# --- static members ---------------------------------------------------------------------------------------------------------


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


# --- crashes ----------------------------------------------------------------------------------------------------------------


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
