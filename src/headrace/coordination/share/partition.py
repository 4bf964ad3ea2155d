"""One partition as a share group works on it: which records are free, whose they are and until when, which are done (KIP-932).

Lives with the partition's leader.  Nothing here is kept by itself: an acknowledgement is a change that takes effect only once the
share coordinator has written it (`settle`), and until then nobody else gets the records; when it could not be written, they are
the member's as before.  A lock that runs out, and a member that goes, give records back at once: to lose that word costs nothing
but a delivery that is not counted.

What always holds: a record has one holder at most; a record that is done is never delivered again; every record that is not done
is either free or has a deadline.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from headrace.coordination.share.delivery import AcknowledgeType, AcquireMode, RecordState, StateBatch, coalesced
from headrace.coordination.share.runs import Run, Runs, RunState
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode, RequestError

# How many times the limit of unfinished records may lie between the first that is not done and the last that was delivered.
# One record that nobody gets done shall not stop all others soon; nor shall what is kept of them grow for ever.
WINDOW_FACTOR = 16
# However often a record was delivered in vain, it comes again after so long.
BACKOFF_MS_MAX = 3_600_000
DOUBLINGS_MAX = 30

IsOver = Callable[[Run], bool]

_OUTCOMES = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLimits:
    """What a group's settings say of its partitions."""

    lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    max_record_locks: int = 2_000
    renewal_enabled: bool = True
    # How long a record rests after its first delivery in vain; twice as long after each further one.
    backoff_ms: int = 0


class LogBatch(NamedTuple):
    """A batch as it lies in the log; one without data (a marker, or of a transaction that was aborted) is delivered to nobody."""

    first: int
    end: int
    has_data: bool = True


class Acquired(NamedTuple):
    """Records that are now the member's, and how often they have been delivered."""

    first: int
    end: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """What a member says of a range of records: one word for all, or one for each."""

    first: int
    end: int
    types: tuple[AcknowledgeType, ...]


class Wish(NamedTuple):
    """How much a member wants."""

    member_id: str
    max_records: int
    batch_size: int
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED


class GivenUp(NamedTuple):
    """Records that nobody gets any more, and when they were first delivered, as far as that is known."""

    first: int
    end: int
    first_at: float


class Change(NamedTuple):
    """Word for the share coordinator.  Number 0 is of what has taken effect already, and needs not be settled."""

    number: int
    start: int
    batches: tuple[StateBatch, ...]
    done: int
    given_up: tuple[GivenUp, ...] = ()


