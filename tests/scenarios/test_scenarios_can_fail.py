"""Every scenario guards something: each is broken by some wrong decision, and each wrong decision breaks some scenario."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headrace.controller import election, insync, reassignment
from headrace.controller.election import Cleanliness, Elected
from headrace.controller.entries import Memory
from headrace.model.errors import RequestError
from headrace.replication import follower
from headrace.replication.leader import LeaderState
from tests.scenarios.model_cluster import Member, ModelCluster, play
from tests.scenarios.test_random_stories import STORY, tell_and_check

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))

Mutate = Callable[[pytest.MonkeyPatch], None]


def logs_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(follower, "divergence", lambda epochs, fetch_offset, last_fetched_epoch: None)


def logs_are_cut_to_the_watermark(patch: pytest.MonkeyPatch) -> None:
    """As before KIP-101: whoever follows a new leader gives up what it does not know to be committed."""
    learn = ModelCluster._learn

    def cut_and_learn(cluster: ModelCluster, member: Member) -> None:
        if cluster.stored.leader_epoch != member.view.leader_epoch:
            member.cut(member.high_watermark)
        learn(cluster, member)

    patch.setattr(ModelCluster, "_learn", cut_and_learn)


def one_answer_is_enough(patch: pytest.MonkeyPatch) -> None:
    """As before KIP-279: the end of the leader's epoch is where to cut, whether or not the follower ever had that epoch."""
    patch.setattr(follower, "truncation_point", lambda epochs, end, leader_end: min(leader_end.end_offset, end))


def nobody_is_fenced(patch: pytest.MonkeyPatch) -> None:
    """As before KIP-320: a leader answers followers of any epoch."""
    answer = ModelCluster._answer

    def answer_anybody(cluster: ModelCluster, source: Member, who: int, epoch: int, offset: int, last_epoch: int) -> Any:
        return answer(cluster, source, who, source.leading.state.leader_epoch if source.leading else epoch, offset, last_epoch)

    patch.setattr(ModelCluster, "_answer", answer_anybody)


def acknowledge_before_the_followers(patch: pytest.MonkeyPatch) -> None:
    def advance(leader: LeaderState, local_end: int, now: float, may_join: object) -> int:
        leader.high_watermark = local_end
        return local_end

    patch.setattr(LeaderState, "advance", advance)


def who_is_to_leave_no_longer_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderState, "in_sync_at_most", property(lambda leader: leader.proposed or leader.in_sync))


def who_is_to_join_does_not_count_yet(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderState, "in_sync_at_most", property(lambda leader: leader.in_sync))
    patch.setattr(LeaderState, "_counts", lambda leader, broker, progress, now, may_join: broker in leader.in_sync)


def one_in_sync_is_always_enough(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderState, "minimum", property(lambda leader: 1))


def who_has_gone_joins_for_what_it_once_had(patch: pytest.MonkeyPatch) -> None:
    """As before KIP-903."""
    patch.setattr(insync, "may_join", lambda image, broker, epoch: election.eligible_in(image)(broker))


def who_left_is_let_in_for_what_was_known_of_it(patch: pytest.MonkeyPatch) -> None:
    on_state = LeaderState.on_state

    def on_state_keeping_all(leader: LeaderState, state: Any, now: float) -> None:
        followers = dict(leader.followers)
        on_state(leader, state, now)
        leader.followers.update({broker: known for broker, known in followers.items() if broker in leader.followers})

    patch.setattr(LeaderState, "on_state", on_state_keeping_all)


def nobody_stays_eligible(patch: pytest.MonkeyPatch) -> None:
    """As before KIP-966."""
    patch.setattr(election, "with_isr", lambda state, isr, rules: state if isr == state.isr else state.changed(isr=isr))


def every_memory_is_trusted(patch: pytest.MonkeyPatch) -> None:
    restarted = election.restarted
    patch.setattr(
        election,
        "restarted",
        lambda s, broker, eligible, rules, memory, life: restarted(s, broker, eligible, rules, Memory.ALL, life),
    )


def anybody_leads(patch: pytest.MonkeyPatch) -> None:
    elect = election.elect

    def elect_anybody(state: Any, eligible: Any, rules: Any) -> Elected:
        for candidate in state.replicas:
            if eligible(candidate) and state.leader != candidate:
                return Elected(election._led_by(state, candidate, (candidate,), ()))
        return elect(state, eligible, rules)

    patch.setattr(election, "elect", elect_anybody)


