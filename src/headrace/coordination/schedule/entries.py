"""What is written down of schedules, as values: what each one is, and how far it has got."""

from typing import Literal, NamedTuple

from headrace.coordination.delay.entries import Target

Missed = Literal["skip", "once", "all"]


class Definition(NamedTuple):
    """A schedule as somebody made it."""

    name: str
    cron: str
    timezone: str
    topic: str
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    # What becomes of firings whose time went by while nobody could see to them.
    missed: Missed = "once"
    is_paused: bool = False


class Firing(NamedTuple):
    """One record that a schedule sends.  The number is its own: sent again under it, it is recognised."""

    number: int
    due_ms: int
    target: Target


class Defined(NamedTuple):
    """A schedule was made, or changed."""

    definition: Definition


class Removed(NamedTuple):
    """A schedule is no more."""

    name: str


class ScheduleProgress(NamedTuple):
    """How far a schedule has got."""

    name: str
    # When it was made: one that is made again under its name is another.
    made_ms: int
    next_due_ms: int | None
    next_number: int
    # On their way; in the order in which they were due.
    underway: tuple[Firing, ...] = ()
    # The last one that somebody asked for, by a name that they gave it.
    last_run: str = ""
    last_due_ms: int | None = None


class Forgotten(NamedTuple):
    """How far a schedule got that is no more is of no interest."""

    name: str


Entry = Defined | Removed | ScheduleProgress | Forgotten
