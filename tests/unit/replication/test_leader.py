"""The leader's decisions: who is in sync, and how far the high watermark may go."""

from headrace.controller.entries import PartitionState
from headrace.replication.leader import LeaderState

ANYBODY = lambda broker, epoch: True  # noqa: E731
LAG_S = 10.0


def leader(isr: tuple[int, ...] = (1, 2, 3), minimum: int = 1, end: int = 0, high_watermark: int = 0) -> LeaderState:
    state = PartitionState(replicas=(1, 2, 3), leader=1, leader_epoch=4, isr=isr, partition_epoch=7)
    return LeaderState.begin(
        1, state, end_offset=end, high_watermark=high_watermark, now=0.0, lag_time_max_s=LAG_S, min_insync_replicas=minimum
    )


def confirmed(state: LeaderState, isr: tuple[int, ...], now: float = 0.0) -> None:
    state.on_state(state.state.changed(isr=isr), now)  # type: ignore[attr-defined]


def test_the_high_watermark_waits_for_every_in_sync_follower() -> None:
    leading = leader()
    leading.on_fetch(2, 5, 0, 5, now=1)
    assert leading.advance(5, 1, ANYBODY) == 0
    leading.on_fetch(3, 4, 0, 5, now=1)

    assert leading.advance(5, 1, ANYBODY) == 4


def test_the_high_watermark_passes_only_what_is_safe_on_the_leader_itself() -> None:
    leading = leader()
    for follower in (2, 3):
        leading.on_fetch(follower, 5, 0, 5, now=1)

    assert leading.advance(3, 1, ANYBODY) == 3
    assert leading.advance(5, 1, ANYBODY) == 5


def test_the_high_watermark_never_goes_back() -> None:
    leading = leader(isr=(1,), end=9, high_watermark=8)
    confirmed(leading, (1, 2))
    leading.on_fetch(2, 3, 0, 9, now=1)

    assert leading.advance(9, 1, ANYBODY) == 8


def test_a_follower_outside_the_set_does_not_hold_it_up_unless_it_is_about_to_join() -> None:
    far, near = leader(isr=(1, 2)), leader(isr=(1, 2))
    for leading in (far, near):
        leading.on_fetch(2, 10, 0, 10, now=1)
    far.on_fetch(3, 2, 0, 10, now=1)
    near.on_fetch(3, 10, 0, 10, now=1)
    near.on_fetch(2, 12, 0, 12, now=2)

    assert far.advance(10, 1, ANYBODY) == 10
    assert near.advance(12, 2, ANYBODY) == 10


def test_one_that_may_not_join_never_holds_it_up() -> None:
    leading = leader(isr=(1, 2))
    for follower in (2, 3):
        leading.on_fetch(follower, 10, 0, 10, now=1)
    leading.on_fetch(2, 12, 0, 12, now=2)

    assert leading.advance(12, 2, lambda broker, epoch: broker != 3) == 12


def test_a_follower_that_fetches_what_was_the_end_a_moment_ago_stays_in_sync() -> None:
    leading = leader(isr=(1, 2))
    for second in range(30):
        leading.on_fetch(2, second * 100, 0, (second + 1) * 100, now=second)

    assert leading.propose(3_000, 30, ANYBODY) is None


def test_a_follower_that_is_silent_too_long_is_put_out_unless_there_is_nothing_new() -> None:
    leading = leader(isr=(1, 2, 3))
    leading.on_fetch(2, 5, 0, 5, now=1)
    leading.on_fetch(3, 5, 0, 5, now=1)
    assert leading.propose(5, 100, ANYBODY) is None
    leading.on_fetch(2, 6, 0, 6, now=99)

    assert leading.propose(6, 100, ANYBODY) == {1: -1, 2: -1}


def test_one_proposal_at_a_time() -> None:
    leading = leader(isr=(1,))
    leading.on_fetch(2, 0, 0, 0, now=1, broker_epoch=77)
    assert leading.propose(0, 1, ANYBODY) == {1: -1, 2: 77}
    leading.on_fetch(3, 0, 0, 0, now=1)
    assert leading.propose(0, 1, ANYBODY) is None
    leading.on_refused()

    assert leading.propose(0, 1, ANYBODY) == {1: -1, 2: 77, 3: -1}


def test_a_follower_below_the_start_of_the_epoch_may_not_join() -> None:
    leading = leader(isr=(1,), end=10, high_watermark=4)
    leading.on_fetch(2, 9, 0, 10, now=1)
    assert leading.propose(10, 1, ANYBODY) is None
    leading.on_fetch(2, 10, 0, 10, now=1)

    assert leading.propose(10, 1, ANYBODY) == {1: -1, 2: -1}


def test_a_follower_that_may_not_join_is_not_proposed() -> None:
    leading = leader(isr=(1,))
    leading.on_fetch(2, 0, 0, 0, now=1)

    assert leading.propose(0, 1, lambda broker, epoch: False) is None


def test_a_leader_that_recovers_says_so_when_it_is_done() -> None:
    leading = leader(isr=(1,))
    leading.state = leading.state.changed(recovering=True)  # type: ignore[attr-defined]

    assert leading.propose(0, 0, ANYBODY) == {1: -1}


def test_below_the_minimum_nothing_is_written_or_committed() -> None:
    leading = leader(isr=(1, 2), minimum=2)
    leading.on_fetch(2, 3, 0, 5, now=1)
    leading.advance(5, 1, ANYBODY)
    confirmed(leading, (1,))

    assert not leading.may_write()
    assert leading.advance(5, 2, ANYBODY) == 3
    assert leading.is_acknowledged(5) is None
    assert leading.is_acknowledged(3) is False


def test_the_minimum_is_never_more_than_there_are_replicas() -> None:
    leading = leader(isr=(1, 2, 3), minimum=5)

    assert leading.may_write()


def test_an_old_confirmation_does_not_undo_a_newer_one() -> None:
    leading = leader(isr=(1, 2, 3))
    old = leading.state
    confirmed(leading, (1,))
    leading.on_state(old, 1)

    assert leading.in_sync == {1}


def test_replicas_that_are_added_or_removed_are_followed_or_forgotten() -> None:
    leading = leader()
    leading.on_state(leading.state.changed(replicas=(1, 2, 4), isr=(1, 2)), 5)  # type: ignore[attr-defined]

    assert set(leading.followers) == {2, 4}
    assert not leading.on_fetch(3, 0, 0, 0, now=5)
    assert leading.on_fetch(4, 0, 0, 0, now=5)