def nobody_leads_uncleanly(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(election, "_elect_without_guarantee", lambda state, eligible, rules: Elected(election._led_by_nobody(state)))


def unclean_elections_pass_for_clean(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ModelCluster, "_elected", lambda cluster, elected: setattr(cluster, "stored", elected.state))


def the_last_leader_needs_no_consent(patch: pytest.MonkeyPatch) -> None:
    """As KIP-966 has it, for the topics that want nothing unclean."""
    without_guarantee = election._elect_without_guarantee

    def elect_the_last(state: Any, eligible: Any, rules: Any) -> Elected:
        last = state.last_known_leader
        if not state.isr and not state.elr and eligible(last):
            return Elected(election._led_by(state, last, (last,), (), recovering=True))
        return without_guarantee(state, eligible, rules)

    patch.setattr(election, "_elect_without_guarantee", elect_the_last)


def unclean_elections_count_whoever_looks(patch: pytest.MonkeyPatch) -> None:
    elect = election.elect

    def elect_and_call_it_unclean(state: Any, eligible: Any, rules: Any) -> Elected:
        elected = elect(state, eligible, rules)
        return Elected(elected.state, Cleanliness.UNCLEAN if rules.unclean_allowed else elected.cleanliness)

    patch.setattr(election, "elect", elect_and_call_it_unclean)


def arrivals_are_settled_as_often_as_they_are_tried(patch: pytest.MonkeyPatch) -> None:
    restarted = election.restarted
    patch.setattr(
        election,
        "restarted",
        lambda s, broker, eligible, rules, memory, life: restarted(s, broker, eligible, rules, memory),
    )


def a_new_leader_keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    led_by, one_step = election._led_by, election._as_one_step

    def in_the_same_epoch(state: Any, *arguments: Any, **options: Any) -> Any:
        return led_by(state, *arguments, **options).changed(leader_epoch=state.leader_epoch)

    def as_one_step(before: Any, elected: Elected) -> Elected:
        step = one_step(before, elected)
        return Elected(step.state.changed(leader_epoch=before.leader_epoch), step.cleanliness)

    patch.setattr(election, "_led_by", in_the_same_epoch)
    patch.setattr(election, "_as_one_step", as_one_step)


def shutting_down_moves_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(election, "move_away", lambda state, broker, eligible, rules: state)


def the_damaged_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(election, "without_damaged", lambda state, broker, eligible, rules: state)


def the_damaged_go_though_nobody_else_has_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        election,
        "without_damaged",
        lambda state, broker, eligible, rules: election._without(state, broker, eligible, rules, Memory.NOTHING).state,
    )


def moves_end_before_the_new_have_it_all(patch: pytest.MonkeyPatch) -> None:
    def completed(state: Any, rules: object) -> Any:
        target = reassignment.target_of(state)
        return state.changed(replicas=target, adding=(), removing=(), isr=target, leader=target[0]) if state.adding else None

    patch.setattr(reassignment, "completed", completed)


def moves_never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reassignment, "completed", lambda state, rules: None)


def moves_are_cancelled_at_any_price(patch: pytest.MonkeyPatch) -> None:
    def cancel(state: Any, eligible: Any, rules: Any) -> Elected:
        origin = reassignment.origin_of(state)
        return Elected(state.changed(replicas=origin, adding=(), removing=(), isr=origin, leader=origin[0]), Cleanliness.CLEAN)

    patch.setattr(reassignment, "cancel", cancel)


def the_store_takes_every_proposal(patch: pytest.MonkeyPatch) -> None:
    """Without compare-and-swap: whoever comes later wins."""
    patch.setattr(insync, "_current", lambda image, change: image.topics_by_id[change.topic_id].partitions[change.index])


MUTANTS: list[Mutate] = [
    logs_are_not_compared,
    logs_are_cut_to_the_watermark,
    one_answer_is_enough,
    nobody_is_fenced,
    acknowledge_before_the_followers,
    who_is_to_leave_no_longer_counts,
    who_is_to_join_does_not_count_yet,
    one_in_sync_is_always_enough,
    who_has_gone_joins_for_what_it_once_had,
    who_left_is_let_in_for_what_was_known_of_it,
    nobody_stays_eligible,
    every_memory_is_trusted,
    anybody_leads,
    nobody_leads_uncleanly,
    unclean_elections_pass_for_clean,
    the_last_leader_needs_no_consent,
    unclean_elections_count_whoever_looks,
    arrivals_are_settled_as_often_as_they_are_tried,
    a_new_leader_keeps_the_epoch,
    shutting_down_moves_nothing,
    the_damaged_stay,
    the_damaged_go_though_nobody_else_has_it,
    moves_end_before_the_new_have_it_all,
    moves_never_end,
    moves_are_cancelled_at_any_price,
    the_store_takes_every_proposal,
]


def fails(path: Path) -> bool:
    try:
        printed, expected = play(path.read_text())
    except (AssertionError, RequestError, KeyError):
        return True
    return printed != expected


def broken_by(mutate: Mutate) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        mutate(patch)
        return [path.stem for path in SCENARIOS if fails(path)]


@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda mutate: mutate.__name__)
def test_a_wrong_decision_breaks_a_scenario(mutate: Mutate) -> None:
    assert broken_by(mutate), f"no scenario notices that {mutate.__name__.replace('_', ' ')}"


def test_every_scenario_can_fail() -> None:
    guarded = {name for mutate in MUTANTS for name in broken_by(mutate)}

    assert [path.stem for path in SCENARIOS if path.stem not in guarded] == []


LOSSES: list[Mutate] = [
    logs_are_not_compared,
    acknowledge_before_the_followers,
    one_in_sync_is_always_enough,
    anybody_leads,
    a_new_leader_keeps_the_epoch,
    moves_end_before_the_new_have_it_all,
]


@pytest.mark.parametrize("mutate", LOSSES, ids=lambda mutate: mutate.__name__)
def test_random_stories_find_what_loses_records(mutate: Mutate, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)

    @settings(max_examples=400, phases=[Phase.generate], report_multiple_bugs=False)
    @given(steps=STORY, minimum=st.integers(1, 3))
    def stories(steps: list[tuple[str, int]], minimum: int) -> None:
        tell_and_check(steps, minimum)

    with pytest.raises(AssertionError):
        stories()
