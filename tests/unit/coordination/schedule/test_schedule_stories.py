"""When schedules fire: once for each due time, whatever happens to whoever sees to them."""

from random import Random
from uuid import UUID

import pytest

from headrace.broker.scheduling.coordinator import staged_batch
from headrace.broker.scheduling.entries import ScheduleEntryCodec
from headrace.coordination.decision import Decision
from headrace.coordination.delay.entries import Target
from headrace.coordination.moment import Moment
from headrace.coordination.schedule.entries import Definition, Firing, Missed, ScheduleProgress
from headrace.coordination.schedule.shard import Answer, Change, ScheduleShard
from headrace.host.clock import SystemClock
from headrace.log.interface import Origin
from headrace.log.memory.memory_log import MemoryLog
from headrace.log.producers.producer_state import BATCHES_KEPT
from headrace.model.errors import ErrorCode
from headrace.model.topic_settings import LogConfig

MINUTE, HOUR = 60_000, 3_600_000
BEGIN = 1000 * HOUR
CODEC = ScheduleEntryCodec()


def next_hour(definition: Definition, after_ms: int) -> int:
    """Every hour, on the hour, whatever the expression says."""
    return (after_ms // HOUR + 1) * HOUR


def some_hours_before(definition: Definition, until_ms: int, count: int) -> int:
    return until_ms // HOUR * HOUR - count * HOUR


def place(definition: Definition, number: int) -> Target | None:
    return None if definition.topic == "gone" else Target(UUID(int=7), number % 2)


class Desk:
    """A shard with its log, and what it sends to."""

    def __init__(self) -> None:
        self.entries: list[tuple[bytes, bytes | None]] = []
        self.now_ms = BEGIN + 5 * MINUTE
        self.waiting = MemoryLog(LogConfig(), clock=SystemClock())
        self.fired: list[int] = []
        self.lead()

    @property
    def now(self) -> Moment:
        return Moment(self.now_ms, self.now_ms / 1000)

    def lead(self) -> None:
        self.shard = ScheduleShard(next_hour, some_hours_before, place)
        for key, value in self.entries:
            entry = CODEC.decode(key, value)
            assert entry is not None
            self.shard.replay(entry, 0, None)
        self.take(self.shard.on_loaded(self.now))

    def take(self, decision: Decision[None] | Decision[Answer]) -> Answer | None:
        for entry in decision.entries:
            key, value = CODEC.encode(entry)
            assert CODEC.decode(key, value) == entry
            self.entries.append((key, value))
            self.shard.replay(entry, 0, None)
        return decision.replies[0].message if decision.replies else None

    def define(self, missed: Missed = "all", name: str = "s", **parts: object) -> None:
        definition = Definition(name, "0 * * * *", "UTC", "jobs", missed=missed)._replace(**parts)  # type: ignore[arg-type]
        assert self.take(self.shard.change(Change(name, definition), "token", self.now)) == Answer()

    def tick(self) -> None:
        while (deadline := self.shard.next_deadline()) is not None and deadline <= self.now.monotonic:
            self.take(self.shard.tick(self.now))

    def send(self, *, answer_is_lost: bool = False) -> None:
        for definition, progress in list(self.shard.underway()):
            firings = progress.underway[:BATCHES_KEPT]
            for firing in firings:
                appended = self.waiting.append(staged_batch(definition, progress, firing), 0, origin=Origin.WAITING)
                if not appended.duplicate:
                    self.fired.append(firing.due_ms)
            if not answer_is_lost:
                self.take(self.shard.sent(definition.name, firings))

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.tick()

    def finish(self) -> None:
        for _ in range(500):
            self.send()


def hours(*numbers: int) -> list[int]:
    return [BEGIN + number * HOUR for number in numbers]


def test_it_fires_at_its_times() -> None:
    desk = Desk()
    desk.define()
    for _ in range(6):
        desk.pass_time(30 * MINUTE)
        desk.finish()

    assert desk.fired == hours(1, 2, 3)


@pytest.mark.parametrize(("missed", "made_up_for"), [("all", hours(1, 2, 3)), ("once", hours(3)), ("skip", [])])
def test_what_was_missed_is_made_up_for_as_it_says(missed: Missed, made_up_for: list[int]) -> None:
    desk = Desk()
    desk.define(missed)
    desk.now_ms = BEGIN + 3 * HOUR + 30 * MINUTE
    desk.lead()
    desk.tick()
    desk.finish()

    assert desk.fired == made_up_for
    desk.pass_time(30 * MINUTE)
    desk.finish()
    assert desk.fired == [*made_up_for, *hours(4)]


def test_of_years_that_were_missed_the_latest_are_made_up_for() -> None:
    desk = Desk()
    desk.define("all")
    desk.pass_time(5000 * HOUR)
    desk.now_ms += 1
    for _ in range(1200):
        desk.send()

    assert desk.fired == hours(*range(4001, 5001))


def test_a_little_late_is_not_missed() -> None:
    desk = Desk()
    desk.define("skip")
    desk.pass_time(55 * MINUTE + 30_000)
    desk.finish()

    assert desk.fired == hours(1)


def test_one_that_is_paused_rests_and_makes_nothing_up() -> None:
    desk = Desk()
    desk.define()
    desk.define(is_paused=True)
    desk.pass_time(5 * HOUR)
    assert desk.shard.next_deadline() is None
    desk.define()
    desk.pass_time(HOUR)
    desk.finish()

    assert desk.fired == hours(6)


def test_it_runs_when_asked_once_for_each_time_that_it_is_asked() -> None:
    desk = Desk()
    desk.define()
    for run in ("first", "first", "second"):
        desk.take(desk.shard.change(Change("s", run=run), "token", desk.now))
    desk.finish()

    assert desk.fired == [desk.now_ms, desk.now_ms]


def test_what_cannot_be_run_is_told_why() -> None:
    desk = Desk()
    desk.define(topic="gone")

    unknown = desk.take(desk.shard.change(Change("t", run="x"), "token", desk.now))
    without_topic = desk.take(desk.shard.change(Change("s", run="x"), "token", desk.now))
    assert unknown == Answer(ErrorCode.INVALID_RECORD, "there is no schedule t")
    assert without_topic == Answer(ErrorCode.INVALID_RECORD, "there is no topic gone")


def test_one_that_is_removed_is_gone_and_made_again_it_is_another() -> None:
    desk = Desk()
    desk.define()
    desk.pass_time(HOUR)
    desk.finish()
    desk.take(desk.shard.change(Change("s"), "token", desk.now))
    desk.lead()
    assert desk.shard.next_deadline() is None
    desk.define()
    desk.pass_time(HOUR)
    desk.finish()

    assert desk.fired == hours(1, 2), "its numbers begin again, and are not taken for those of the one before"


def story(seed: int) -> None:
    random, desk = Random(seed), Desk()
    desk.define("all")
    for _ in range(40):
        match random.choice(("time", "time", "send", "send", "lost", "crash", "clean")):
            case "time":
                desk.pass_time(random.choice((MINUTE, 20 * MINUTE, 3 * HOUR)))
            case "send":
                desk.send()
            case "lost":
                desk.send(answer_is_lost=True)
            case "crash":
                desk.lead()
                desk.tick()
            case "clean":
                latest = dict(desk.entries)
                desk.entries = list(latest.items())
    desk.finish()
    assert desk.fired == hours(*range(1, (desk.now_ms - BEGIN) // HOUR + 1))


def test_every_due_time_is_fired_once_and_in_order_in_every_story() -> None:
    for seed in range(100):
        story(seed)


def test_stories_find_a_leader_that_gives_numbers_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def anew(self: ScheduleShard, name: str, firings: tuple[Firing, ...]) -> Decision[None]:
        progress: ScheduleProgress = self.progress[name]
        return Decision((progress._replace(underway=progress.underway[len(firings) :], next_number=0),))

    monkeypatch.setattr(ScheduleShard, "sent", anew)

    with pytest.raises(AssertionError):
        test_every_due_time_is_fired_once_and_in_order_in_every_story()


def test_stories_find_firings_that_are_forgotten_when_somebody_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: ScheduleShard, now: Moment) -> Decision[None]:
        self._now = now
        self.progress = {name: progress._replace(underway=()) for name, progress in self.progress.items()}
        return Decision()

    monkeypatch.setattr(ScheduleShard, "on_loaded", forgetful)

    with pytest.raises(AssertionError):
        test_every_due_time_is_fired_once_and_in_order_in_every_story()
