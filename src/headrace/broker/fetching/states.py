"""The life of a fetch, as a table: what may happen to it in each state, which state follows, and what is done then.

Always: a fetch ends once, answered or let go, and nothing that happens later changes that.  Wherever it waits, something is bound
to happen: its time is over, or its connection is.  Once its time is over it waits for no more records: what is there is the
answer.  `fetch.py` does what the table says.
"""

from enum import IntEnum
from typing import Final, NamedTuple


class State(IntEnum):
    """Where a fetch is.  The states named LAST are those of one whose time is over, or that had none."""

    QUEUED = 0  # earlier replies of its connection have not left
    READING = 1  # within one call: nothing else happens meanwhile
    WARMING = 2  # a thread brings what it wants into memory
    WAITING_FOR_ROOM = 3  # in the memory that all connections share
    WAITING_FOR_RECORDS = 4
    WOKEN = 5  # something is new; it is looked at once in the next turn of the loop, however much else comes
    LAST_READING = 6
    LAST_WARMING = 7
    LAST_WAITING_FOR_ROOM = 8
    ANSWERED = 9
    GONE = 10  # nobody wants the answer any more


class Event(IntEnum):
    """What happens to a fetch."""

    AT_HEAD = 0  # all earlier replies have left
    AT_HEAD_WITHOUT_TIME = 1  # the same, to one that does not want to wait
    # What came of looking and reading.
    COLD = 2
    NO_ROOM = 3
    TOO_LITTLE = 4
    ENOUGH = 5
    # What came of comparing with how much there was.
    GREW = 6
    GREW_TOO_LITTLE = 7
    # From elsewhere, at any time.
    WARMED = 8
    ROOM = 9
    WAKE = 10  # a partition has something new
    TURN = 11  # the turn of the loop that was asked for by LOOK_SOON
    TIME_OVER = 12
    CLOSED = 13  # the connection is gone


class Action(IntEnum):
    """What is done on the way into the next state."""

    NOTHING = 0
    LOOK = 1  # at what is wanted: if all of it is in memory, read it
    READ = 2  # whatever is in memory by now
    WARM_UP = 3
    WAIT_FOR_ROOM = 4
    WAIT_FOR_RECORDS = 5
    LOOK_SOON = 6
    COMPARE = 7  # how much there is with how much there was
    ANSWER = 8
    ANSWER_WITHOUT_RECORDS = 9
    LET_GO = 10


class Step(NamedTuple):
    """The state that follows, and what is done."""

    state: State
    action: Action


ENDED: Final = frozenset({State.ANSWERED, State.GONE})
FROM_ELSEWHERE: Final = (Event.WARMED, Event.ROOM, Event.WAKE, Event.TURN, Event.TIME_OVER, Event.CLOSED)


def _row(state: State, steps: dict[Event, Step]) -> dict[Event, Step]:
    """What comes from elsewhere and is not named changes nothing; the connection may be gone at any time."""
    ignored = dict.fromkeys(FROM_ELSEWHERE, Step(state, Action.NOTHING))
    return {**ignored, Event.CLOSED: Step(State.GONE, Action.LET_GO), **steps}


_ANSWER: Final = Step(State.ANSWERED, Action.ANSWER)
_ANSWER_WITHOUT_RECORDS: Final = Step(State.ANSWERED, Action.ANSWER_WITHOUT_RECORDS)
_LOOK_FOR_THE_LAST_TIME: Final = Step(State.LAST_READING, Action.LOOK)

_STEPS: Final[dict[State, dict[Event, Step]]] = {
    State.QUEUED: {
        Event.AT_HEAD: Step(State.READING, Action.LOOK),
        Event.AT_HEAD_WITHOUT_TIME: _LOOK_FOR_THE_LAST_TIME,
    },
    State.READING: {
        Event.COLD: Step(State.WARMING, Action.WARM_UP),
        Event.NO_ROOM: Step(State.WAITING_FOR_ROOM, Action.WAIT_FOR_ROOM),
        Event.TOO_LITTLE: Step(State.WAITING_FOR_RECORDS, Action.WAIT_FOR_RECORDS),
        Event.ENOUGH: _ANSWER,
    },
    # Whatever wakes it while it warms up, or waits for room, is read afterwards with all the rest.
    State.WARMING: {
        Event.WARMED: Step(State.READING, Action.READ),
        Event.TIME_OVER: Step(State.LAST_WARMING, Action.NOTHING),
    },
    State.WAITING_FOR_ROOM: {
        Event.ROOM: Step(State.READING, Action.READ),
        Event.TIME_OVER: _ANSWER_WITHOUT_RECORDS,
    },
    State.WAITING_FOR_RECORDS: {
        Event.WAKE: Step(State.WOKEN, Action.LOOK_SOON),
        Event.TIME_OVER: _LOOK_FOR_THE_LAST_TIME,
    },
    State.WOKEN: {
        Event.TURN: Step(State.WOKEN, Action.COMPARE),
        Event.GREW: Step(State.READING, Action.LOOK),
        Event.GREW_TOO_LITTLE: Step(State.WAITING_FOR_RECORDS, Action.NOTHING),
        Event.TIME_OVER: _LOOK_FOR_THE_LAST_TIME,
    },
    State.LAST_READING: {
        Event.COLD: Step(State.LAST_WARMING, Action.WARM_UP),
        Event.NO_ROOM: Step(State.LAST_WAITING_FOR_ROOM, Action.WAIT_FOR_ROOM),
        Event.TOO_LITTLE: _ANSWER,
        Event.ENOUGH: _ANSWER,
    },
    State.LAST_WARMING: {
        Event.WARMED: Step(State.LAST_READING, Action.READ),
    },
    # For one turn of the loop: there may be room for one who is asked for it.
    State.LAST_WAITING_FOR_ROOM: {
        Event.ROOM: Step(State.LAST_READING, Action.READ),
        Event.TIME_OVER: _ANSWER_WITHOUT_RECORDS,
    },
    State.ANSWERED: {Event.CLOSED: Step(State.ANSWERED, Action.NOTHING)},
    State.GONE: {Event.CLOSED: Step(State.GONE, Action.NOTHING)},
}

# What is not in here cannot happen: an outcome of reading, to one that does not read.
STEPS: Final[dict[State, dict[Event, Step]]] = {state: _row(state, steps) for state, steps in _STEPS.items()}
