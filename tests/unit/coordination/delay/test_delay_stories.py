"""Delayed records, in all orders of arrivals, cancellations, lost answers, crashes, late leaders and cleanings.

What must hold: nothing is delivered before its time; for one target what is due first comes first; nothing comes twice; and in
the end everything has come that was not cancelled while it waited.  The targets are real logs, which recognise what they have.
"""

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import NamedTuple
from uuid import UUID

import pytest

from headrace.broker.delaying.delivering import batch_of
from headrace.broker.delaying.entries import DelayEntryCodec, key_hash_of, read_payload, staged_payload
from headrace.broker.delaying.index import SqliteIndex, open_database
from headrace.coordination.decision import Decision
from headrace.coordination.delay import shard as rules
from headrace.coordination.delay.entries import Cancelled, Planned, Staged, Target
from headrace.coordination.delay.shard import DelayShard, Plan
from headrace.coordination.moment import Moment
from headrace.host.clock import SystemClock
from headrace.log.interface import Origin
from headrace.log.memory.memory_log import MemoryLog
from headrace.model.errors import RequestError
from headrace.model.topic_settings import LogConfig
from headrace.records.record import Record, read_records

TARGETS = [Target(UUID(int=number), number) for number in (1, 2)]
KEYS = [b"a", b"b", b"c"]
CODEC = DelayEntryCodec()
STEPS = 60


class Delivered(NamedTuple):
    """One record as its target has it."""

    number: int
    at_ms: int


