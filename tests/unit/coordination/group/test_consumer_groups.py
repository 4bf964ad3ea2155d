"""The consumer protocol (KIP-848): epochs, assignment by the coordinator, revocation first, fencing, static members."""

from typing import Any

import pytest

from headrace.coordination.group.entries import LegacyTopicsEntry, MemberState
from headrace.coordination.group.requests import Commit, ConsumerHeartbeatReply, FetchOffsets, Leave, Leaver, OffsetQuery
from headrace.coordination.group.settings import GroupSettings
from headrace.coordination.group.topics import CatalogTopic, TopicCatalog
from headrace.model.errors import ErrorCode, RequestError
from tests.unit.coordination.group.group_driver import GROUP, Driver, catalog, topic_id

T = topic_id("t")
U = topic_id("u")


def code(driver: Driver, member_id: str, epoch: int, **more: Any) -> ErrorCode:
    try:
        driver.consumer_beat(member_id, epoch, **more)
    except RequestError as error:
        return error.code
    return ErrorCode.NONE


def partitions(reply: ConsumerHeartbeatReply) -> set[int]:
    assert reply.assignment is not None
    return set(reply.assignment.get(T, ()))


def two_members(driver: Driver) -> tuple[int, int]:
    """Members a and b with half of ten partitions each; their epochs."""
    first = driver.consumer_join("a")
    second = driver.consumer_join("b")
    mine = partitions(driver.consumer_beat("a", first.member_epoch))
    after = driver.consumer_beat("a", first.member_epoch, owned={T: frozenset(mine)})
    given = driver.consumer_beat("b", second.member_epoch)
    assert partitions(given) == set(range(10)) - mine
    return after.member_epoch, given.member_epoch


# --- the heart of it --------------------------------------------------------------------------------------------------------


def test_the_first_member_gets_everything_at_once() -> None:
    driver = Driver(topics=catalog(t=10))

    reply = driver.consumer_join("a")

    assert reply.member_epoch == 1
    assert partitions(reply) == set(range(10))
    assert reply.heartbeat_interval_ms == 5_000
    assert driver.state() == "Stable"


def test_a_second_member_gets_its_half_only_after_the_first_has_let_go() -> None:
    driver = Driver(topics=catalog(t=10))
    driver.consumer_join("a")

    waiting = driver.consumer_join("b")
    assert partitions(waiting) == set()
    assert driver.state() == "Reconciling"
    told = driver.consumer_beat("a", 1)
    kept = partitions(told)
    assert len(kept) == 5
    assert told.member_epoch == 1
    assert driver.consumer_beat("b", waiting.member_epoch).assignment is None

    acknowledged = driver.consumer_beat("a", 1, owned={T: frozenset(kept)})
    assert acknowledged.member_epoch == 2

    assert partitions(driver.consumer_beat("b", waiting.member_epoch)) == set(range(10)) - kept
    assert driver.state() == "Stable"


def test_targets_follow_each_other_no_faster_than_the_interval_set() -> None:
    driver = Driver(GroupSettings(consumer_assignment_interval_ms=1000), catalog(t=10))
    driver.consumer_join("a")

    late = driver.consumer_join("b")
    assert driver.state() == "Assigning"
    assert driver.consumer_beat("a", 1).assignment is None

    driver.pass_time(1000)
    assert len(partitions(driver.consumer_beat("a", 1))) == 5
    assert driver.state() == "Reconciling"
    assert driver.consumer_beat("b", late.member_epoch).member_epoch == 2


def test_ten_partitions_are_shared_five_five_then_ten_then_three_three_four() -> None:
    driver = Driver(topics=catalog(t=10))
    two_members(driver)
    assert sorted(len(target[T]) for target in driver.consumer().targets.values()) == [5, 5]

    driver.consumer_beat("b", -1)
    driver.consumer_beat("a", driver.consumer().members["a"].epoch)
    assert len(driver.consumer().targets["a"][T]) == 10

    driver.consumer_join("c")
    driver.consumer_join("d")

    assert sorted(len(target[T]) for target in driver.consumer().targets.values()) == [3, 3, 4]


def test_partitions_that_need_not_move_do_not() -> None:
    driver = Driver(topics=catalog(t=10))
    two_members(driver)
    before = {member_id: set(target[T]) for member_id, target in driver.consumer().targets.items()}

    driver.consumer_join("c")

    for member_id, old in before.items():
        assert set(driver.consumer().targets[member_id][T]) <= old


