"""Who is in a share group and works on what."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordination.decision import Decision
from headrace.coordination.group.context import Context, Outcome
from headrace.coordination.group.settings import GroupSettings
from headrace.coordination.group.share.assignor import assign
from headrace.coordination.group.share.groups import BEGIN_PATIENCE_MS, ShareGroups
from headrace.coordination.group.share.requests import ForgetTopics, ShareBegun, ShareHeartbeat, ShareHeartbeatReply
from headrace.coordination.group.share_entries import ShareEntry
from headrace.coordination.group.topics import CatalogTopic, TopicCatalog
from headrace.coordination.moment import Moment
from headrace.model.errors import ErrorCode, RequestError

JOBS, MAIL = CatalogTopic("jobs", UUID(int=1), 4), CatalogTopic("mail", UUID(int=2), 1)
ALL = {JOBS.topic_id: frozenset(range(4))}


class Desk:
    """Share groups and their log: what is decided is replayed, as the shell does."""

    def __init__(self, **group_settings: Any) -> None:
        self.context = Context(GroupSettings(**group_settings), topics=TopicCatalog([JOBS, MAIL]))
        self.groups = ShareGroups(self.context)
        self.log: list[ShareEntry] = []
        self.now = Moment(1_000, 1.0)

    def take(self, decision: Decision[Any]) -> Any:
        for entry in decision.entries:
            self.log.append(entry)
            self.groups.replay(entry)
        return decision.replies[0].message if decision.replies else None

    def beat(
        self, member: str = "ann", epoch: int = 0, topics: tuple[str, ...] | None = None, **more: Any
    ) -> ShareHeartbeatReply:
        names = ("jobs",) if epoch == 0 and topics is None else topics
        request = ShareHeartbeat(
            group_id="workers",
            member_id=member,
            member_epoch=epoch,
            topic_names=None if names is None else frozenset(names),
            **more,
        )
        reply: ShareHeartbeatReply = self.take(self.groups.heartbeat(request, "token", self.now))
        return reply

    def begun(self, partitions: Any = None) -> None:
        request = ShareBegun(group_id="workers", partitions=ALL if partitions is None else partitions)
        self.take(self.groups.note_begun(request, "token", self.now))

    def working(self, *members: str) -> dict[str, ShareHeartbeatReply]:
        """Members that have what they are meant to have."""
        epochs = {member: self.beat(member).member_epoch for member in members}
        self.begun()
        return {member: self.beat(member, epochs[member]) for member in members}

    def reloaded(self) -> ShareGroups:
        groups = ShareGroups(self.context)
        for entry in self.log:
            groups.replay(entry)
        return groups


def refusal(call: Any, *args: Any, **kwargs: Any) -> ErrorCode:
    with pytest.raises(RequestError) as raised:
        call(*args, **kwargs)
    code: ErrorCode = raised.value.code
    return code


def test_a_partition_is_given_out_once_its_state_has_begun() -> None:
    desk = Desk()

    joined = desk.beat()
    assert (joined.assignment, joined.begin) == ({}, ALL)

    desk.begun()
    reply = desk.beat(epoch=joined.member_epoch)
    assert reply.assignment == ALL
    assert reply.member_epoch > joined.member_epoch


def test_a_state_that_does_not_begin_is_asked_for_again_a_little_later() -> None:
    desk = Desk()
    epoch = desk.beat().member_epoch

    assert desk.beat(epoch=epoch).begin == {}
    desk.now = desk.now.moved_to(1.0 + BEGIN_PATIENCE_MS / 1000)
    assert desk.beat(epoch=epoch).begin == ALL


def test_a_member_that_has_all_is_told_nothing_new() -> None:
    desk = Desk()
    epoch = desk.working("ann")["ann"].member_epoch
    written = len(desk.log)

    reply = desk.beat(epoch=epoch)

    assert (reply.assignment, reply.member_epoch, reply.heartbeat_interval_ms) == (None, epoch, 5_000)
    assert len(desk.log) == written


def test_a_member_whose_last_answer_was_lost_is_told_again() -> None:
    desk = Desk()
    before = desk.beat().member_epoch
    desk.begun()
    after = desk.beat(epoch=before)

    assert desk.beat(epoch=before) == after


def test_an_epoch_that_is_neither_the_members_nor_its_last_is_fenced() -> None:
    desk = Desk()
    epoch = desk.working("ann")["ann"].member_epoch

    assert refusal(desk.beat, epoch=epoch + 1) is ErrorCode.FENCED_MEMBER_EPOCH


def test_more_members_than_partitions_share_them() -> None:
    desk = Desk()
    members = [f"member-{number}" for number in range(6)]
    desk.working(*members)
    epochs = {member: desk.groups.groups["workers"].members[member].epoch for member in members}
    for member in members:
        desk.beat(member, epochs[member])

    assigned = [desk.groups.groups["workers"].members[member].assigned for member in members]
    assert all(each[JOBS.topic_id] for each in assigned)
    assert frozenset().union(*(each[JOBS.topic_id] for each in assigned)) == ALL[JOBS.topic_id]


def test_who_leaves_is_gone_and_others_work_on_what_it_had() -> None:
    desk = Desk()
    desk.working("ann", "bob")
    epoch = desk.groups.groups["workers"].members["bob"].epoch

    assert desk.beat("ann", -1).member_epoch == -1

    assert desk.beat("bob", epoch).assignment == ALL
    assert refusal(desk.beat, "ann", epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.reloaded().groups == desk.groups.groups


def test_who_is_not_heard_of_in_time_is_gone() -> None:
    desk = Desk()
    desk.working("ann")
    outcome = Outcome()

    desk.groups.on_session_over(desk.groups.groups["workers"], "ann", outcome, desk.now)
    desk.take(outcome.decision())

    assert desk.groups.describe("workers").state == "Empty"


def test_a_loaded_member_has_a_full_session_to_be_heard_of() -> None:
    desk = Desk(share_session_timeout_ms=50_000)
    desk.working("ann")
    groups = desk.reloaded()

    groups.on_loaded(desk.now)

    assert desk.context.timers.next_deadline() == desk.now.after_ms(50_000)


def test_a_change_of_topics_reaches_everybody_that_wants_them() -> None:
    desk = Desk()
    epoch = desk.working("ann")["ann"].member_epoch

    reply = desk.beat(epoch=epoch, topics=("jobs", "mail"))

    assert reply.begin == {MAIL.topic_id: frozenset({0})}
    desk.begun(reply.begin)
    assert desk.beat(epoch=reply.member_epoch).assignment == {**ALL, MAIL.topic_id: frozenset({0})}


def test_a_topic_that_grows_is_worked_on_in_full() -> None:
    desk = Desk()
    epoch = desk.working("ann")["ann"].member_epoch
    grown = CatalogTopic("jobs", JOBS.topic_id, 5)
    desk.context.topics = desk.context.topics.updated({"jobs": grown}, version=1)

    assert desk.beat(epoch=epoch).begin == {JOBS.topic_id: frozenset({4})}


def test_a_deleted_topic_is_forgotten() -> None:
    desk = Desk()
    desk.working("ann")

    desk.take(Decision(tuple(desk.groups.on_topics_gone({"jobs": JOBS.topic_id}))))

    assert desk.groups.groups["workers"].topics == {}


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"member": ""}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"topics": ()}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_what_makes_no_sense_is_refused(more: dict[str, Any], code: ErrorCode) -> None:
    assert refusal(Desk().beat, **more) is code


def test_members_are_told_how_often_to_be_heard_of() -> None:
    assert Desk(share_heartbeat_interval_ms=7_000).beat().heartbeat_interval_ms == 7_000


def test_a_group_has_so_many_members_at_most() -> None:
    desk = Desk(share_max_size=1)
    desk.beat("ann")

    assert refusal(desk.beat, "bob") is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_only_a_group_without_members_is_changed_by_hand() -> None:
    desk = Desk()
    desk.working("ann")
    forget = ForgetTopics(group_id="workers", topic_ids=frozenset({JOBS.topic_id}))

    assert refusal(desk.groups.forget_topics, forget, "token", desk.now) is ErrorCode.NON_EMPTY_GROUP
    assert refusal(desk.groups.next_state_epoch, "workers", "token", desk.now) is ErrorCode.NON_EMPTY_GROUP
    assert refusal(desk.groups.delete, "workers", "token", desk.now) is ErrorCode.NON_EMPTY_GROUP

    desk.beat("ann", -1)
    epoch = desk.groups.groups["workers"].epoch
    assert desk.take(desk.groups.next_state_epoch("workers", "token", desk.now)) == epoch + 1
    desk.take(desk.groups.forget_topics(forget, "token", desk.now))
    assert desk.groups.groups["workers"].topics == {}
    desk.take(desk.groups.delete("workers", "token", desk.now))
    assert desk.groups.groups == desk.reloaded().groups == {}


def test_tools_see_its_members() -> None:
    desk = Desk()
    desk.working("ann")

    described = desk.groups.describe("workers")

    assert (described.state, described.assignor, described.group_epoch) == ("Stable", "simple", described.assignment_epoch)
    assert [(each.member_id, each.topic_names) for each in described.members] == [("ann", ("jobs",))]
    assert described.members[0].assignment[0].partitions == (0, 1, 2, 3)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_every_partition_has_a_worker_and_every_worker_a_partition(partitions: int, members: int, later: int) -> None:
    topic = UUID(int=1)
    wanted = {f"m{number}": frozenset({topic}) for number in range(members)}
    first = assign(wanted, {topic: frozenset(range(partitions))}, {})
    changed = {f"m{number}": frozenset({topic}) for number in range(later)}

    second = assign(changed, {topic: frozenset(range(partitions))}, first)

    for assignment in (first, second):
        counts = [len(mine[topic]) for mine in assignment.values()]
        workers = [sum(index in mine[topic] for mine in assignment.values()) for index in range(partitions)]
        assert min(counts) >= 1
        assert min(workers) >= 1
        assert max(counts) - min(counts) <= 1
        assert max(workers) - min(workers) <= 1
    if later == members:
        assert second == first
