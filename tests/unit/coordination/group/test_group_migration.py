"""Groups with members that move between the classic and the consumer protocol."""

import pytest

from headrace.coordination.group.conversion.subscription_bytes import read_assignment, write_assignment
from headrace.coordination.group.requests import Heartbeat, JoinReply, Leave, Leaver, Sync
from headrace.coordination.group.settings import GroupSettings, MigrationPolicy
from headrace.model.errors import ErrorCode, RequestError
from tests.unit.coordination.group.group_driver import GROUP, Driver, catalog, refusal, subscription, topic_id

T = topic_id("t")
BOTH_WAYS = GroupSettings(initial_rebalance_delay_ms=0)


def classic_group(driver: Driver, count: int = 2, **more: object) -> list[JoinReply]:
    """Classic members that share the ten partitions of topic t."""
    tokens = [driver.enter(client=f"c{number}", **more)[1] for number in range(count)]
    driver.settle()
    replies = sorted(map(driver.joined, tokens), key=lambda reply: reply.member_id != reply.leader)
    shares = {reply.member_id: tuple(range(10))[number::count] for number, reply in enumerate(replies)}
    assignments = {member_id: write_assignment({"t": share}, 1) for member_id, share in shares.items()}
    for reply in replies[1:] + replies[:1]:
        driver.start_sync(reply, assignments)
    return replies


def code_of_join(driver: Driver) -> ErrorCode:
    try:
        driver.consumer_join("new")
    except RequestError as error:
        return error.code
    return ErrorCode.NONE


def beat(driver: Driver, member_id: str, generation: int) -> ErrorCode:
    try:
        return driver.ask("heartbeat", Heartbeat(group_id=GROUP, member_id=member_id, generation=generation))  # type: ignore[no-any-return]
    except RequestError as error:
        return error.code


def share_of(driver: Driver, member_id: str, generation: int) -> set[int]:
    reply = driver.ask("sync", Sync(group_id=GROUP, member_id=member_id, generation=generation))
    return set(read_assignment(reply.assignment).partitions.get("t", ()))


def rejoin(driver: Driver, member_id: str, owned: set[int]) -> JoinReply:
    protocols = (("range", subscription("t", owned={"t": tuple(sorted(owned))})),)
    return driver.joined(driver.join(member_id, protocols=protocols))


# --- upgrade ----------------------------------------------------------------------------------------------------------------


def test_the_first_member_of_the_consumer_protocol_upgrades_the_group_and_nobody_loses_a_partition_at_once() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    first, second = classic_group(driver)

    reply = driver.consumer_join("new")

    group = driver.consumer()
    assert reply.assignment == {}
    assert {member_id: len(member.assigned[T]) for member_id, member in group.members.items() if member_id != "new"} == {
        first.member_id: 5,
        second.member_id: 5,
    }
    assert driver.reloaded().consumer().members == group.members


