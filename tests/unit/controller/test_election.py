"""Elections, under any state that can be: a leader always has everything committed unless the topic gave leave."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.controller import election
from headrace.controller.election import Cleanliness, ElectionRules
from headrace.controller.entries import Memory, PartitionState
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_BROKER
from tests.unit.controller.images import image_of

BROKERS = range(1, 6)


@st.composite
def states(draw: st.DrawFn) -> PartitionState:
    replicas = tuple(draw(st.permutations(BROKERS))[: draw(st.integers(1, 5))])
    isr = tuple(draw(st.sets(st.sampled_from(replicas))))
    elr = tuple(b for b in draw(st.sets(st.sampled_from(replicas))) if b not in isr)
    leader = draw(st.sampled_from((*isr, NO_BROKER)))
    last = draw(st.sampled_from((*replicas, NO_BROKER))) if leader == NO_BROKER else NO_BROKER
    return PartitionState(
        replicas=replicas, leader=leader, leader_epoch=3, isr=isr, elr=elr, last_known_leader=last, partition_epoch=9
    )


RULES = st.builds(
    ElectionRules, min_insync_replicas=st.integers(1, 3), unclean_allowed=st.booleans(), flushed_before_ack=st.booleans()
)
ALIVE = st.sets(st.sampled_from(BROKERS))


def check(state: PartitionState) -> None:
    assert set(state.isr).isdisjoint(state.elr)
    assert {*state.isr, *state.elr} <= set(state.replicas)
    assert state.leader == NO_BROKER or state.leader in state.isr


@pytest.mark.slow
@settings(max_examples=400)
@given(state=states(), rules=RULES, alive=ALIVE, broker=st.sampled_from(BROKERS))
def test_after_a_loss_the_lost_one_leads_nothing_and_a_clean_leader_had_everything(
    state: PartitionState, rules: ElectionRules, alive: set[int], broker: int
) -> None:
    elected = election.without_broker(state, broker, alive.__contains__, rules)
    after = elected.state

    check(after)
    assert broker not in after.isr or broker not in state.replicas
    assert after.leader != broker
    assert after.leader == NO_BROKER or after.leader in alive or after.leader == state.leader
    if elected.cleanliness is Cleanliness.CLEAN and after.leader != NO_BROKER:
        assert after.leader in state.isr or after.leader in state.elr
    if elected.cleanliness is Cleanliness.UNCLEAN:
        assert rules.unclean_allowed


@pytest.mark.slow
@settings(max_examples=400)
@given(state=states(), rules=RULES, alive=ALIVE, broker=st.sampled_from(BROKERS), memory=st.sampled_from(Memory))
def test_epochs_grow_by_one_step_at_most_and_always_with_a_new_leader(
    state: PartitionState, rules: ElectionRules, alive: set[int], broker: int, memory: Memory
) -> None:
    for after in (
        election.without_broker(state, broker, alive.__contains__, rules).state,
        election.restarted(state, broker, alive.__contains__, rules, memory).state,
        election.move_away(state, broker, alive.__contains__, rules),
    ):
        check(after)
        assert after.partition_epoch - state.partition_epoch in (0, 1)
        assert (after == state) == (after.partition_epoch == state.partition_epoch)
        assert after.leader_epoch - state.leader_epoch in (0, 1)
        if after.leader != state.leader:
            assert after.leader_epoch == state.leader_epoch + 1


@given(state=states(), rules=RULES, alive=ALIVE, broker=st.sampled_from(BROKERS))
def test_a_broker_that_led_leads_in_a_new_epoch_after_its_restart(
    state: PartitionState, rules: ElectionRules, alive: set[int], broker: int
) -> None:
    after = election.restarted(state, broker, alive.__contains__, rules, Memory.ALL).state

    if state.leader == broker:
        assert after.leader_epoch == state.leader_epoch + 1


@given(state=states(), rules=RULES, alive=ALIVE, broker=st.sampled_from(BROKERS))
def test_one_that_forgot_is_neither_in_sync_nor_eligible_unless_elected_with_open_eyes(
    state: PartitionState, rules: ElectionRules, alive: set[int], broker: int
) -> None:
    elected = election.restarted(state, broker, alive.__contains__, rules, Memory.FLUSHED)

    if not rules.flushed_before_ack and elected.cleanliness is Cleanliness.CLEAN:
        assert broker not in elected.state.isr
        assert broker not in elected.state.elr


def test_a_single_node_leads_again_after_a_crash_with_the_next_epoch() -> None:
    state = PartitionState(replicas=(1,), leader=1, leader_epoch=5, isr=(1,))
    nobody = frozenset[int]().__contains__

    flushed = election.restarted(state, 1, nobody, ElectionRules(), Memory.FLUSHED)
    lazy = election.restarted(state, 1, nobody, ElectionRules(flushed_before_ack=False), Memory.FLUSHED)

    assert (flushed.state.leader, flushed.state.leader_epoch, flushed.cleanliness) == (1, 6, Cleanliness.CLEAN)
    assert (lazy.state.leader, lazy.state.leader_epoch, lazy.cleanliness) == (1, 6, Cleanliness.ONLY_REPLICA)
    assert lazy.state.recovering


def test_the_last_leader_of_several_needs_consent_and_is_then_asked_first() -> None:
    forgotten = PartitionState(replicas=(1, 2, 3), leader=NO_BROKER, leader_epoch=5, last_known_leader=2)
    everybody = {1, 2, 3}.__contains__

    assert election.elect(forgotten, everybody, ElectionRules()).state.leader == NO_BROKER
    elected = election.elect(forgotten, everybody, ElectionRules(unclean_allowed=True))
    assert (elected.state.leader, elected.cleanliness) == (2, Cleanliness.UNCLEAN)


def test_a_broker_with_a_new_disk_is_neither_in_sync_nor_eligible_even_where_everything_was_flushed() -> None:
    in_sync = PartitionState(replicas=(1, 2), leader=2, isr=(1, 2))
    alone = PartitionState(replicas=(1, 2), leader=1, leader_epoch=1, isr=(1,))
    without_others = PartitionState(replicas=(1,), leader=1, leader_epoch=1, isr=(1,))

    assert election.restarted(in_sync, 1, {2}.__contains__, ElectionRules(), Memory.NOTHING).state.isr == (2,)
    lost = election.restarted(alone, 1, {2}.__contains__, ElectionRules(), Memory.NOTHING).state
    assert (lost.leader, lost.isr, lost.elr) == (NO_BROKER, (), ())
    # Nobody else ever had it: it begins anew, for what else could it do?
    assert election.restarted(without_others, 1, {2}.__contains__, ElectionRules(), Memory.NOTHING).state.leader == 1


def test_controlled_shutdown_keeps_a_leader_that_nobody_can_replace() -> None:
    state = PartitionState(replicas=(1, 2), leader=1, isr=(1,))

    assert election.move_away(state, 1, {2}.__contains__, ElectionRules()) == state


def test_the_preferred_replica_is_elected_only_when_it_can_and_need_be() -> None:
    state = PartitionState(replicas=(1, 2), leader=2, leader_epoch=1, isr=(1, 2))
    moved = election.prefer(state, {1, 2}.__contains__)

    assert (moved.leader, moved.leader_epoch) == (1, 2)
    with pytest.raises(RequestError) as needless:
        election.prefer(moved, {1, 2}.__contains__)
    assert needless.value.code is ErrorCode.ELECTION_NOT_NEEDED
    with pytest.raises(RequestError) as impossible:
        election.prefer(state, {2}.__contains__)
    assert impossible.value.code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_an_operator_gets_a_leader_at_any_price_but_not_for_nothing() -> None:
    gone = PartitionState(replicas=(1, 2), leader=NO_BROKER, leader_epoch=1, elr=(1,))

    assert election.elect_uncleanly(gone, {2}.__contains__, ElectionRules()).cleanliness is Cleanliness.UNCLEAN
    assert election.elect_uncleanly(gone, {1}.__contains__, ElectionRules()).cleanliness is Cleanliness.CLEAN
    with pytest.raises(RequestError) as nobody:
        election.elect_uncleanly(gone, frozenset[int]().__contains__, ElectionRules())
    assert nobody.value.code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_leadership_goes_back_only_when_a_broker_leads_far_too_little() -> None:
    own = PartitionState(replicas=(1, 2), leader=1, isr=(1, 2))
    away = PartitionState(replicas=(1, 2), leader=2, isr=(1, 2))
    slightly = image_of(partitions=[own] * 19 + [away])
    badly = image_of(partitions=[own] * 5 + [away] * 5)

    assert list(election.unbalanced(slightly, election.eligible_in(slightly), 10)) == []
    assert [index for _, index, _ in election.unbalanced(badly, election.eligible_in(badly), 10)] == [5, 6, 7, 8, 9]