def test_a_heartbeat_without_news_writes_nothing_and_tells_nothing() -> None:
    driver = Driver(topics=catalog(t=10))
    reply = driver.consumer_join("a")
    entries = len(driver.log)

    again = driver.consumer_beat("a", reply.member_epoch)

    assert again.assignment is None
    assert len(driver.log) == entries


def test_a_full_heartbeat_is_told_everything_again() -> None:
    driver = Driver(topics=catalog(t=4))
    driver.consumer_join("a")

    reply = driver.consumer_beat(
        "a", 1, rebalance_timeout_ms=60_000, topic_names=frozenset({"t"}), owned={T: frozenset({0, 1, 2, 3})}
    )

    assert partitions(reply) == {0, 1, 2, 3}


def test_a_member_may_read_a_topic_that_does_not_exist_yet() -> None:
    driver = Driver()
    reply = driver.consumer_join("a")
    assert reply.assignment == {}

    driver.set_topics(catalog(t=3, version=2), {"t"})

    assert partitions(driver.consumer_beat("a", reply.member_epoch)) == {0, 1, 2}


def test_new_partitions_are_given_out_with_the_next_heartbeat() -> None:
    driver = Driver(topics=catalog(t=3))
    reply = driver.consumer_join("a")

    driver.set_topics(catalog(t=5, version=2), {"t"})
    grown = driver.consumer_beat("a", reply.member_epoch)

    assert partitions(grown) == {0, 1, 2, 3, 4}
    assert grown.member_epoch == reply.member_epoch + 1


def test_a_deleted_topic_is_taken_from_its_reader() -> None:
    driver = Driver(topics=catalog(t=3, u=1))
    reply = driver.consumer_join("a", "t", "u")

    driver.set_topics(catalog(u=1, version=2), {"t"}, {"t": T})
    told = driver.consumer_beat("a", reply.member_epoch)
    done = driver.consumer_beat("a", reply.member_epoch, owned={U: frozenset({0})})

    assert told.assignment == {U: frozenset({0})}
    assert done.member_epoch == reply.member_epoch + 1


def test_a_member_that_gives_up_a_topic_loses_it_before_anyone_gets_it() -> None:
    driver = Driver(topics=catalog(t=2, u=2))
    reply = driver.consumer_join("a", "t", "u")

    told = driver.consumer_beat("a", reply.member_epoch, topic_names=frozenset({"u"}))

    assert told.assignment == {U: frozenset({0, 1})}
    member = driver.consumer().members["a"]
    assert member.state is MemberState.UNREVOKED_PARTITIONS
    assert set(member.revoking[T]) == {0, 1}


def test_members_with_different_subscriptions_share_what_they_have_in_common() -> None:
    driver = Driver(topics=catalog(t=4, u=4))
    driver.consumer_join("a", "t")
    driver.consumer_join("b", "t", "u")

    targets = driver.consumer().targets

    assert len(targets["a"].get(T, ())) == 4
    assert len(targets["b"].get(U, ())) == 4


def test_the_assignor_most_members_ask_for_assigns() -> None:
    driver = Driver(topics=catalog(t=4, u=4))
    driver.consumer_join("b", "t", "u", server_assignor="range")
    driver.consumer_join("a", "t", "u", server_assignor="range")

    assert driver.consumer().targets["a"] == {T: frozenset({0, 1}), U: frozenset({0, 1})}
    assert driver.shard.describe_consumer(GROUP).assignor == "range"


# --- fencing ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 0}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 0, "rebalance_timeout_ms": 1}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 0, "rebalance_timeout_ms": 1, "owned": {}}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "magic"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": 5}, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_a_heartbeat_that_does_not_fit_is_refused(change: dict[str, object], expected: ErrorCode) -> None:
    from headrace.coordination.group.requests import ConsumerHeartbeat

    driver = Driver(topics=catalog(t=4))
    driver.consumer_join("a")
    fitting: dict[str, Any] = {"group_id": GROUP, "member_id": "a", "member_epoch": 1}

    with pytest.raises(RequestError) as caught:
        driver.ask("consumer_heartbeat", ConsumerHeartbeat(**{**fitting, **change}))

    assert caught.value.code is expected