def test_classic_members_of_an_upgraded_group_learn_by_heartbeats_that_they_must_rejoin() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    members = classic_group(driver)
    new = driver.consumer_join("new")
    shares: dict[str, set[int]] = {}
    for reply in members:
        me = reply.member_id
        assert beat(driver, me, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        owned = set(driver.consumer().members[me].assigned[T])
        told = rejoin(driver, me, owned)
        kept = share_of(driver, me, told.generation)
        assert kept < owned
        assert beat(driver, me, told.generation) is ErrorCode.REBALANCE_IN_PROGRESS
        done = rejoin(driver, me, kept)
        shares[me] = share_of(driver, me, done.generation)
        assert beat(driver, me, done.generation) is ErrorCode.NONE

    final = driver.consumer_beat("new", new.member_epoch)

    assert final.assignment is not None
    shares["new"] = set(final.assignment[T])
    assert sorted(map(len, shares.values())) == [3, 3, 4]
    assert set().union(*shares.values()) == set(range(10))


def test_members_parked_in_a_rebalance_are_sent_back_by_an_upgrade() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    leader, _ = classic_group(driver)
    parked = driver.join(leader.member_id)

    driver.consumer_join("new")

    assert refusal(driver, parked) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_has_just_joined_with_other_protocols_is_upgraded_with_their_subscription() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    first, _ = classic_group(driver, protocols=(("range", subscription("t")), ("sticky", subscription("t"))))
    driver.join(first.member_id, protocols=(("sticky", subscription("t")),))

    driver.consumer_join("new")

    assert driver.consumer().members[first.member_id].about.topic_names == {"t"}


def test_a_classic_member_joins_an_upgraded_group() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    driver.consumer_join("new")
    asked = driver.answer(driver.join())
    assert asked.error is ErrorCode.MEMBER_ID_REQUIRED
    assert refusal(driver, driver.join(protocol_type="connect")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    reply = rejoin(driver, asked.member_id, set())

    assert reply.generation == driver.consumer().members[asked.member_id].epoch
    assert reply.protocol == "range"
    assert share_of(driver, asked.member_id, reply.generation) == set()
    described = driver.shard.describe_consumer(GROUP)
    assert {member.member_id: member.is_classic for member in described.members} == {"new": False, asked.member_id: True}


def test_a_classic_member_of_an_upgraded_group_that_neither_syncs_nor_joins_in_time_is_out() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    driver.consumer_join("new")
    member_id = driver.answer(driver.join()).member_id
    reply = rejoin(driver, member_id, set())
    for _ in range(7):
        driver.pass_time(5_000)
        beat(driver, member_id, reply.generation)
        driver.consumer_beat("new", driver.consumer().members["new"].epoch)

    assert beat(driver, member_id, reply.generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_wrong_requests_of_classic_members_of_an_upgraded_group_have_their_own_codes() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    driver.consumer_join("new")
    member_id = driver.answer(driver.join()).member_id
    reply = rejoin(driver, member_id, set())

    assert beat(driver, member_id, 77) is ErrorCode.ILLEGAL_GENERATION
    assert beat(driver, "new", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(driver, "stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    sync = {"group_id": GROUP, "member_id": member_id, "generation": reply.generation}
    assert refusal(driver, driver.start("sync", Sync(**sync, protocol="sticky"))) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    with pytest.raises(RequestError) as caught:
        driver.commit(1, member_id=member_id, generation=77)
    assert caught.value.code is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_a_policy_without_upgrade_leaves_classic_groups_alone(policy: MigrationPolicy) -> None:
    driver = Driver(GroupSettings(initial_rebalance_delay_ms=0, migration_policy=policy), catalog(t=10))
    leader, _ = classic_group(driver)

    assert code_of_join(driver) is ErrorCode.GROUP_ID_NOT_FOUND
    assert beat(driver, leader.member_id, 1) is ErrorCode.NONE


def test_groups_that_would_lose_something_are_not_upgraded() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    driver.stable_group(1, protocol_type="connect")
    assert code_of_join(driver) is ErrorCode.GROUP_ID_NOT_FOUND

    malformed = Driver(BOTH_WAYS, catalog(t=10))
    malformed.stable_group(1, protocols=(("range", b"?"),))
    assert code_of_join(malformed) is ErrorCode.GROUP_ID_NOT_FOUND

    large = Driver(GroupSettings(initial_rebalance_delay_ms=0, consumer_max_size=1), catalog(t=10))
    classic_group(large)
    assert code_of_join(large) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_member_without_an_assignment_is_upgraded_with_nothing() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    driver.enter()
    driver.settle()

    driver.consumer_join("new")

    assert sum(len(member.assigned) for member in driver.consumer().members.values()) <= 1


def test_a_group_without_migration_refuses_classic_members() -> None:
    driver = Driver(GroupSettings(migration_policy=MigrationPolicy.DISABLED), catalog(t=10))
    driver.consumer_join("new")

    assert refusal(driver, driver.join()) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# --- downgrade --------------------------------------------------------------------------------------------------------------


def test_when_the_last_member_of_the_consumer_protocol_leaves_the_group_turns_classic_and_rebalances() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    members = classic_group(driver)
    driver.consumer_join("new")

    driver.consumer_beat("new", -1)
    driver.settle()

    assert driver.state() == "PreparingRebalance"
    generation = driver.classic().generation
    assert generation >= 2
    assert all(beat(driver, reply.member_id, generation) is ErrorCode.REBALANCE_IN_PROGRESS for reply in members)
    tokens = [driver.join(reply.member_id) for reply in members]
    assert {driver.joined(token).generation for token in tokens} == {generation + 1}
    assert driver.reloaded().state() == "Stable"


def test_when_the_last_member_of_the_consumer_protocol_dies_the_group_turns_classic() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    members = classic_group(driver, session_timeout_ms=1_000_000)
    driver.consumer_join("new")

    driver.pass_time(46_000)

    assert set(driver.classic().members) == {reply.member_id for reply in members}


def test_members_of_a_downgraded_group_are_watched() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    classic_group(driver)
    driver.consumer_join("new")
    driver.consumer_beat("new", -1)

    driver.pass_time(60_000)

    assert driver.state() == "Empty"


@pytest.mark.parametrize("policy", [MigrationPolicy.UPGRADE])
def test_a_policy_without_downgrade_keeps_the_group_on_the_consumer_protocol(policy: MigrationPolicy) -> None:
    driver = Driver(GroupSettings(initial_rebalance_delay_ms=0, migration_policy=policy), catalog(t=10))
    classic_group(driver)
    driver.consumer_join("new")

    driver.consumer_beat("new", -1)
    driver.settle()

    assert len(driver.consumer().members) == 2


def test_a_static_member_that_returns_with_the_classic_protocol_turns_the_group_classic() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    reply = driver.consumer_join("a", instance_id="arm")
    assert reply.member_epoch == 1

    back = driver.joined(driver.join(instance_id="arm"))
    driver.settle()

    assert back.generation == 1
    assert driver.state() == "Stable"
    assert beat(driver, back.member_id, 1) is ErrorCode.NONE
    assert share_of(driver, back.member_id, 1) == set(range(10))
    assert driver.reloaded().state() == "Stable"


def test_classic_members_of_an_upgraded_group_may_leave() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    first, second = classic_group(driver)
    driver.consumer_join("new")

    left = driver.ask("leave", Leave(group_id=GROUP, members=(Leaver(first.member_id), Leaver("stranger"))))

    assert [member.error for member in left] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(driver.consumer().members) == {second.member_id, "new"}


def test_a_downgrade_while_others_join_already_is_one_rebalance() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    leader, _ = classic_group(driver)
    driver.consumer_join("new")
    driver.consumer_beat("new", -1)
    driver.join(leader.member_id)

    driver.settle()

    assert driver.state() == "PreparingRebalance"


def test_a_downgraded_group_keeps_what_its_members_have_not_given_up_from_others() -> None:
    driver = Driver(BOTH_WAYS, catalog(t=10))
    members = classic_group(driver)
    driver.consumer_join("new")
    driver.consumer_beat("new", -1)

    again = driver.consumer_join("newer")

    held = driver.consumer().owners[T]
    assert again.assignment == {}
    assert {held[partition] for partition in range(10)} == {reply.member_id for reply in members}
