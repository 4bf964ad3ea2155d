"""The model of delayed records finds what it is there to find: each bug planted here breaks one of its rules."""

from collections.abc import Callable

import pytest

from headrace.coordination.decision import Decision
from headrace.coordination.delay import shard as rules
from headrace.coordination.delay.entries import Cancelled, Planned
from headrace.coordination.delay.shard import DelayShard, Plan
from headrace.coordination.moment import Moment
from headrace.model.errors import RequestError
from tests.unit.coordination.delay.test_delay_stories import Delays

Plant = Callable[[pytest.MonkeyPatch], None]


def a_clock_that_is_ahead(patch: pytest.MonkeyPatch) -> None:
    tick = DelayShard.tick
    patch.setattr(DelayShard, "tick", lambda self, now: tick(self, Moment(now.wall_ms + 20, now.monotonic)))


def the_order_of_arrival(patch: pytest.MonkeyPatch) -> None:
    plan = DelayShard._plan

    def by_offset(self: DelayShard, *arguments: object) -> Planned:
        planned: Planned = plan(self, *arguments)  # type: ignore[arg-type]
        return planned._replace(offsets=tuple(sorted(planned.offsets)))

    patch.setattr(DelayShard, "_plan", by_offset)


def leaders_that_go_on_as_the_same_producer(patch: pytest.MonkeyPatch) -> None:
    """Each begins its sequences at nought, under the number that the one before had."""
    plan = DelayShard._plan

    def as_before(self: DelayShard, *arguments: object) -> Planned:
        planned: Planned = plan(self, *arguments)  # type: ignore[arg-type]
        return planned._replace(generation=1 << rules.RESTARTS_BITS)

    patch.setattr(DelayShard, "_plan", as_before)


def a_new_plan_for_what_is_on_its_way(patch: pytest.MonkeyPatch) -> None:
    """Whoever takes over forgets what was planned, and plans it again as somebody else."""
    loaded = DelayShard.on_loaded

    def forgetting(self: DelayShard, now: Moment) -> Decision[None]:
        for state in self._targets.values():
            state.plan = None
        return loaded(self, now)

    patch.setattr(DelayShard, "on_loaded", forgetting)


def cancelling_what_is_on_its_way(patch: pytest.MonkeyPatch) -> None:
    replay = DelayShard._replay_cancelled

    def without_care(self: DelayShard, cancelled: Cancelled) -> None:
        state = self._targets.get(cancelled.target)
        if state is not None:
            state.plan = None
        replay(self, cancelled)

    patch.setattr(DelayShard, "_replay_cancelled", without_care)


def done_before_it_is(patch: pytest.MonkeyPatch) -> None:
    """Records are taken off the books as soon as they are planned."""
    decide = DelayShard._decide

    def too_soon(self: DelayShard, now: Moment) -> Decision[None]:
        for plan in list(self.plans(2**60)):
            return DelayShard.delivered(self, plan)
        return decide(self, now)

    patch.setattr(DelayShard, "_decide", too_soon)


def cancellations_that_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DelayShard, "_replay_cancelled", lambda self, cancelled: None)


def half_a_plan(patch: pytest.MonkeyPatch) -> None:
    """What is left of a plan after a torn write is sent again, as if none of it had been delivered."""
    replay = DelayShard._replay_gone

    def without_conclusion(self: DelayShard, uid: int) -> None:
        replay(self, uid)
        for state in self._targets.values():
            if state.plan is not None:
                state.plan = Plan(
                    state.plan.planned._replace(offsets=tuple(sorted(state.plan.left)), generation=self.term << 9),
                    state.plan.log_offset,
                    state.plan.left,
                )

    patch.setattr(DelayShard, "_replay_gone", without_conclusion)


def tell_stories() -> None:
    for seed in range(200):
        Delays(seed).run()


@pytest.mark.parametrize(
    "plant",
    [
        a_clock_that_is_ahead,
        the_order_of_arrival,
        leaders_that_go_on_as_the_same_producer,
        a_new_plan_for_what_is_on_its_way,
        cancelling_what_is_on_its_way,
        done_before_it_is,
        cancellations_that_are_forgotten,
        half_a_plan,
    ],
)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    # A rule of the model is broken, or the target refuses what it is sent.
    with pytest.raises((AssertionError, RequestError)):
        tell_stories()