class Delays:
    """One partition of what waits, with two targets."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.plan_max = self.random.randint(1, 5)
        self.now = Moment(1_000_000, 100.0)
        self.entries: list[tuple[int, bytes, bytes | None]] = []
        self.end = self.term = 0
        self.targets = {target: MemoryLog(LogConfig(), clock=SystemClock()) for target in TARGETS}
        self.due: dict[int, int] = {}
        self.staged_at: dict[int, int] = {}
        self.of_target: dict[int, Target] = {}
        self.of_key: dict[int, bytes] = {}
        self.planned_at: dict[int, int] = {}
        self.cancelled: set[int] = set()
        self.late: list[tuple[Target, bytes]] = []
        self.checked: dict[Target, int] = {}
        self.lead()

    def lead(self) -> None:
        self.term += 1
        self.shard = DelayShard(SqliteIndex(open_database(None)))
        for offset, key, value in self.entries:
            entry = CODEC.decode(key, value)
            assert entry is not None
            self.shard.replay(entry, offset, None)
        self.shard.term = self.term
        self.take(self.shard.on_loaded(self.now))

    def take(self, decision: Decision[None]) -> None:
        for entry in decision.entries:
            key, value = CODEC.encode(entry)
            assert CODEC.decode(key, value) == entry
            if isinstance(entry, Planned):
                self.note(entry)
            self.entries.append((self.end, key, value))
            self.shard.replay(entry, self.end, None)
            self.end += 1

    def note(self, planned: Planned) -> None:
        for payload in self.shard.index.payloads(planned.offsets):
            number = int(read_payload(payload).record.value or b"")
            self.planned_at.setdefault(number, self.end)
            assert self.due[number] <= self.now.wall_ms, "planned before its time"

    # --- what happens

    def stage(self, to: Target, key: bytes, in_ms: int) -> None:
        number, due = len(self.due), self.now.wall_ms + in_ms
        record = Record(0, self.now.wall_ms, key, str(number).encode(), ())
        self.due[number], self.of_target[number], self.of_key[number], self.staged_at[number] = due, to, key, self.end
        self.take(Decision((Staged(number, due, to, key_hash_of(key), staged_payload(to, 0, record)),)))

    def cancel(self, to: Target, key: bytes) -> None:
        for number in self.due:
            if self.of_target[number] == to and self.of_key[number] == key and number not in self.planned_at:
                self.cancelled.add(number)
        self.take(Decision((Cancelled(2**40 + self.end, to, key_hash_of(key)),)))

    def time_goes_by(self, milliseconds: int) -> None:
        self.now = Moment(self.now.wall_ms + milliseconds, self.now.monotonic + milliseconds / 1000)

    def tick(self, times: int) -> None:
        rules.PLAN_RECORDS_MAX = self.plan_max
        for _ in range(times):
            self.take(self.shard.tick(self.now))

    def deliver(self, answer: str) -> None:
        for plan in list(self.shard.plans(self.end)):
            batch = batch_of(self.shard, plan)
            if answer == "is late":
                self.late.append((plan.planned.target, batch))
                continue
            self.send(plan.planned.target, batch)
            if answer == "comes":
                self.take(self.shard.delivered(plan))

    def send(self, target: Target, batch: bytes) -> None:
        self.targets[target].append(batch, 0, origin=Origin.DELAYED)

    def what_was_late_arrives(self) -> None:
        late, self.late = self.late, []
        for target, batch in late:
            # Where others have gone on it is told so.
            with suppress(RequestError):
                self.send(target, batch)

    def another_leads(self) -> None:
        self.lead()

    def power_fails_within_the_last_write(self, torn: int) -> None:
        """Only what says that records are gone: the rest is acted upon once it is committed."""
        while torn and self.entries and self.entries[-1][2] is None:
            self.entries.pop()
            torn -= 1
        self.lead()

    def entries_are_cleaned(self) -> None:
        latest = {key: offset for offset, key, _ in self.entries}
        self.entries = [each for each in self.entries if latest[each[1]] == each[0]]
        gone = {each[1] for each in self.entries if each[2] is None}
        self.entries = [each for each in self.entries if each[1] not in gone]

    # --- what must hold

    def delivered(self, target: Target) -> list[Delivered]:
        log = self.targets[target]
        found = []
        offset = 0
        while offset < log.end_offset:
            data = log.read(offset, max_bytes=1, up_to=log.end_offset, at_least_one=True).data
            records = read_records(bytes(data))
            found += [Delivered(int(record.value or b""), record.timestamp) for record in records]
            offset = records[-1].offset + 1
        return found

    def check(self) -> None:
        for target, log in self.targets.items():
            if self.checked.get(target) == log.end_offset:
                continue
            self.checked[target] = log.end_offset
            came = self.delivered(target)
            numbers = [each.number for each in came]
            assert len(set(numbers)) == len(numbers), "delivered twice"
            for each in came:
                assert self.due[each.number] <= each.at_ms <= self.now.wall_ms, "delivered early"
                assert each.number not in self.cancelled, "delivered though it was cancelled"
            for earlier, later in pairwise(numbers):
                in_order = (self.due[earlier], earlier) < (self.due[later], later)
                assert in_order or self.staged_at[later] > self.planned_at[earlier], "out of order"

    def run(self) -> None:
        """A story that the seed tells, and its end, where all has come."""
        for _ in range(STEPS):
            self.random.choice(self.happenings())()
            self.check()
        self.finish()

    def happenings(self) -> list[Callable[[], None]]:
        choice, to, key = self.random.choice, self.random.choice(TARGETS), self.random.choice(KEYS)
        stage = lambda: self.stage(to, key, choice((0, 5, 20, 50)))  # noqa: E731
        tick = lambda: self.tick(choice((1, 3)))  # noqa: E731
        deliver = lambda: self.deliver(choice(("comes", "comes", "is lost", "is late")))  # noqa: E731
        return [
            *(stage, stage, stage, tick, tick, deliver, deliver),
            lambda: self.time_goes_by(choice((1, 10, 100))),
            lambda: self.cancel(to, key),
            self.what_was_late_arrives,
            self.another_leads,
            lambda: self.power_fails_within_the_last_write(choice((1, 2))),
            self.entries_are_cleaned,
        ]

    def finish(self) -> None:
        self.time_goes_by(1000)
        for _ in range(100):
            self.tick(1)
            self.deliver("comes")
        self.check()
        for target in TARGETS:
            missing = {number for number in self.due if self.of_target[number] == target} - self.cancelled
            assert {each.number for each in self.delivered(target)} == missing, "not all has come"
        assert self.shard.count() == 0
        assert self.shard.next_deadline() is None


@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_every_story_ends_well(seed: int) -> None:
    for each in range(seed, seed + 20):
        Delays(each).run()


def test_a_plan_is_sent_as_the_same_producer_again_and_as_another_by_the_next_leader() -> None:
    first = Plan(Planned(TARGETS[0], 5 << rules.RESTARTS_BITS, 0, 0, (0,)), 0)
    again = Plan(Planned(TARGETS[0], 5 << rules.RESTARTS_BITS, 0, 0, (0,)), 0)
    by_another = Plan(Planned(TARGETS[0], 300 << rules.RESTARTS_BITS, 0, 0, (0,)), 0)

    assert first.written_as == again.written_as
    assert first.written_as.producer.producer_id >= rules.PRODUCER_ID_FROM
    assert by_another.written_as.producer.producer_id > first.written_as.producer.producer_id
