"""The table of a fetch's states, walked through as far as it goes: every way that the world can treat a fetch is tried."""

from dataclasses import dataclass, replace

import pytest

from headrace.broker.fetching.states import ENDED, FROM_ELSEWHERE, STEPS, Action, Event, State

OUTCOMES: dict[Action, set[Event | None]] = {
    Action.LOOK: {Event.COLD, Event.NO_ROOM, Event.TOO_LITTLE, Event.ENOUGH},
    Action.READ: {Event.NO_ROOM, Event.TOO_LITTLE, Event.ENOUGH},
    Action.COMPARE: {Event.GREW, Event.GREW_TOO_LITTLE},
    Action.WAIT_FOR_RECORDS: {Event.WAKE, None},
}
ENDINGS = {Action.ANSWER, Action.ANSWER_WITHOUT_RECORDS, Action.LET_GO}


@dataclass(frozen=True)
class World:
    """A fetch, and what is under way on its behalf."""

    state: State = State.QUEUED
    # What the last action may have come to, where that is to be told at once.
    outcomes: frozenset[Event | None] = frozenset()
    is_queued: bool = True
    warms: bool = False
    timer: bool = False
    in_line: bool = False
    is_reader: bool = False
    turn: bool = False
    time_was_over: bool = False
    endings: int = 0

    def events(self) -> set[Event]:
        """What can happen next."""
        if self.outcomes - {None}:
            return {event for event in self.outcomes if event is not None}
        possible = {
            Event.AT_HEAD: self.is_queued,
            Event.AT_HEAD_WITHOUT_TIME: self.is_queued,
            Event.WARMED: self.warms,
            Event.TIME_OVER: self.timer,
            Event.ROOM: self.in_line,
            Event.WAKE: self.is_reader,
            Event.TURN: self.turn,
            Event.CLOSED: True,
        }
        return {event for event, can_be in possible.items() if can_be}

    def after(self, event: Event) -> "World":
        state, action = STEPS[self.state][event]
        world = replace(self.without(event), state=state, outcomes=frozenset(OUTCOMES.get(action, ())))
        if action is Action.WARM_UP:
            return replace(world, warms=True)
        if action is Action.WAIT_FOR_ROOM:
            return replace(world, in_line=True, timer=True)
        if action is Action.WAIT_FOR_RECORDS:
            return replace(world, is_reader=True, timer=True)
        if action is Action.LOOK_SOON:
            assert not world.turn, "asked for twice"
            return replace(world, turn=True)
        if action in ENDINGS:
            in_line = world.in_line and action is Action.ANSWER
            return replace(world, timer=False, is_reader=False, in_line=in_line, endings=world.endings + 1)
        return world

    def without(self, event: Event) -> "World":
        match event:
            case Event.AT_HEAD | Event.AT_HEAD_WITHOUT_TIME:
                return replace(self, is_queued=False, time_was_over=event is Event.AT_HEAD_WITHOUT_TIME)
            case Event.WARMED:
                return replace(self, warms=False)
            case Event.ROOM:
                return replace(self, in_line=False)
            case Event.TURN:
                return replace(self, turn=False)
            case Event.TIME_OVER:
                return replace(self, timer=False, time_was_over=True)
            case Event.CLOSED:
                return replace(self, is_queued=False)
            case _:
                return self


def all_worlds() -> list[World]:
    """Wherever a fetch can get, by whatever way."""
    known = {World()}
    new = [World()]
    while new:
        world = new.pop()
        for event in world.events():
            assert event in STEPS[world.state], f"{event.name} happens to one that is {world.state.name}"
            after = world.after(event)
            found = {after}
            if None in after.outcomes:
                found.add(replace(after, outcomes=frozenset()))
            new.extend(found - known)
            known |= found
    return sorted(known, key=repr)


WORLDS = all_worlds()


def test_every_state_is_reached_and_has_its_row() -> None:
    assert {world.state for world in WORLDS} == set(State) == set(STEPS)


@pytest.mark.parametrize("state", State)
def test_what_comes_from_elsewhere_may_come_at_any_time(state: State) -> None:
    assert set(FROM_ELSEWHERE) <= set(STEPS[state])


def test_every_entry_is_needed_or_changes_nothing() -> None:
    used = {(world.state, event) for world in WORLDS for event in world.events()}
    unused = {(state, event) for state, row in STEPS.items() for event in row} - used

    assert all(event is Event.CLOSED or STEPS[state][event] == (state, Action.NOTHING) for state, event in unused)


def test_a_fetch_ends_exactly_once() -> None:
    for world in WORLDS:
        assert world.endings == (world.state in ENDED), world


@pytest.mark.parametrize("state", ENDED)
def test_nothing_happens_to_one_that_has_ended(state: State) -> None:
    assert set(STEPS[state].values()) == {(state, Action.NOTHING)}


def test_one_that_has_ended_has_no_timer_no_place_in_line_and_is_nobodys_reader() -> None:
    for world in WORLDS:
        if world.state in ENDED:
            assert (world.timer, world.in_line, world.is_reader) == (False, False, False), world


def test_whoever_waits_is_bound_to_go_on_though_nobody_writes_and_no_memory_is_given_back() -> None:
    for world in WORLDS:
        if world.state not in ENDED and not world.outcomes:
            assert world.is_queued or world.warms or world.timer, world


def test_one_whose_time_is_over_waits_for_no_more_records() -> None:
    for world in WORLDS:
        if world.time_was_over:
            assert world.state not in {State.READING, State.WARMING, State.WAITING_FOR_RECORDS, State.WOKEN}, world


def test_one_that_is_woken_is_looked_at_in_the_next_turn() -> None:
    for world in WORLDS:
        if world.state is State.WOKEN and not world.outcomes:
            assert world.turn, world


def test_nothing_is_begun_twice() -> None:
    for world in WORLDS:
        busy = [world.warms, world.in_line, bool(world.outcomes - {None, Event.WAKE})]
        if world.state not in ENDED:
            assert sum(busy) <= 1, world
        if world.state is State.WAITING_FOR_RECORDS:
            assert not any([*busy, world.turn]), world


@pytest.mark.parametrize("state", sorted(set(State) - ENDED))
def test_a_connection_that_is_gone_ends_any_fetch(state: State) -> None:
    assert STEPS[state][Event.CLOSED] == (State.GONE, Action.LET_GO)
