"""Committed offsets: who may commit, what comes back, what transactions hide, what expires."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from headrace.coordination.group.entries import CommittedOffset, LegacyTopicsEntry
from headrace.coordination.group.requests import (
    Commit,
    DeleteOffsets,
    FetchOffsets,
    OffsetQuery,
    OffsetToCommit,
    TransactionalCommit,
)
from headrace.coordination.group.settings import GroupSettings
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import ProducerIdentity, TopicPartition
from tests.unit.coordination.group.group_driver import GROUP, Driver, catalog, topic_id

DAY_MS = 24 * 60 * 60 * 1000
PRODUCER = ProducerIdentity(9, 0)


def code_of_commit(driver: Driver, **more: Any) -> ErrorCode:
    try:
        return driver.commit(**more)[0]  # type: ignore[no-any-return]
    except RequestError as error:
        return error.code


def commit_in_transaction(driver: Driver, offset: int, producer: ProducerIdentity = PRODUCER, **more: Any) -> ErrorCode:
    offsets = (OffsetToCommit("t", 0, CommittedOffset(offset=offset)),)
    request = TransactionalCommit(group_id=GROUP, producer=producer, offsets=offsets, **more)
    try:
        return driver.ask("commit_transactional", request)[0]  # type: ignore[no-any-return]
    except RequestError as error:
        return error.code


def fetch(driver: Driver, **more: Any) -> list[tuple[str, int, int | None, ErrorCode]]:
    request = FetchOffsets(group_id=GROUP, **{"partitions": (OffsetQuery("t", 0),), **more})
    fetched = driver.shard.fetch_offsets(request)
    return [(each.topic, each.partition, each.value and each.value.offset, each.error) for each in fetched]


# --- committing -------------------------------------------------------------------------------------------------------------


def test_a_consumer_that_assigns_itself_commits_without_being_a_member() -> None:
    driver = Driver()

    assert code_of_commit(driver, offset=7) is ErrorCode.NONE
    assert driver.committed() == 7
    assert driver.state() == "Empty"
    assert driver.shard.list_groups()[0].protocol_type == ""


def test_the_note_beside_an_offset_comes_back() -> None:
    driver = Driver()
    driver.commit(7, metadata="so far")

    value = driver.shard.fetch_offsets(FetchOffsets(group_id=GROUP, partitions=(OffsetQuery("t", 0),)))[0].value

    assert value is not None
    assert value.metadata == "so far"


def test_a_note_that_is_too_long_is_refused_but_its_neighbours_are_kept() -> None:
    driver = Driver(GroupSettings(offset_metadata_max_bytes=4))
    offsets = (
        OffsetToCommit("t", 0, CommittedOffset(offset=1, metadata="12345")),
        OffsetToCommit("t", 1, CommittedOffset(offset=2, metadata="1234")),
    )

    codes = driver.ask("commit", Commit(group_id=GROUP, offsets=offsets))

    assert codes == (ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE)
    assert driver.committed(partition=0) is None
    assert driver.committed(partition=1) == 2


def test_each_wrong_committer_has_a_code_of_its_own() -> None:
    driver = Driver(GroupSettings(initial_rebalance_delay_ms=0))
    leader, _ = driver.stable_group()
    me = leader.member_id

    assert code_of_commit(driver, member_id=me, generation=1) is ErrorCode.NONE
    assert code_of_commit(driver, member_id=me, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert code_of_commit(driver, member_id=me, generation=2) is ErrorCode.ILLEGAL_GENERATION
    assert code_of_commit(driver, member_id="stranger", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of_commit(driver) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of_commit(driver, member_id=me, instance_id="arm", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_may_commit_while_others_join_but_not_before_they_know_their_new_share() -> None:
    driver = Driver(GroupSettings(initial_rebalance_delay_ms=0))
    leader, follower = driver.stable_group()
    driver.enter()
    assert driver.state() == "PreparingRebalance"
    assert code_of_commit(driver, member_id=leader.member_id, generation=1) is ErrorCode.NONE

    driver.join(leader.member_id)
    driver.join(follower.member_id)
    assert driver.state() == "CompletingRebalance"

    assert code_of_commit(driver, member_id=leader.member_id, generation=2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert code_of_commit(driver, member_id=leader.member_id, generation=1) is ErrorCode.ILLEGAL_GENERATION


def test_a_commit_to_a_group_that_does_not_exist_depends_on_what_the_client_knows() -> None:
    driver = Driver()

    assert code_of_commit(driver, member_id="m", generation=3) is ErrorCode.GROUP_ID_NOT_FOUND
    old = code_of_commit(driver, member_id="m", generation=3, knows_consumer_protocol=False)
    assert old is ErrorCode.ILLEGAL_GENERATION


def test_a_commit_keeps_a_session_alive() -> None:
    driver = Driver()
    (only,) = driver.stable_group(1)
    for _ in range(4):
        driver.pass_time(9_000)
        assert code_of_commit(driver, member_id=only.member_id, generation=1) is ErrorCode.NONE


def test_an_operator_may_set_offsets_back_once_the_group_is_empty() -> None:
    driver = Driver()
    (only,) = driver.stable_group(1)
    driver.commit(100, member_id=only.member_id, generation=1)
    assert code_of_commit(driver, offset=5) is ErrorCode.UNKNOWN_MEMBER_ID
    driver.leave(only.member_id)

    assert code_of_commit(driver, offset=5) is ErrorCode.NONE
    assert driver.committed() == 5


# --- fetching ---------------------------------------------------------------------------------------------------------------


def test_fetching_tells_of_what_was_never_committed_by_silence() -> None:
    driver = Driver()

    assert fetch(driver) == [("t", 0, None, ErrorCode.NONE)]
    assert fetch(driver, partitions=None) == []


def test_all_offsets_of_a_group_come_sorted_when_none_is_named() -> None:
    driver = Driver()
    driver.commit(3, topic="u", partition=2)
    driver.commit(1, topic="t", partition=1)
    driver.commit(2, topic="u", partition=0)

    assert [each[:3] for each in fetch(driver, partitions=None)] == [("t", 1, 1), ("u", 0, 2), ("u", 2, 3)]


def test_an_offset_of_a_deleted_topic_is_not_that_of_a_new_one_with_the_same_name() -> None:
    driver = Driver()
    value = CommittedOffset(offset=4, topic_id=topic_id("t"))
    driver.ask("commit", Commit(group_id=GROUP, offsets=(OffsetToCommit("t", 0, value),)))

    assert fetch(driver, partitions=(OffsetQuery("t", 0, topic_id("t")),))[0][2] == 4
    assert fetch(driver, partitions=(OffsetQuery("t", 0, uuid4()),))[0][2] is None


# --- transactions -----------------------------------------------------------------------------------------------------------


def test_offsets_in_a_transaction_count_only_once_it_is_committed() -> None:
    driver = Driver()
    driver.commit(1)
    assert commit_in_transaction(driver, 5) is ErrorCode.NONE

    assert fetch(driver) == [("t", 0, 1, ErrorCode.NONE)]
    assert fetch(driver, require_stable=True) == [("t", 0, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)]
    driver.end_transaction(PRODUCER, True)

    assert fetch(driver, require_stable=True) == [("t", 0, 5, ErrorCode.NONE)]


def test_offsets_in_an_aborted_transaction_never_count() -> None:
    driver = Driver()
    driver.commit(1)
    commit_in_transaction(driver, 5)

    driver.end_transaction(PRODUCER, False)

    assert fetch(driver, require_stable=True) == [("t", 0, 1, ErrorCode.NONE)]


def test_a_plain_commit_after_a_transactions_commit_wins_over_it() -> None:
    driver = Driver()
    commit_in_transaction(driver, 5)
    driver.commit(2)

    driver.end_transaction(PRODUCER, True)

    assert driver.committed() == 2
    assert driver.reloaded().committed() == 2


def test_several_transactions_over_one_partition_keep_it_unstable_until_all_end() -> None:
    driver = Driver()
    other = ProducerIdentity(10, 0)
    commit_in_transaction(driver, 5)
    commit_in_transaction(driver, 6, other)

    driver.end_transaction(PRODUCER, True)
    assert fetch(driver, require_stable=True)[0][3] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    driver.end_transaction(other, False)

    assert fetch(driver, require_stable=True) == [("t", 0, 5, ErrorCode.NONE)]


def test_a_transaction_commits_for_a_member_only_in_its_generation() -> None:
    driver = Driver()
    (only,) = driver.stable_group(1)

    assert commit_in_transaction(driver, 1, member_id=only.member_id, generation=1) is ErrorCode.NONE
    assert commit_in_transaction(driver, 1, member_id=only.member_id, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(driver, 1, member_id="stranger", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    # Older clients name no member; the transaction itself is their fence.
    assert commit_in_transaction(driver, 1) is ErrorCode.NONE


def test_a_transaction_of_a_member_in_a_group_that_is_gone_is_refused() -> None:
    assert commit_in_transaction(Driver(), 1, member_id="m", generation=1) is ErrorCode.ILLEGAL_GENERATION


def test_open_transactions_survive_a_crash() -> None:
    driver = Driver()
    commit_in_transaction(driver, 5)

    fresh = driver.reloaded()
    assert fetch(fresh, require_stable=True)[0][3] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    fresh.end_transaction(PRODUCER, True)

    assert fresh.committed() == 5


# --- deleting ---------------------------------------------------------------------------------------------------------------


def test_offsets_of_a_topic_that_is_read_cannot_be_deleted() -> None:
    driver = Driver()
    driver.stable_group(1)
    request = DeleteOffsets(group_id=GROUP, partitions=(TopicPartition("t", 0), TopicPartition("old", 0)))

    assert driver.ask("delete_offsets", request) == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE)


def test_deleted_offsets_are_gone_with_what_transactions_hold() -> None:
    driver = Driver()
    driver.commit(1)
    commit_in_transaction(driver, 5)

    codes = driver.ask("delete_offsets", DeleteOffsets(group_id=GROUP, partitions=(TopicPartition("t", 0),)))
    driver.end_transaction(PRODUCER, True)

    assert codes == (ErrorCode.NONE,)
    assert driver.committed() is None


def test_offsets_of_unknown_groups_and_of_busy_groups_of_other_kinds_cannot_be_deleted() -> None:
    driver = Driver(GroupSettings(initial_rebalance_delay_ms=0))
    request = DeleteOffsets(group_id=GROUP, partitions=(TopicPartition("t", 0),))
    with pytest.raises(RequestError) as caught:
        driver.ask("delete_offsets", request)
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND

    driver.stable_group(1, protocol_type="connect")
    with pytest.raises(RequestError) as caught:
        driver.ask("delete_offsets", request)

    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP


def test_offsets_go_with_their_topic() -> None:
    driver = Driver(topics=catalog(t=1, u=1))
    driver.commit(1)
    commit_in_transaction(driver, 5)
    driver.commit(2, topic="u")

    driver.set_topics(catalog(u=1, version=2), {"t"}, {"t": topic_id("t")})
    driver.end_transaction(PRODUCER, True)

    assert driver.committed("t") is None
    assert driver.committed("u") == 2


def test_offsets_committed_for_a_topic_made_anew_stay_when_news_of_the_old_ones_end_comes_late() -> None:
    driver = Driver()
    value = CommittedOffset(offset=4, topic_id=uuid4())
    driver.ask("commit", Commit(group_id=GROUP, offsets=(OffsetToCommit("t", 0, value),)))

    driver.set_topics(catalog(t=1), {"t"}, {"t": topic_id("t")})

    assert driver.committed() == 4


def test_a_group_is_deleted_with_its_offsets_only_when_it_is_empty() -> None:
    driver = Driver()
    (only,) = driver.stable_group(1)
    driver.commit(1, member_id=only.member_id, generation=1)
    assert driver.ask("delete_group", GROUP) == ErrorCode.NON_EMPTY_GROUP
    assert driver.ask("delete_group", "other") == ErrorCode.GROUP_ID_NOT_FOUND

    driver.leave(only.member_id)

    assert driver.ask("delete_group", GROUP) == ErrorCode.NONE
    assert driver.state() == "gone"
    assert driver.reloaded().state() == "gone"
    assert driver.committed() is None


# --- expiring ---------------------------------------------------------------------------------------------------------------

RETENTION = GroupSettings(offsets_retention_ms=7 * DAY_MS, initial_rebalance_delay_ms=0)


def test_offsets_of_a_consumer_that_assigns_itself_expire_from_its_last_commit() -> None:
    driver = Driver(RETENTION)
    driver.commit(1)
    driver.pass_time(6 * DAY_MS)
    driver.commit(2)

    driver.pass_time(6 * DAY_MS)
    assert driver.committed() == 2
    driver.pass_time(DAY_MS + 600_000)

    assert driver.committed() is None
    assert driver.state() == "gone"


def test_offsets_of_an_empty_group_expire_from_when_it_became_empty() -> None:
    driver = Driver(RETENTION)
    (only,) = driver.stable_group(1, session_timeout_ms=1_800_000)
    driver.commit(1, member_id=only.member_id, generation=1)
    driver.pass_time(1_000_000)
    driver.leave(only.member_id)

    driver.pass_time(7 * DAY_MS - 600_000)
    assert driver.committed() == 1
    driver.pass_time(1_200_000)

    assert driver.committed() is None
    assert driver.state() == "gone"


def test_offsets_do_not_expire_under_a_member_that_reads_their_topic_but_others_do() -> None:
    driver = Driver(replace(RETENTION, offsets_retention_ms=1_000_000))
    (only,) = driver.stable_group(1, session_timeout_ms=1_800_000)
    driver.commit(1, member_id=only.member_id, generation=1)
    driver.commit(9, topic="given-up", member_id=only.member_id, generation=1)
    for _ in range(4):
        driver.pass_time(1_000_000)
        driver.beat(only)

    assert driver.committed() == 1
    assert driver.committed("given-up") is None


def test_offsets_do_not_expire_under_an_open_transaction() -> None:
    driver = Driver(replace(RETENTION, offsets_retention_ms=1_000))
    driver.commit(1)
    commit_in_transaction(driver, 2)

    driver.pass_time(1_200_000)
    assert driver.committed() == 1
    driver.end_transaction(PRODUCER, False)
    driver.pass_time(600_000)

    assert driver.committed() is None


def test_expired_offsets_are_looked_for_as_often_as_is_set() -> None:
    often = Driver(replace(RETENTION, offsets_retention_ms=1000, offsets_retention_check_interval_ms=2000))
    seldom = Driver(replace(RETENTION, offsets_retention_ms=1000))
    for driver in (often, seldom):
        driver.commit(1)
        driver.pass_time(5000)

    assert often.committed() is None
    assert seldom.committed() == 1


def test_a_very_old_client_names_its_own_retention() -> None:
    driver = Driver(RETENTION)
    driver.commit(1, retention_ms=1_000_000)

    driver.pass_time(1_200_000)

    assert driver.committed() is None


@pytest.mark.parametrize("jump_ms", [365 * DAY_MS, -365 * DAY_MS])
def test_a_coordinator_that_starts_under_a_wrong_clock_expires_nothing_and_one_under_the_right_one_later_neither(
    jump_ms: int,
) -> None:
    driver = Driver(RETENTION)
    driver.time_ms += 400 * DAY_MS
    driver.commit(1)
    driver.commit(1, topic="own-retention", retention_ms=2 * DAY_MS)
    driver.time_ms += jump_ms
    wrong = driver.reloaded()
    wrong.pass_time(DAY_MS)
    wrong.commit(5, topic="another")
    wrong.time_ms -= jump_ms
    right = wrong.reloaded()
    right.pass_time(DAY_MS)
    assert [right.committed(), right.committed("another"), right.committed("own-retention")] == [1, 5, 1]
    right.pass_time(DAY_MS + 600_000)
    assert right.committed("own-retention") is None
    right.pass_time(6 * DAY_MS)

    assert [right.committed(), right.committed("another")] == [None, None]


def test_an_entry_of_a_kind_that_is_only_removed_leaves_no_group_behind() -> None:
    driver = Driver()
    driver.shard.replay(LegacyTopicsEntry(GROUP, False), 0)

    assert driver.state() == "gone"
