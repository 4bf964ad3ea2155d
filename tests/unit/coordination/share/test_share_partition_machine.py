"""A share-partition against a model that knows every record by itself."""

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.coordination.share.delivery import AcknowledgeType, AcquireMode, RecordState, StateBatch, laid_over
from headrace.coordination.share.partition import Acknowledgement, Change, LogBatch, ShareLimits, SharePartition, Wish
from headrace.model.errors import RequestError

MEMBERS = st.sampled_from(["ann", "bob", "cid"])
LIMITS = ShareLimits(lock_duration_ms=10_000, delivery_count_limit=3, max_record_locks=25)


@dataclass
class ModelRecord:
    is_done: bool = False
    holder: str | None = None
    deliveries: int = 0
    deadline: float = 0.0
    is_pending: bool = False


class SharePartitionMachine(RuleBasedStateMachine):
    """The log grows by batches, some without data, some with holes between them."""

    def __init__(self) -> None:
        super().__init__()
        self.partition = SharePartition(0, limits=LIMITS)
        self.log: list[LogBatch] = []
        self.log_start = 0
        self.records: dict[int, ModelRecord] = {}  # of those that were ever delivered and still are in the log
        self.accepted: set[int] = set()  # and told so
        self.now = 0.0
        self.kept: tuple[StateBatch, ...] = ()
        self.kept_start = 0
        self.pending: list[tuple[Change, dict[int, AcknowledgeType]]] = []

    @rule(hole=st.integers(0, 2), size=st.integers(1, 8), has_data=st.booleans())
    def append(self, hole: int, size: int, has_data: bool) -> None:
        first = (self.log[-1].end if self.log else 0) + hole
        self.log.append(LogBatch(first, first + size, has_data or size > 3))

    @rule(member=MEMBERS, records=st.integers(1, 12), mode=st.sampled_from(AcquireMode), batches=st.integers(1, 4))
    def acquire(self, member: str, records: int, mode: AcquireMode, batches: int) -> None:
        position = self.partition.next_fetch_offset()
        read = [batch for batch in self.log if batch.end > max(position, self.log_start)][:batches]
        acquired = self.partition.acquire(Wish(member, records, 5, mode), read, self.now)

        offsets = [offset for each in acquired for offset in range(each.first, each.end)]
        assert offsets == sorted(set(offsets))
        if mode is AcquireMode.RECORD_LIMIT:
            assert len(offsets) <= records
        data = {offset for batch in read if batch.has_data for offset in range(batch.first, batch.end)}
        assert set(offsets) <= data
        for each in acquired:
            for offset in range(each.first, each.end):
                record = self.records.setdefault(offset, ModelRecord())
                assert not record.is_done
                assert offset not in self.accepted
                assert record.holder is None
                record.deliveries += 1
                assert each.delivery_count == record.deliveries
                record.holder, record.deadline = member, self.now + 10
        if not acquired and read and any(batch.has_data for batch in read):
            # Somebody has it all, or there is no room.
            free = [offset for offset in data if self._is_free(offset)]
            assert not free or not self.partition.can_acquire() or min(free) >= self.partition.end

    def _is_free(self, offset: int) -> bool:
        record = self.records.get(offset)
        return record is None or (not record.is_done and record.holder is None)

    @rule(
        member=MEMBERS,
        which=st.integers(0, 20),
        is_wild=st.sampled_from([True, False, False, False]),
        kinds=st.lists(st.sampled_from(AcknowledgeType), min_size=1, max_size=6),
        single=st.booleans(),
        size=st.integers(1, 8),
    )
    def acknowledge(self, member: str, which: int, is_wild: bool, kinds: list[AcknowledgeType], single: bool, size: int) -> None:
        types = tuple(kinds[:1]) if single else tuple(kinds)
        first = max(0, self.partition.start - 5) + which
        held = sorted(offset for offset, each in self.records.items() if each.holder is not None and not each.is_pending)
        if held and not is_wild:
            first = held[which % len(held)]
            member = self.records[first].holder or ""
            size = min(size, next(n for n in range(1, 100) if not self._may_acknowledge(member, first + n)))
            types = types[:size]
        single = len(types) == 1
        end = first + (size if single else len(types))
        words = {offset: types[0] if single else types[offset - first] for offset in range(first, end)}
        words = {offset: kind for offset, kind in words.items() if offset >= self.partition.start}
        may = all(self._may_acknowledge(member, offset) for offset in words)
        try:
            change = self.partition.acknowledge(member, [Acknowledgement(first, end, types)], self.now)
        except RequestError:
            assert not may
            return
        assert may
        for offset, kind in words.items():
            if kind is AcknowledgeType.RENEW:
                self.records[offset].deadline = self.now + 10
            else:
                self.records[offset].is_pending = True
        words = {offset: kind for offset, kind in words.items() if kind is not AcknowledgeType.RENEW}
        assert (change is None) == (not words)
        if change is not None:
            assert {offset for batch in change.batches for offset in range(batch.first, batch.end)} == words.keys()
            self.pending.append((change, words))

    def _may_acknowledge(self, member: str, offset: int) -> bool:
        record = self.records.get(offset)
        return record is not None and not record.is_done and record.holder == member and not record.is_pending

    @precondition(lambda self: self.pending)
    @rule(written=st.booleans(), which=st.integers(0, 5))
    def settle(self, written: bool, which: int) -> None:
        change, words = self.pending.pop(which % len(self.pending))
        self.partition.settle(change, written=written)
        if written:
            self._keep(change)
        for offset, kind in words.items():
            record = self.records.get(offset)
            if record is None:
                continue
            record.is_pending = False
            if not written:
                continue
            if kind is AcknowledgeType.ACCEPT:
                self.accepted.add(offset)
            self._leave(record, is_over=kind is not AcknowledgeType.RELEASE)

    def _leave(self, record: ModelRecord, *, is_over: bool) -> None:
        record.holder = None
        record.is_done = is_over or record.deliveries >= LIMITS.delivery_count_limit

    def _keep(self, change: Change) -> None:
        self.kept_start = max(self.kept_start, change.start)
        self.kept = laid_over(self.kept, change.batches, self.kept_start)

    @rule(member=MEMBERS, was_lost=st.booleans())
    def release(self, member: str, was_lost: bool) -> None:
        change = self.partition.release(member, was_lost=was_lost)
        held = [record for record in self.records.values() if record.holder == member and not record.is_pending]
        assert (change is None) == (not held)
        if change is not None:
            self._keep(change)
        for record in held:
            record.deliveries -= not was_lost
            self._leave(record, is_over=False)

    @rule(seconds=st.sampled_from([0.5, 4.0, 11.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        due = [each for each in self.records.values() if each.holder and not each.is_pending and each.deadline <= self.now]
        change = self.partition.expire(self.now)
        assert (change is None) == (not due)
        if change is not None:
            self._keep(change)
        for record in due:
            self._leave(record, is_over=False)

    @rule(records=st.integers(1, 10))
    def delete_records(self, records: int) -> None:
        end = self.log[-1].end if self.log else 0
        self.log_start = min(self.log_start + records, end)
        self.partition.on_log_start(self.log_start)
        self.records = {offset: record for offset, record in self.records.items() if offset >= self.log_start}

    @precondition(lambda self: not self.pending)
    @rule()
    def crash(self) -> None:
        """The leader is another one, which knows what was kept: what was told as accepted is done, all else may come again."""
        self.partition = SharePartition(max(self.kept_start, 0), self.kept, LIMITS)
        self.partition.on_log_start(self.log_start)
        self.records = {offset: record for offset, record in self.records.items() if offset >= self.log_start}
        counts = {offset: batch for batch in self.kept for offset in range(batch.first, batch.end)}
        for offset, record in list(self.records.items()):
            batch = counts.get(offset)
            if (batch is not None and batch.state is not RecordState.AVAILABLE) or offset < self.partition.start:
                record.is_done, record.holder = True, None
            else:
                assert offset not in self.accepted
                self.records[offset] = ModelRecord(deliveries=0 if batch is None else batch.delivery_count)

    @invariant()
    def the_start_is_at_the_first_record_that_is_not_done(self) -> None:
        start, end = self.partition.start, self.partition.end
        unfinished = [offset for offset, record in self.records.items() if not record.is_done]
        assert all(offset >= start for offset in unfinished)
        assert start <= end
        held = sum(record.holder is not None for record in self.records.values())
        assert self.partition.acquired == held
        assert self.partition.done + held + self.partition._runs.available == end - start

    @invariant()
    def every_lock_has_a_timer_and_there_is_none_without_a_lock(self) -> None:
        deadlines = [each.deadline for each in self.records.values() if each.holder is not None and not each.is_pending]
        deadline = self.partition.next_deadline()
        assert deadline == (min(deadlines) if deadlines else None)


TestSharePartition = pytest.mark.slow(SharePartitionMachine.TestCase)
TestSharePartition.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
