"""Long work on the event loop: others get their turns, and no step of it takes long."""

import asyncio
import gc
import time
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from headrace.broker.housekeeping.housekeeping import Housekeeping
from headrace.broker.housekeeping.slices import SLICE_S, STEPS_PER_SLICE, in_slices
from headrace.host.clock import SystemClock
from headrace.log.cleaning.steps import BATCHES_PER_STEP, Steps
from headrace.log.memory.memory_log import MemoryLog
from headrace.model.topic_settings import LogConfig
from headrace.records import record as record_module
from headrace.records.batch import build_batch
from headrace.records.header import BatchHeader
from headrace.records.record import Record
from tests.unit.log.storing import TIME, ManualClock

Result = TypeVar("Result")
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.01, max_message_bytes=2**25)


class SteppedClock:
    """Time passes only where the work says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now


def seen_between_turns(clock: SteppedClock, work: Steps[Result], measure: Callable[[], float]) -> tuple[Result, list[float]]:
    """What the work returned, and how far something got between two turns of somebody else."""
    seen: list[float] = []

    async def others() -> None:
        last = measure()
        while True:
            await asyncio.sleep(0)
            seen.append(measure() - last)
            last = measure()

    async def both() -> Result:
        task = asyncio.ensure_future(others())
        await asyncio.sleep(0)
        try:
            return await in_slices(asyncio.get_running_loop(), clock, work)
        finally:
            task.cancel()

    return asyncio.run(both()), seen


def test_the_loop_turns_to_others_when_a_slice_is_over() -> None:
    clock = SteppedClock()

    def work() -> Steps[str]:
        for _ in range(500):
            clock.now += SLICE_S / 4
            yield None
        return "done"

    result, seen = seen_between_turns(clock, work(), clock.monotonic)

    assert result == "done"
    assert max(seen) <= SLICE_S * 1.25
    assert len(seen) >= 100


def test_where_the_clock_stands_still_the_loop_turns_to_others_after_some_steps() -> None:
    clock, done = SteppedClock(), [0]

    def work() -> Steps[str]:
        for _ in range(STEPS_PER_SLICE * 10):
            done[0] += 1
            yield None
        return "done"

    _, seen = seen_between_turns(clock, work(), lambda: done[0])

    assert max(seen) <= STEPS_PER_SLICE + 1


def test_what_cannot_be_divided_is_computed_elsewhere_and_may_fail() -> None:
    def work() -> Steps[str]:
        with pytest.raises(ZeroDivisionError):
            yield lambda: 1 // 0
        answer: str = yield lambda: "from elsewhere"
        return answer

    assert seen_between_turns(SteppedClock(), work(), lambda: 0)[0] == "from elsewhere"


@pytest.mark.parametrize(("records", "value_bytes"), [(6_000, 1), (300, 100_000)], ids=["many", "large"])
def test_a_slice_of_compaction_ends_with_its_time_however_long_a_record_takes(
    records: int, value_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine so slow that a small record takes 60 µs, and one of 100 kB a millisecond, a slice stays below 5 ms."""
    clock, log = SteppedClock(), MemoryLog(COMPACTED, clock=ManualClock())
    per_batch = records // 3
    for start in range(0, records, per_batch):
        batch = [Record(0, TIME, b"%d" % (n % (records // 4)), b"v" * value_bytes) for n in range(start, start + per_batch)]
        log.append(build_batch(batch), 0)
    parse = record_module._parse_record

    def slow(header: BatchHeader, body: bytes, position: int) -> tuple[Record, int]:
        record, end = parse(header, body, position)
        clock.now += 0.000_06 + (end - position) / 1e8
        return record, end

    monkeypatch.setattr(record_module, "_parse_record", slow)
    _, seen = seen_between_turns(clock, log.retention_steps(TIME, log.end_offset), clock.monotonic)

    assert log.batches.record_count < records
    assert SLICE_S < max(seen) < 0.005


class CountedBytes(bytes):
    """Whoever asks how long they are is counted."""

    asked = 0

    def __len__(self) -> int:
        CountedBytes.asked += 1
        return super().__len__()


def test_what_compaction_did_not_reach_is_not_counted_in_one_go() -> None:
    log = MemoryLog(COMPACTED, clock=ManualClock())
    for index in range(5_000):
        log.append(build_batch([Record(0, TIME, b"%d" % index, b"v")]), 0)
    for held in log.batches.all:
        held.data = CountedBytes(held.data)
    asked = []
    for _ in log.retention_steps(TIME, 4_000):
        asked.append(CountedBytes.asked)

    assert log.batches.compacted_to == 4_000
    assert log.batches.dirty_bytes == sum(len(held.data) for held in log.batches.some_from(4_000, 5_000))
    assert max(after - before for before, after in pairwise([0, *asked])) <= 2 * BATCHES_PER_STEP


def test_batches_that_a_full_log_drops_do_not_leave_its_list_all_at_once() -> None:
    log = MemoryLog(LogConfig(memory_max_messages=20_000, memory_full_policy="drop-oldest"), clock=ManualClock())
    batch = build_batch([Record(0, TIME, None, b"v")])
    lengths = []
    for _ in range(60_000):
        log.append(batch, 0)
        lengths.append(len(log.batches.all))

    assert max(before - after for before, after in pairwise(lengths)) < 1_100
    assert max(lengths) < 22_000


def filled(keys: int, records_per_batch: int = 10_000) -> MemoryLog:
    log = MemoryLog(COMPACTED, clock=ManualClock())
    for start in range(0, keys * 4 // 3, records_per_batch):
        batch = [Record(0, TIME, b"%d" % (n % keys), b"v") for n in range(start, start + records_per_batch)]
        log.append(build_batch(batch), 0)
    return log


@pytest.mark.slow
def test_no_step_of_a_large_compaction_in_memory_takes_long_or_wakes_the_whole_garbage_collector() -> None:
    log = filled(90_000)
    full_collections: list[int] = []

    def on_collection(phase: str, details: dict[str, int]) -> None:
        if phase == "start" and details["generation"] == 2:
            full_collections.append(1)

    steps: list[float] = []
    gc.collect()
    gc.callbacks.append(on_collection)
    try:
        work = log.retention_steps(TIME, log.end_offset)
        began = time.thread_time()
        for _ in work:
            now = time.thread_time()
            steps.append(now - began)
            began = time.thread_time()
    finally:
        gc.callbacks.remove(on_collection)

    assert log.batches.record_count < 100_000
    assert full_collections == []
    assert sorted(steps)[-3] < 0.004, sorted(steps)[-8:]


def test_cleaning_in_memory_lets_a_broker_serve_others_meanwhile() -> None:
    turns = [0]
    log = filled(20_000)
    partition: Any = SimpleNamespace(log=log, high_watermark=log.end_offset, failure=None)
    untouched: Any = None

    async def clean() -> None:
        async def others() -> None:
            while True:
                await asyncio.sleep(0)
                turns[0] += 1

        housekeeping = Housekeeping(
            [partition],
            untouched,
            untouched,
            untouched,
            untouched,
            config=untouched,
            clock=SystemClock(),
            loop=asyncio.get_running_loop(),
            spawn=untouched,
        )
        task = asyncio.ensure_future(others())
        try:
            await housekeeping.apply_retention()
        finally:
            task.cancel()

    asyncio.run(clean())

    assert log.batches.record_count < 30_000
    assert turns[0] > 20