class SharePartition:
    """The records of one partition for one group."""

    def __init__(
        self,
        start: int,
        batches: Iterable[StateBatch] = (),
        limits: ShareLimits | None = None,
        jitter: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """As the share coordinator has it: what no batch tells of was never delivered, as far as anybody knows.

        What rests is stretched by `jitter`, so that what failed together does not come together again."""
        self.limits = limits or ShareLimits()
        self._jitter = jitter
        # When records that rest may be delivered again, the soonest first.
        self._rests: list[float] = []
        self._runs = Runs(start)
        self._changes = 0
        # Deadline and range of locks, the soonest first; some of the records may be somebody else's, or done, by then.
        self._locks: list[tuple[float, int, int]] = []
        for batch in batches:
            if batch.end <= self._runs.end:
                continue
            self._runs.extend(batch.first, RunState.AVAILABLE)
            is_free = batch.state in (RecordState.AVAILABLE, RecordState.ACQUIRED)
            self._runs.extend(batch.end, RunState.AVAILABLE if is_free else RunState.DONE, batch.delivery_count)
        self._runs.tidy()

    @property
    def start(self) -> int:
        """All records below are done."""
        return self._runs.start

    @property
    def end(self) -> int:
        """No record from here on was ever delivered."""
        return self._runs.end

    @property
    def done(self) -> int:
        return self._runs.done

    @property
    def acquired(self) -> int:
        return self._runs.acquired

    def resting(self, now: float) -> int:
        """Records that are free, and that nobody gets yet."""
        return sum(run.size for run in self._runs if run.state is RunState.AVAILABLE and run.not_before > now)

    # --- acquiring --------------------------------------------------------------------------------------------------------

    def next_fetch_offset(self, now: float = inf) -> int:
        """Where to read for what may be acquired next."""
        return self._runs.first_available(now)

    def can_acquire(self, now: float = inf) -> bool:
        """Whether there may be anything to acquire, if the log has it."""
        return self._runs.first_available(now) < self._runs.end or self._room() > 0

    def _room(self) -> int:
        limit = self.limits.max_record_locks
        return max(0, min(limit - self._runs.unfinished, WINDOW_FACTOR * limit - (self.end - self.start)))

    def acquire(self, wish: Wish, batches: Sequence[LogBatch], now: float) -> tuple[Acquired, ...]:
        """Give the member what is free of what was read from `next_fetch_offset` on, as of the same time.  What the log lacks is
        done."""
        position = self.next_fetch_offset(now)
        deadline = now + self.limits.lock_duration_ms / 1000
        left = wish.max_records
        taken: list[Acquired] = []
        for batch in batches:
            if batch.end <= position:
                continue
            if left <= 0:
                break
            self._skip(position, batch.first)
            first = max(batch.first, position)
            if not batch.has_data:
                self._skip(first, batch.end)
                position = batch.end
                continue
            end = self._reach(first, batch.end, left, wish.mode)
            got = self._take(first, end, left if wish.mode is AcquireMode.RECORD_LIMIT else None, wish.member_id, now)
            left -= sum(each.end - each.first for each in got)
            taken += got
            position = end
            if end < batch.end:
                break
        self._runs.tidy()
        for each in taken:
            heappush(self._locks, (deadline, each.first, each.end))
        return tuple(_in_batches(taken, wish.batch_size))

    def _skip(self, first: int, end: int) -> None:
        """There is nothing to deliver here."""
        self._runs.extend(end, RunState.AVAILABLE)
        for run in self._runs.cut_out(first, end):
            if run.state is RunState.AVAILABLE:
                self._runs.turn(run, RunState.DONE)

    def _reach(self, first: int, end: int, left: int, mode: AcquireMode) -> int:
        """How far into a batch the limits allow to go; what is new to the group is added to what is under way."""
        known = self._runs.end
        if end <= known:
            return end
        room = self._room()
        if mode is AcquireMode.RECORD_LIMIT:
            end = min(end, max(first, known) + min(left, room))
        elif not room:
            end = known
        self._runs.extend(end, RunState.AVAILABLE)
        return max(end, first)

    def _take(self, first: int, end: int, limit: int | None, member_id: str, now: float) -> list[Acquired]:
        taken = []
        deadline = now + self.limits.lock_duration_ms / 1000
        free = [
            (run.first, run.end)
            for run in self._runs.overlapping(first, end)
            if run.state is RunState.AVAILABLE and run.not_before <= now
        ]
        for begin, stop in free:
            if limit is not None:
                stop = min(stop, max(begin, first) + limit)
                limit -= max(0, min(stop, end) - max(begin, first))
            for run in self._runs.cut_out(max(begin, first), min(stop, end)):
                self._runs.turn(run, RunState.ACQUIRED)
                run.delivery_count += 1
                if run.delivery_count == 1:
                    run.first_at = now
                run.member_id, run.deadline, run.change = member_id, deadline, 0
                taken.append(Acquired(run.first, run.end, run.delivery_count))
        return taken

    # --- acknowledging ----------------------------------------------------------------------------------------------------

    def acknowledge(self, member_id: str, acknowledgements: Iterable[Acknowledgement], now: float) -> Change | None:
        """What is to be written before the member is told; None when there is nothing.  When it raises, all is as before.

        Word of records that were deleted, or moved past, since the member got them is taken for granted."""
        words = [word for each in acknowledgements for word in self._words(each)]
        for first, end, kind in words:
            self._check(member_id, first, end, kind)
        self._changes += 1
        batches: list[StateBatch] = []
        given_up: list[GivenUp] = []
        for first, end, kind in words:
            for run in self._runs.cut_out(first, end):
                if kind is AcknowledgeType.RENEW:
                    self._lock(run, now)
                    continue
                run.change = self._changes
                outcome = self._outcome(run, kind)
                batches.append(StateBatch(run.first, run.end, outcome, run.delivery_count))
                if outcome is RecordState.ARCHIVED:
                    given_up.append(GivenUp(run.first, run.end, run.first_at))
        return self._change(self._changes, batches, given_up) if batches else None

    def _words(self, said: Acknowledgement) -> Iterator[tuple[int, int, AcknowledgeType]]:
        """Ranges of which one thing is said, without what lies before the start."""
        if said.end > self.end:
            raise RequestError(ErrorCode.INVALID_REQUEST, "The acknowledged records were never delivered.")
        if len(said.types) == 1:
            first = max(said.first, self.start)
            if first < said.end:
                yield first, said.end, said.types[0]
            return
        begun = max(said.first, self.start)
        for offset in range(begun + 1, said.end + 1):
            kind = said.types[begun - said.first]
            if offset == said.end or said.types[offset - said.first] is not kind:
                yield begun, offset, kind
                begun = offset

    def _check(self, member_id: str, first: int, end: int, kind: AcknowledgeType) -> None:
        if kind is AcknowledgeType.RENEW and not self.limits.renewal_enabled:
            raise RequestError(ErrorCode.INVALID_RECORD_STATE, "This group does not renew acquisition locks.")
        for run in self._runs.overlapping(first, end):
            if run.state is not RunState.ACQUIRED or run.member_id != member_id:
                raise RequestError(
                    ErrorCode.INVALID_RECORD_STATE, "The acknowledged records are not, or no longer, acquired by this member."
                )
            if run.change:
                raise RequestError(ErrorCode.INVALID_RECORD_STATE, "The records have been acknowledged before.")

    def _outcome(self, run: Run, kind: AcknowledgeType) -> RecordState:
        outcome = _OUTCOMES[kind]
        is_last = run.delivery_count >= self.limits.delivery_count_limit
        return RecordState.ARCHIVED if outcome is RecordState.AVAILABLE and is_last else outcome

    def settle(self, change: Change, *, written: bool, now: float = 0.0) -> None:
        """The change was written, or it was not and the records are the member's as before."""
        for batch in change.batches:
            for run in self._runs.cut_out(batch.first, batch.end):
                if run.change != change.number or run.state is not RunState.ACQUIRED:
                    continue
                run.change = 0
                if not written:
                    heappush(self._locks, (run.deadline, run.first, run.end))
                elif batch.state is RecordState.AVAILABLE:
                    self._free(run)
                    self._let_rest(run, now)
                else:
                    self._runs.turn(run, RunState.DONE)
        self._runs.tidy()

    # --- giving back ------------------------------------------------------------------------------------------------------

    def release(self, member_id: str, *, was_lost: bool) -> Change | None:
        """The member has gone: what it had is free at once.

        Who says goodbye has not begun with it: its delivery does not count (as in Kafka).  That of a member that was lost does,
        and may be the last: a record that kills whoever works on it is given up some time.  (Kafka delivers it for ever.)"""
        mine = [run for run in self._runs if run.member_id == member_id]
        if not was_lost:
            for run in mine:
                if run.state is RunState.ACQUIRED and not run.change:
                    run.delivery_count -= 1
        ranges = [(run.first, run.end) for run in mine]
        return self._give_back(ranges, lambda run: run.member_id == member_id, None)

    def expire(self, now: float) -> Change | None:
        """Locks that have run out are no more, and what has rested long enough may be delivered."""
        while self._rests and self._rests[0] <= now:
            heappop(self._rests)
        due: list[tuple[int, int]] = []
        while self._locks and self._locks[0][0] <= now:
            due.append(heappop(self._locks)[1:])
        return self._give_back(due, lambda run: run.deadline <= now, now)

    def next_due(self) -> float | None:
        """When records that rest may be delivered again, and who waits is to look; until `expire` is called then."""
        return self._rests[0] if self._rests else None

    def next_deadline(self) -> float | None:
        """When `expire` may have something to do."""
        while self._locks and not self._is_locked(*self._locks[0]):
            heappop(self._locks)
        if len(self._locks) > 64 + 4 * len(self._runs):
            self._locks = [lock for lock in set(self._locks) if self._is_locked(*lock)]
            heapify(self._locks)
        return self._locks[0][0] if self._locks else None

    def _is_locked(self, deadline: float, first: int, end: int) -> bool:
        return any(
            run.state is RunState.ACQUIRED and run.deadline == deadline and not run.change
            for run in self._runs.overlapping(first, end)
        )

    def _lock(self, run: Run, now: float) -> None:
        run.deadline = now + self.limits.lock_duration_ms / 1000
        heappush(self._locks, (run.deadline, run.first, run.end))

    def _give_back(self, ranges: Iterable[tuple[int, int]], is_over: IsOver, now: float | None) -> Change | None:
        """With a time, what is free rests from then on."""
        batches: list[StateBatch] = []
        given_up: list[GivenUp] = []
        for first, end in ranges:
            for run in self._runs.cut_out(first, end):
                # Of what is being written the outcome is not known yet.
                if run.state is not RunState.ACQUIRED or run.change or not is_over(run):
                    continue
                outcome = self._outcome(run, AcknowledgeType.RELEASE)
                batches.append(StateBatch(run.first, run.end, outcome, run.delivery_count))
                if outcome is RecordState.AVAILABLE:
                    self._free(run)
                    if now is not None:
                        self._let_rest(run, now)
                else:
                    given_up.append(GivenUp(run.first, run.end, run.first_at))
                    self._runs.turn(run, RunState.DONE)
        self._runs.tidy()
        return self._change(0, batches, given_up) if batches else None

    def _free(self, run: Run) -> None:
        self._runs.turn(run, RunState.AVAILABLE)
        run.member_id, run.deadline, run.not_before = "", 0.0, 0.0

    def _let_rest(self, run: Run, now: float) -> None:
        if self.limits.backoff_ms:
            doubled = self.limits.backoff_ms * 2 ** min(run.delivery_count - 1, DOUBLINGS_MAX)
            run.not_before = now + min(doubled, BACKOFF_MS_MAX) * self._jitter() / 1000
            heappush(self._rests, run.not_before)

    def _change(self, number: int, batches: Iterable[StateBatch], given_up: Iterable[GivenUp]) -> Change:
        told = tuple(coalesced(sorted(batches)))
        return self._described(number, told, told if number else (), tuple(given_up))

    def joined(self, changes: Sequence[Change]) -> Change:
        """Changes that are written at once, as one: together they may move the start farther than each by itself."""
        told = tuple(batch for change in changes for batch in change.batches)
        pending = sorted(batch for change in changes if change.number for batch in change.batches)
        given_up = tuple(each for change in changes for each in change.given_up)
        return self._described(changes[-1].number, told, pending, given_up)

    def _described(
        self, number: int, told: tuple[StateBatch, ...], pending: Iterable[StateBatch], given_up: tuple[GivenUp, ...]
    ) -> Change:
        coming = [batch for batch in pending if batch.state is not RecordState.AVAILABLE]
        start = self._start_after(coming)
        done = self.done + sum(max(0, batch.end - max(batch.first, self.start)) for batch in coming)
        return Change(number, start, told, done - (start - self.start), given_up)

    def _start_after(self, coming: Iterable[StateBatch]) -> int:
        """Where the start will be once these are done, too."""
        start = self.start
        for batch in coming:
            if batch.first > start:
                break
            start = max(start, batch.end)
            for run in self._runs.overlapping(start, self.end):
                if run.state is not RunState.DONE:
                    break
                start = run.end
        return start

    # --- the log ----------------------------------------------------------------------------------------------------------

    def on_log_start(self, offset: int) -> None:
        """Records below were deleted; whoever has some of them may go on, and will not be asked about it."""
        if offset > self.start:
            self._runs.drop_below(offset)


def _in_batches(taken: Iterable[Acquired], batch_size: int) -> Iterator[Acquired]:
    """Neighbours made one where that makes them no larger than a consumer wants to acknowledge at a time."""
    held: Acquired | None = None
    for each in taken:
        if held is not None:
            fits = each.end - held.first <= batch_size
            if fits and held.end == each.first and held.delivery_count == each.delivery_count:
                held = held._replace(end=each.end)
                continue
            yield held
        held = each
    if held is not None:
        yield held
