"""Decides when schedules fire.

What always holds: a firing is written down, with its number, its target and the due time after it, before anything is sent; so
whoever takes over sends what is under way under the same numbers, and fires nothing that was fired.
"""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from headrace.coordination.decision import Decision, Reply, Token
from headrace.coordination.delay.entries import Target
from headrace.coordination.moment import Moment
from headrace.coordination.schedule.entries import Defined, Definition, Entry, Firing, Forgotten, Removed, ScheduleProgress
from headrace.model.errors import ErrorCode
from headrace.model.identity import ProducerIdentity

# What is later than this was missed: whoever sees to schedules was away.
LATE_MS = 60_000
LOOK_AGAIN_S = 30.0
TRY_AGAIN_S = 0.5
# Of all that was missed, the latest so many are made up for: a schedule of every second was away for long enough.
MADE_UP_FOR_MAX = 1000

# Where not all of it is, no more have to be looked at: one for each second in which nothing is late, and some.
LOOKED_AT_MAX = 100

NextAfter = Callable[[Definition, int], int | None]
Earlier = Callable[[Definition, int, int], int | None]
TargetOf = Callable[[Definition, int], Target | None]


class Answer(NamedTuple):
    """What somebody who changed a schedule is told."""

    error: ErrorCode = ErrorCode.NONE
    why: str = ""


class Change(NamedTuple):
    """What is asked of a schedule: to be this (None: to be no more), or to run now, under a name."""

    name: str
    definition: Definition | None = None
    run: str | None = None


class ScheduleShard:
    """All schedules."""

    def __init__(self, next_after: NextAfter, earlier: Earlier, place: TargetOf) -> None:
        """`next_after` is when a definition is due next after a time; `earlier` a time from which on it was due so many times,
        about, until another; `place` where its record of a number goes."""
        self._next_after = next_after
        self._earlier = earlier
        self._place = place
        self.definitions: dict[str, Definition] = {}
        self.progress: dict[str, ScheduleProgress] = {}
        self._now = Moment(0, 0.0)
        self._pause_until = 0.0

    # --- replay -----------------------------------------------------------------------------------------------------------

    def replay(self, entry: Entry, offset: int, producer: ProducerIdentity | None) -> None:
        self._pause_until = 0.0
        match entry:
            case Defined():
                self.definitions[entry.definition.name] = entry.definition
            case Removed():
                self.definitions.pop(entry.name, None)
            case Forgotten():
                self.progress.pop(entry.name, None)
            case ScheduleProgress():
                self.progress[entry.name] = entry

    def replay_marker(self, producer: ProducerIdentity, committed: bool) -> None:
        """There are no transactions here."""

    def underway(self) -> Iterator[tuple[Definition, ScheduleProgress]]:
        """The schedules of which something is on its way."""
        for name, progress in self.progress.items():
            if progress.underway and name in self.definitions:
                yield self.definitions[name], progress

    # --- requests ---------------------------------------------------------------------------------------------------------

    def change(self, change: Change, token: Token, now: Moment) -> Decision[Answer]:
        if change.run is not None:
            return self._run(change.name, change.run, token, now)
        if change.definition is None:
            known = change.name in self.definitions
            gone = (Removed(change.name), Forgotten(change.name)) if known else ()
            return Decision(gone, (Reply(token, Answer()),))
        definition = change.definition
        before = self.progress.get(change.name)
        due_ms = None if definition.is_paused else self._next_after(definition, now.wall_ms)
        progress = (before or ScheduleProgress(change.name, now.wall_ms, None, 0))._replace(next_due_ms=due_ms)
        return Decision((Defined(definition), progress), (Reply(token, Answer()),))

    def _run(self, name: str, run: str, token: Token, now: Moment) -> Decision[Answer]:
        definition, progress = self.definitions.get(name), self.progress.get(name)
        if definition is None or progress is None:
            return Decision((), (Reply(token, Answer(ErrorCode.INVALID_RECORD, f"there is no schedule {name}")),))
        if progress.last_run == run:
            return Decision((), (Reply(token, Answer()),))  # asked again, as the answer was lost
        fired = self._fired(definition, progress, now.wall_ms)
        if fired is None:
            return Decision((), (Reply(token, Answer(ErrorCode.INVALID_RECORD, f"there is no topic {definition.topic}")),))
        return Decision((fired._replace(last_run=run),), (Reply(token, Answer()),))

    # --- time -------------------------------------------------------------------------------------------------------------

    def on_loaded(self, now: Moment) -> Decision[None]:
        self._now = now
        return Decision()

    def next_deadline(self) -> float | None:
        known = [self.progress[name].next_due_ms for name in self.definitions if name in self.progress]
        due_ms = min((due for due in known if due is not None), default=None)
        if due_ms is None:
            return None
        return max(self._pause_until, self._now.monotonic + min((due_ms - self._now.wall_ms) / 1000, LOOK_AGAIN_S))

    def tick(self, now: Moment) -> Decision[None]:
        self._now = now
        for name, progress in self.progress.items():
            if progress.next_due_ms is not None and progress.next_due_ms <= now.wall_ms and name in self.definitions:
                self._pause_until = now.monotonic + TRY_AGAIN_S
                return Decision((self._fire(self.definitions[name], progress, now.wall_ms),))
        return Decision()

    def _fire(self, definition: Definition, progress: ScheduleProgress, now_ms: int) -> ScheduleProgress:
        due = self._due(definition, progress, now_ms)
        after = progress._replace(next_due_ms=self._next_after(definition, now_ms))
        for due_ms in due:
            after = self._fired(definition, after, due_ms) or after
        return after

    def _due(self, definition: Definition, progress: ScheduleProgress, now_ms: int) -> list[int]:
        """The due times up to now that are fired, by what the schedule says of those that were missed."""
        due: list[int] = []
        due_ms = self._first_looked_at(definition, progress.next_due_ms or now_ms, now_ms)
        while due_ms is not None and due_ms <= now_ms:
            due = [*due[-MADE_UP_FOR_MAX + 1 :], due_ms]
            due_ms = self._next_after(definition, due_ms)
        missed = [each for each in due if each < now_ms - LATE_MS]
        on_time = due[len(missed) :]
        match definition.missed:
            case "all":
                return due
            case "once":
                return on_time or missed[-1:]
            case "skip":
                return on_time

    def _first_looked_at(self, definition: Definition, due_ms: int, now_ms: int) -> int | None:
        """The first due time that may matter: after years without a broker, not all of them are gone through."""
        if due_ms >= now_ms - LATE_MS:
            return due_ms
        count = MADE_UP_FOR_MAX if definition.missed == "all" else LOOKED_AT_MAX
        earlier_ms = self._earlier(definition, now_ms, count)
        return due_ms if earlier_ms is None or earlier_ms <= due_ms else self._next_after(definition, earlier_ms - 1)

    def _fired(self, definition: Definition, progress: ScheduleProgress, due_ms: int) -> ScheduleProgress | None:
        """Its progress with one more on its way; None where there is nowhere to send it."""
        target = self._place(definition, progress.next_number)
        if target is None:
            return None
        firing = Firing(progress.next_number, due_ms, target)
        return progress._replace(next_number=progress.next_number + 1, underway=(*progress.underway, firing), last_due_ms=due_ms)

    def sent(self, name: str, firings: Collection[Firing]) -> Decision[None]:
        """Firings wait, committed, to be delivered: they are off our hands."""
        progress = self.progress.get(name)
        if progress is None:
            return Decision()
        return Decision((progress._replace(underway=tuple(each for each in progress.underway if each not in firings)),))
