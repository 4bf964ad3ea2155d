"""Decides which records that wait are delivered next, and keeps the books of it.

What always holds:

- nothing is planned before its time, and for one target always what is due first;
- one plan per target at a time, and the next one only when all of it is known to be delivered, so that order holds;
- a plan is committed before anything of it is sent, and says as whom it is sent.  Whoever has to send it again sends the same
  bytes under the same producer, epoch and sequence: the target's log recognises what it has.  The generation that these come
  from holds the leader epoch, so that no two leaders of one partition ever mean different records by the same sequence;
- an entry that says that a record is gone is written only after the target has committed it, so a plan of which anything is
  gone was delivered as a whole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import NamedTuple

from headrace.coordination.decision import Decision
from headrace.coordination.delay.entries import Cancelled, Entry, Gone, Planned, Staged, Target
from headrace.coordination.delay.index import DueIndex, Waiting
from headrace.coordination.moment import Moment
from headrace.declaring import dataclass
from headrace.model.identity import ProducerIdentity

# What goes with one plan.
PLAN_RECORDS_MAX = 500
PLAN_BYTES_MAX = 512 * 1024
# Entries that are written at once when much is to be forgotten.
GONE_AT_ONCE_MAX = 1000
# Before a clock is looked at again: it may have been set ahead meanwhile.
LOOK_AGAIN_S = 30.0
# Before something is decided again that could not be written.
TRY_AGAIN_S = 0.5
# So many times may a target start over within one term of a leader.
RESTARTS_BITS = 8
SEQUENCE_COUNT = 2**31
# Producers of deliveries have ids that no client is given.
PRODUCER_ID_FROM = 2**62
EPOCH_BITS = 15
FOR_EVER_MS = 2**62


class DeliveredAs(NamedTuple):
    """As whom a plan is written to its target."""

    producer: ProducerIdentity
    base_sequence: int


@dataclass(slots=True)
class Plan:
    """What is on its way to a target."""

    planned: Planned
    log_offset: int
    left: set[int] = field(default_factory=set)
    is_delivered: bool = False

    @property
    def written_as(self) -> DeliveredAs:
        generation = self.planned.generation
        producer = ProducerIdentity(PRODUCER_ID_FROM + (generation >> EPOCH_BITS), generation & ((1 << EPOCH_BITS) - 1))
        return DeliveredAs(producer, self.planned.base_sequence)


@dataclass(slots=True)
class _TargetState:
    count: int = 0
    first_due_ms: int | None = None
    # Whether that has to be looked up, as what was first is gone.
    is_stale: bool = False
    plan: Plan | None = None
    generation: int = -1
    next_sequence: int = 0
    is_dropped: bool = False


class DelayShard:
    """All that waits under one partition of the internal topic."""

    def __init__(self, index: DueIndex) -> None:
        self.index = index
        # The leader epoch under which this shard decides.
        self.term = -1
        self._targets: dict[Target, _TargetState] = {}
        # Entries whose uids are to be taken off the books.
        self._to_forget: dict[int, Gone] = {}
        self._now = Moment(0, 0.0)
        # Not before then, as what was decided last has not come back: it could not be written.
        self._pause_until = 0.0

    # --- what is known ----------------------------------------------------------------------------------------------------

    def count(self) -> int:
        """How many wait."""
        return sum(state.count for state in self._targets.values())

    def counts(self) -> dict[Target, int]:
        return {target: state.count for target, state in self._targets.items() if state.count}

    def oldest_due_ms(self) -> int | None:
        """When the first of all that waits is, or was, due."""
        return min((due for target in self._targets if (due := self._first_due(target)) is not None), default=None)

    def plans(self, below: int) -> Iterator[Plan]:
        """Plans that are committed, where the log is committed below an offset, and not known to be delivered."""
        for state in self._targets.values():
            plan = state.plan
            if plan is not None and plan.log_offset < below and not plan.is_delivered:
                yield plan

    def is_current(self, plan: Plan) -> bool:
        state = self._targets.get(plan.planned.target)
        return state is not None and state.plan is plan

    # --- replay -----------------------------------------------------------------------------------------------------------

    def replay(self, entry: Entry, offset: int, producer: ProducerIdentity | None) -> None:
        self._pause_until = 0.0
        match entry:
            case Staged():
                self._replay_staged(entry, offset)
            case Cancelled():
                self._replay_cancelled(entry)
            case Planned():
                self._replay_planned(entry, offset)
            case Gone():
                self._replay_gone(entry.uid)

    def replay_marker(self, producer: ProducerIdentity, committed: bool) -> None:
        """There are no transactions here."""

    def _replay_staged(self, staged: Staged, offset: int) -> None:
        self.index.add(staged, offset)
        state = self._targets.setdefault(staged.target, _TargetState())
        state.count += 1
        if state.first_due_ms is None or staged.due_ms < state.first_due_ms:
            state.first_due_ms = staged.due_ms

    def _replay_cancelled(self, cancelled: Cancelled) -> None:
        state = self._targets.get(cancelled.target)
        underway = state.plan.left if state is not None and state.plan is not None else ()
        for waiting in self.index.with_key(cancelled.target, cancelled.key_hash):
            if waiting.offset not in underway:
                self._replay_gone(waiting.uid)
                self._to_forget[waiting.uid] = Gone(waiting.uid, waiting.due_ms)
        self._to_forget[cancelled.uid] = Gone(cancelled.uid, 0, was_cancellation=True)

    def _replay_planned(self, planned: Planned, offset: int) -> None:
        state = self._targets.setdefault(planned.target, _TargetState())
        left = {waiting.offset for waiting in self.index.at(planned.offsets)}
        # What was cleaned away of it was delivered, and so was all of it.
        delivered = len(left) < len(planned.offsets)
        state.plan = Plan(planned, offset, left, is_delivered=delivered) if left else None
        state.generation = planned.generation
        state.next_sequence = (planned.base_sequence + len(planned.offsets)) % SEQUENCE_COUNT

    def _replay_gone(self, uid: int) -> None:
        self._to_forget.pop(uid, None)
        removed = self.index.remove(uid)
        if removed is None:
            return
        target, offset = removed
        state = self._targets[target]
        state.count -= 1
        state.is_stale = True
        if state.plan is not None and offset in state.plan.left:
            state.plan.is_delivered = True
            state.plan.left.discard(offset)
            if not state.plan.left:
                state.plan = None

    # --- decisions --------------------------------------------------------------------------------------------------------

    def on_loaded(self, now: Moment) -> Decision[None]:
        self._now = now
        return Decision()

    def next_deadline(self) -> float | None:
        deadline = self._deadline()
        return None if deadline is None else max(deadline, self._pause_until)

    def tick(self, now: Moment) -> Decision[None]:
        self._now = now
        decision = self._decide(now)
        if decision.entries:
            self._pause_until = now.monotonic + TRY_AGAIN_S
        return decision

    def _deadline(self) -> float | None:
        if self._to_forget or any(state.plan is not None and state.plan.is_delivered for state in self._targets.values()):
            return self._now.monotonic
        first = self._first_ready()
        if first is None:
            return None
        due_ms = self._first_due(first)
        assert due_ms is not None, "a target that is ready has something that waits"
        if self._targets[first].is_dropped:
            return self._now.monotonic
        return self._now.monotonic + min((due_ms - self._now.wall_ms) / 1000, LOOK_AGAIN_S)

    def _decide(self, now: Moment) -> Decision[None]:
        if self._to_forget:
            return Decision(tuple(list(self._to_forget.values())[:GONE_AT_ONCE_MAX]))
        for state in self._targets.values():
            if state.plan is not None and state.plan.is_delivered:
                return self._forget(self.index.at(tuple(state.plan.left)))
        target = self._first_ready()
        if target is None:
            return Decision()
        if self._targets[target].is_dropped:
            return self._forget(self.index.first(target, FOR_EVER_MS, GONE_AT_ONCE_MAX))
        due_ms = self._first_due(target)
        if due_ms is None or due_ms > now.wall_ms:
            return Decision()
        return Decision((self._plan(target, self._targets[target], now),))

    def delivered(self, plan: Plan) -> Decision[None]:
        """The target has committed all of a plan."""
        plan.is_delivered = True
        return self._forget(self.index.at(plan.planned.offsets))

    def start_over(self, plan: Plan) -> Decision[None]:
        """The target has lost what was delivered before: what is on its way goes there as from somebody new."""
        state = self._targets[plan.planned.target]
        return Decision((plan.planned._replace(generation=self._generation_after(state.generation), base_sequence=0),))

    def drop(self, target: Target) -> Decision[None]:
        """The target is no more: what waits for it is forgotten, some of it now and the rest in turns."""
        state = self._targets[target]
        state.is_dropped, state.plan = True, None
        return self._forget(self.index.first(target, FOR_EVER_MS, GONE_AT_ONCE_MAX))

    def _plan(self, target: Target, state: _TargetState, now: Moment) -> Planned:
        rows = _within(PLAN_BYTES_MAX, self.index.first(target, now.wall_ms, PLAN_RECORDS_MAX))
        generation, sequence = state.generation, state.next_sequence
        if generation < self.term << RESTARTS_BITS:
            generation, sequence = self.term << RESTARTS_BITS, 0
        return Planned(target, generation, sequence, now.wall_ms, tuple(row.offset for row in rows))

    def _generation_after(self, generation: int) -> int:
        return max(generation + 1, self.term << RESTARTS_BITS)

    def _forget(self, waiting: Sequence[Waiting]) -> Decision[None]:
        return Decision(tuple(Gone(each.uid, each.due_ms) for each in waiting))

    def _first_ready(self) -> Target | None:
        """Of the targets to which nothing is on its way, the one for which something is due first."""
        ready: Target | None = None
        ready_due_ms = 0
        for target, state in self._targets.items():
            if state.plan is not None or not state.count:
                continue
            due_ms = self._first_due(target)
            if due_ms is not None and (ready is None or due_ms < ready_due_ms):
                ready, ready_due_ms = target, due_ms
        return ready

    def _first_due(self, target: Target) -> int | None:
        state = self._targets[target]
        if state.is_stale:
            state.first_due_ms, state.is_stale = self.index.first_due(target), False
        return state.first_due_ms


def _within(size_max: int, rows: list[Waiting]) -> list[Waiting]:
    """The first of them that have so many bytes together; one at least."""
    size = 0
    for position, row in enumerate(rows):
        size += row.size
        if position and size > size_max:
            return rows[:position]
    return rows