def test_a_member_that_missed_the_reply_with_its_new_epoch_may_come_with_the_old_one() -> None:
    driver = Driver(topics=catalog(t=4))
    driver.consumer_join("a")
    driver.set_topics(catalog(t=6, version=2), {"t"})
    driver.consumer_beat("a", 1)

    assert driver.consumer_beat("a", 1, owned={T: frozenset({0, 1})}).member_epoch == 2
    assert code(driver, "a", 1, owned={T: frozenset({99})}) is ErrorCode.FENCED_MEMBER_EPOCH
    assert code(driver, "a", 1) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_fenced_member_joins_again_from_nothing() -> None:
    driver = Driver(topics=catalog(t=4))
    driver.consumer_join("a")
    assert code(driver, "a", 9) is ErrorCode.FENCED_MEMBER_EPOCH

    reply = driver.consumer_join("a")

    assert partitions(reply) == {0, 1, 2, 3}
    assert reply.member_epoch == 1


def test_a_silent_member_is_out_after_the_session_and_its_partitions_go_to_the_others() -> None:
    driver = Driver(topics=catalog(t=10))
    first, second = two_members(driver)
    for _ in range(10):
        driver.pass_time(5_000)
        reply = driver.consumer_beat("a", first)
        first = reply.member_epoch

    assert len(driver.consumer().targets["a"][T]) == 10
    assert code(driver, "b", second) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_let_go_within_its_rebalance_timeout_is_out() -> None:
    driver = Driver(topics=catalog(t=10))
    driver.consumer_join("a", rebalance_timeout_ms=20_000)
    driver.consumer_join("b")
    for _ in range(4):
        driver.pass_time(5_000)
        assert code(driver, "a", 1) in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
        driver.consumer_beat("b", driver.consumer().members["b"].epoch)
    driver.pass_time(5_000)

    assert code(driver, "a", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    driver.consumer_beat("b", driver.consumer().members["b"].epoch)
    assert set(driver.consumer().members["b"].assigned[T]) == set(range(10))


def test_the_end_of_a_session_that_could_not_be_written_comes_again() -> None:
    driver = Driver(topics=catalog(t=2))
    driver.consumer_join("a")
    driver.fails_to_write = True
    driver.pass_time(46_000)
    assert "a" in driver.consumer().members
    driver.fails_to_write = False

    driver.pass_time(1_000)

    assert driver.state() == "Empty"


def test_a_full_group_refuses_newcomers_but_not_its_members() -> None:
    driver = Driver(GroupSettings(consumer_max_size=1), catalog(t=2))
    driver.consumer_join("a")

    with pytest.raises(RequestError) as caught:
        driver.consumer_join("b")

    assert caught.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.consumer_join("a").member_epoch == 1


def test_commits_and_fetches_are_fenced_by_epoch() -> None:
    driver = Driver(topics=catalog(t=2))
    driver.consumer_join("a")

    def commit(**more: Any) -> ErrorCode:
        try:
            return driver.commit(3, **more)[0]  # type: ignore[no-any-return]
        except RequestError as error:
            return error.code

    assert commit(member_id="a", generation=1) is ErrorCode.NONE
    assert commit(member_id="a", generation=2) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(member_id="a", generation=0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(member_id="b", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit() is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(member_id="a", generation=1, knows_consumer_protocol=False) is ErrorCode.UNSUPPORTED_VERSION
    for member_id, epoch, expected in (("a", 0, ErrorCode.STALE_MEMBER_EPOCH), ("b", 1, ErrorCode.UNKNOWN_MEMBER_ID)):
        query = FetchOffsets(group_id=GROUP, partitions=(OffsetQuery("t", 0),), member_id=member_id, member_epoch=epoch)
        with pytest.raises(RequestError) as caught:
            driver.shard.fetch_offsets(query)
        assert caught.value.code is expected


def test_a_commit_under_an_older_epoch_counts_for_partitions_held_since_then() -> None:
    driver = Driver(topics=catalog(t=2))
    driver.consumer_join("a")
    driver.set_topics(catalog(t=4, version=2), {"t"})
    driver.consumer_beat("a", 1)

    assert driver.commit(3, partition=0, member_id="a", generation=1) == (ErrorCode.NONE,)
    with pytest.raises(RequestError) as caught:
        driver.commit(3, partition=3, member_id="a", generation=1)

    assert caught.value.code is ErrorCode.STALE_MEMBER_EPOCH


# --- leaving and static members ---------------------------------------------------------------------------------------------


def test_a_member_that_leaves_frees_its_partitions_at_once() -> None:
    driver = Driver(topics=catalog(t=10))
    first, _ = two_members(driver)

    reply = driver.consumer_beat("b", -1)

    assert reply.member_epoch == -1
    assert partitions(driver.consumer_beat("a", first)) == set(range(10))


def test_a_static_member_that_is_away_keeps_its_partitions_for_its_next_self() -> None:
    driver = Driver(topics=catalog(t=10))
    driver.consumer_join("a", instance_id="arm")
    driver.consumer_join("b", instance_id="leg")
    mine = partitions(driver.consumer_beat("a", 1, instance_id="arm"))
    driver.consumer_beat("a", 1, instance_id="arm", owned={T: frozenset(mine)})
    epoch = driver.consumer().epoch
    driver.consumer_beat("a", -2, instance_id="arm")
    assert driver.consumer().members["a"].epoch == -2

    reply = driver.consumer_join("a2", instance_id="arm")

    assert partitions(reply) == mine
    assert driver.consumer().epoch == epoch
    assert "a" not in driver.consumer().members


def test_a_static_member_that_is_away_loses_its_place_when_its_session_ends() -> None:
    driver = Driver(topics=catalog(t=2))
    driver.consumer_join("a", instance_id="arm")
    driver.consumer_beat("a", -2, instance_id="arm")

    driver.pass_time(46_000)

    assert driver.state() == "Empty"


def test_an_instance_id_that_is_in_use_is_not_given_to_another() -> None:
    driver = Driver(topics=catalog(t=2))
    driver.consumer_join("a", instance_id="arm")

    with pytest.raises(RequestError) as caught:
        driver.consumer_join("b", instance_id="arm")

    assert caught.value.code is ErrorCode.UNRELEASED_INSTANCE_ID


def test_the_old_self_of_a_static_member_is_fenced() -> None:
    driver = Driver(topics=catalog(t=2))
    driver.consumer_join("a", instance_id="arm")
    driver.consumer_beat("a", -2, instance_id="arm")
    driver.consumer_join("b", instance_id="arm")

    assert code(driver, "a", 1, instance_id="arm") is ErrorCode.FENCED_INSTANCE_ID
    assert code(driver, "a", -1, instance_id="arm") is ErrorCode.FENCED_INSTANCE_ID
    assert code(driver, "x", 1, instance_id="unknown") is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_operator_removes_a_static_member_by_its_instance_id() -> None:
    driver = Driver(topics=catalog(t=2))
    driver.consumer_join("a", instance_id="arm")

    left = driver.ask("leave", Leave(group_id=GROUP, members=(Leaver("", "arm"), Leaver("", "leg"), Leaver("x"))))

    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert [member.error for member in left] == [ErrorCode.NONE, unknown, unknown]
    assert driver.state() == "Empty"


# --- patterns ---------------------------------------------------------------------------------------------------------------


def test_a_pattern_is_resolved_when_its_member_joins() -> None:
    driver = Driver(topics=catalog(t=1, u=2, other=4))

    reply = driver.consumer_join("a", topic_names=None, topic_regex="[tu]")

    assert reply.assignment == {T: frozenset({0}), U: frozenset({0, 1})}
    assert driver.consumer().regexes["[tu]"].topics == {"t", "u"}


def test_a_pattern_that_is_none_is_refused() -> None:
    driver = Driver(topics=catalog(t=1))

    with pytest.raises(RequestError) as caught:
        driver.consumer_join("a", topic_names=None, topic_regex="(")

    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert driver.state() == "gone"


def test_a_pattern_finds_topics_that_are_made_later() -> None:
    driver = Driver(topics=catalog(t=1))
    driver.consumer_join("a", topic_names=None, topic_regex="[tu]")

    driver.set_topics(catalog(t=1, u=1, version=2), {"u"})
    assert driver.consumer_beat("a", 1).assignment is None
    driver.pass_time(10_001)

    assert driver.consumer_beat("a", 1).assignment == {T: frozenset({0}), U: frozenset({0})}


def test_a_pattern_forgets_topics_that_are_gone_at_the_interval_that_is_set() -> None:
    settings = {"often": GroupSettings(consumer_regex_refresh_interval_ms=20_000), "seldom": GroupSettings()}
    found = {}
    for name, each in settings.items():
        driver = Driver(each, catalog(t=1, u=1))
        driver.consumer_join("a", topic_names=None, topic_regex="[tu]")
        driver.set_topics(TopicCatalog([CatalogTopic("t", T, 1)], version=2), set(), {"u": U})
        driver.pass_time(20_001)
        driver.consumer_beat("a", driver.consumer().members["a"].epoch)
        found[name] = driver.consumer().regexes["[tu]"].topics

    assert found == {"often": {"t"}, "seldom": {"t", "u"}}


def test_a_pattern_nobody_has_any_more_is_forgotten() -> None:
    driver = Driver(topics=catalog(t=1, u=1))
    driver.consumer_join("a", topic_names=None, topic_regex="t.*")
    driver.consumer_beat("a", 1, topic_regex="u.*")
    assert set(driver.consumer().regexes) == {"u.*"}

    driver.consumer_beat("a", -1)

    assert driver.consumer().regexes == {}


# --- crashes and other lives ------------------------------------------------------------------------------------------------


def test_a_reloaded_group_goes_on_where_it_was() -> None:
    driver = Driver(topics=catalog(t=10))
    driver.consumer_join("a", topic_regex="t.*", instance_id="arm")
    waiting = driver.consumer_join("b")

    fresh = driver.reloaded()

    assert fresh.consumer().members == driver.consumer().members
    kept = partitions(fresh.consumer_beat("a", 1, instance_id="arm"))
    fresh.consumer_beat("a", 1, instance_id="arm", owned={T: frozenset(kept)})
    assert partitions(fresh.consumer_beat("b", waiting.member_epoch)) == set(range(10)) - kept


def test_a_reloaded_group_goes_on_watching_who_must_let_go() -> None:
    driver = Driver(topics=catalog(t=10))
    driver.consumer_join("a", rebalance_timeout_ms=20_000)
    driver.consumer_join("b")
    driver.consumer_beat("a", 1)

    fresh = driver.reloaded()
    for _ in range(5):
        fresh.pass_time(5_000)
        code(fresh, "a", 1)

    assert code(fresh, "a", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_that_could_not_be_written_changes_nothing() -> None:
    driver = Driver(topics=catalog(t=4))
    driver.consumer_join("a")
    driver.fails_to_write = True

    assert (
        code(driver, "b", 0, rebalance_timeout_ms=1, owned={}, topic_names=frozenset({"t"}))
        is ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    driver.fails_to_write = False

    assert set(driver.consumer().members) == {"a"}
    assert driver.consumer_beat("a", 1).member_epoch == 1


def test_an_empty_group_of_either_protocol_becomes_one_of_the_other() -> None:
    driver = Driver(GroupSettings(initial_rebalance_delay_ms=0), catalog(t=1))
    driver.commit(3)
    driver.consumer_join("a")
    assert driver.shard.list_groups()[0].kind == "consumer"
    driver.consumer_beat("a", -1)

    driver.stable_group(1)

    assert driver.shard.list_groups()[0].kind == "classic"
    assert driver.committed() == 3
    assert driver.reloaded().state() == "Stable"


def test_topics_as_older_brokers_kept_them_are_cleared_away() -> None:
    driver = Driver(topics=catalog(t=1))
    driver.consumer_join("a")
    driver.shard.replay(LegacyTopicsEntry(GROUP, True), 99)
    driver.set_topics(catalog(t=2, version=2), {"t"})

    driver.consumer_beat("a", 1)

    assert LegacyTopicsEntry(GROUP, False) in [item[0] for item in driver.log]


def test_an_operator_commits_for_an_empty_consumer_group() -> None:
    driver = Driver(topics=catalog(t=1))
    driver.consumer_join("a")
    driver.consumer_beat("a", -1)

    assert driver.commit(8) == (ErrorCode.NONE,)
    assert driver.ask("commit", Commit(group_id=GROUP)) == ()
    assert driver.ask("delete_group", GROUP) == ErrorCode.NONE
    assert driver.reloaded().state() == "gone"


def test_how_long_a_rebalance_took_is_told_once_all_members_have_what_they_should() -> None:
    driver = Driver(topics=catalog(t=10))
    driver.consumer_join("a")
    assert driver.rebalances_ms == [0]

    waiting = driver.consumer_join("b")
    driver.pass_time(300)
    kept = partitions(driver.consumer_beat("a", 1))
    driver.pass_time(400)
    driver.consumer_beat("a", 1, owned={T: frozenset(kept)})
    assert driver.rebalances_ms == [0]
    driver.pass_time(500)
    driver.consumer_beat("b", waiting.member_epoch)

    assert driver.state() == "Stable"
    assert driver.rebalances_ms == [0, 1200]


def test_a_rebalance_ends_also_when_the_member_goes_that_it_waited_for() -> None:
    driver = Driver(topics=catalog(t=10))
    driver.consumer_join("a")
    waiting = driver.consumer_join("b")
    driver.pass_time(700)
    driver.consumer_beat("a", -1)
    assert driver.consumer_beat("b", waiting.member_epoch).assignment is not None

    assert driver.state() == "Stable"
    assert driver.rebalances_ms == [0, 700]
