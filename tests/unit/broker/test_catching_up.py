"""After a start, a broker is behind until each replica that it held, and that somebody leads, has been in sync again."""

from uuid import UUID

import pytest

from headrace.broker.health.catching_up import CatchingUp
from headrace.controller.changes import PartitionChanged, TopicDeleted
from headrace.controller.entries import PartitionState
from headrace.controller.image import ClusterImage, Topic
from headrace.model.identity import NO_BROKER

TOPIC_ID = UUID(int=1)
US = 1
BEHIND = PartitionState(replicas=(1, 2, 3), leader=2, leader_epoch=4, isr=(2, 3))
CAUGHT_UP = BEHIND.changed(isr=(1, 2, 3))
LEADERLESS = BEHIND.changed(leader=NO_BROKER, isr=(3,))


def image_of(*states: PartitionState) -> ClusterImage:
    topic = Topic("t", TOPIC_ID, {}, list(states))
    return ClusterImage(topics={"t": topic}, topics_by_id={TOPIC_ID: topic})


def started(*states: PartitionState) -> CatchingUp:
    catching_up = CatchingUp(US)
    catching_up.begin(image_of(*states))
    return catching_up


def changed(index: int, after: PartitionState) -> PartitionChanged:
    return PartitionChanged("t", TOPIC_ID, index, BEHIND, after)


@pytest.mark.parametrize(
    "state",
    [
        CAUGHT_UP,
        LEADERLESS,
        PartitionState(replicas=(2, 3), leader=2, isr=(2, 3)),
        PartitionState(replicas=(1, 2), leader=1, isr=(1,)),
        PartitionState(replicas=(1, 2, 3), leader=2, isr=(2, 3), adding=(1,)),
    ],
    ids=["in sync", "without a leader", "elsewhere", "led here", "being added"],
)
def test_nothing_is_waited_for_that_is_not_ours_to_catch_up_with(state: PartitionState) -> None:
    assert started(state).is_over


def test_every_replica_is_waited_for_and_counted() -> None:
    catching_up = started(BEHIND, BEHIND, CAUGHT_UP)
    assert catching_up.behind == 2

    catching_up.on_changes([changed(0, CAUGHT_UP)])
    assert catching_up.behind == 1
    assert not catching_up.is_over

    catching_up.on_changes([changed(1, CAUGHT_UP)])
    assert catching_up.is_over


def test_who_falls_behind_after_it_had_caught_up_is_not_waited_for_again() -> None:
    catching_up = started(BEHIND)
    catching_up.on_changes([changed(0, CAUGHT_UP)])
    catching_up.on_changes([changed(0, CAUGHT_UP.changed(isr=(2, 3)))])

    assert catching_up.behind == 0


def test_one_that_had_caught_up_while_others_had_not_is_not_waited_for_again() -> None:
    catching_up = started(BEHIND, BEHIND)
    catching_up.on_changes([changed(0, CAUGHT_UP), changed(0, BEHIND)])

    assert catching_up.behind == 1


def test_a_leader_that_comes_back_before_the_broker_is_ready_counts_again() -> None:
    catching_up = started(BEHIND, LEADERLESS)
    assert catching_up.behind == 1
    catching_up.on_changes([changed(1, BEHIND)])
    catching_up.on_changes([changed(0, CAUGHT_UP)])

    assert catching_up.behind == 1


@pytest.mark.parametrize("change", [changed(0, LEADERLESS), TopicDeleted("t", TOPIC_ID, 1)])
def test_a_partition_that_loses_its_leader_or_its_topic_blocks_nothing(change: PartitionChanged | TopicDeleted) -> None:
    catching_up = started(BEHIND)
    catching_up.on_changes([change])

    assert catching_up.is_over


def test_nothing_is_over_before_it_has_begun() -> None:
    catching_up = CatchingUp(US)
    catching_up.on_changes([changed(0, CAUGHT_UP)])

    assert not catching_up.is_over


def test_what_changed_while_nobody_heard_of_it_is_read_from_the_image() -> None:
    catching_up = started(BEHIND, BEHIND, CAUGHT_UP)
    catching_up.on_renewed(image_of(CAUGHT_UP, BEHIND, BEHIND))
    assert catching_up.behind == 1, "one caught up, and one fell behind that nobody waited for"

    catching_up.on_renewed(ClusterImage())
    assert catching_up.is_over
