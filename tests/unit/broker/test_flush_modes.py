"""What a change of a topic's flush mode does to records that are already written."""

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from headrace.broker.partitions.flushing import Flusher
from headrace.broker.partitions.partition import Alone, Partition
from headrace.controller.entries import PartitionState
from headrace.host.clock import SystemClock
from headrace.log.log import Log
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.model.topic_settings import LogConfig
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.testing.disk import SimulatedDisk
from tests.support.waiting import until_async

DIRECTORY = Path("/data/t-0")
HOUR_MS = 3_600_000


def config(flush: str, flush_ms: int = HOUR_MS) -> LogConfig:
    return LogConfig(flush=flush, flush_ms=flush_ms, flush_messages=1_000_000, segment_bytes=400)


def open_log(disk: SimulatedDisk) -> Log:
    return Log.open(DIRECTORY, LogConfig(), disk=disk, clock=SystemClock(), clean=False)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (config("os"), config("ack")),
        (config("interval"), config("ack")),
        (config("os"), config("interval")),
        (config("interval"), config("interval", flush_ms=1000)),
    ],
)
def test_a_stricter_flush_mode_flushes_what_is_unflushed_at_once(before: LogConfig, after: LogConfig) -> None:
    disk = SimulatedDisk(random.Random(1))

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        flusher = Flusher(loop)
        log = open_log(disk)
        partition = Partition(TopicPartition("t", 0), UUID(int=1), log, flusher=flusher, loop=loop)
        partition.lead(PartitionState(replicas=(1,), leader=1), Alone())
        partition.reconfigure(before)
        for _ in range(20):
            partition.append(build_batch([Record(0, 1, b"k", b"v" * 50)]))
        await flusher.drain()
        assert log.flushed_offset < 20
        partition.reconfigure(replace(before, retention_ms=5))
        await flusher.drain()
        assert log.flushed_offset < 20
        partition.reconfigure(after)
        await flusher.drain()
        assert log.flushed_offset == partition.high_watermark == 20
        partition.retire()

    asyncio.run(scenario())
    disk.crash()
    assert open_log(disk).end_offset == 20


def test_a_looser_flush_mode_flushes_nothing() -> None:
    disk = SimulatedDisk(random.Random(1))

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        flusher = Flusher(loop)
        log = open_log(disk)
        partition = Partition(TopicPartition("t", 0), UUID(int=1), log, flusher=flusher, loop=loop)
        partition.lead(PartitionState(replicas=(1,), leader=1), Alone())
        partition.reconfigure(config("interval"))
        partition.append(build_batch([Record(0, 1, b"k", b"v")]))
        partition.reconfigure(config("os"))
        await flusher.drain()
        assert (log.flushed_offset, partition.high_watermark) == (0, 1)
        partition.retire()

    asyncio.run(scenario())


class AtOnce(ThreadPoolExecutor):
    """Does everything in the caller's thread: the simulated disk knows only one."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **more: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **more))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.mark.parametrize("seed", range(6))
def test_modes_are_switched_under_load_and_a_power_failure_takes_nothing_that_was_promised(seed: int) -> None:
    """Whatever the mode was before and after: what was acknowledged while it was `ack`, and all that was there then, stays."""
    randomness = random.Random(seed)
    disk = SimulatedDisk(random.Random(seed))
    promised = 0

    async def scenario() -> None:
        nonlocal promised
        loop = asyncio.get_running_loop()
        loop.set_default_executor(AtOnce(1))
        flusher = Flusher(loop)
        log = open_log(disk)
        partition = Partition(TopicPartition("t", 0), UUID(int=1), log, flusher=flusher, loop=loop)
        partition.lead(PartitionState(replicas=(1,), leader=1), Alone())
        modes = [config("os"), config("interval"), config("interval", flush_ms=1), config("ack")]

        def acknowledged(offset: int, code: ErrorCode) -> None:
            nonlocal promised
            assert code is ErrorCode.NONE
            promised = max(promised, offset)

        for _ in range(400):
            if randomness.random() < 0.1:
                partition.reconfigure(randomness.choice(modes))
            appended = partition.append(build_batch([Record(0, 1, b"k", b"v" * 50)]))
            offset = appended.last_offset + 1
            is_strict = partition.config.flush == "ack"
            if partition.when_durable(offset, 1, partial(acknowledged, offset)) and is_strict:
                promised = max(promised, offset)
            assert partition.high_watermark <= log.end_offset
            if randomness.random() < 0.3:
                await asyncio.sleep(0)
        partition.reconfigure(config("ack"))
        await flusher.drain()
        promised = max(promised, log.end_offset)
        partition.reconfigure(config("interval", flush_ms=1))
        partition.append(build_batch([Record(0, 1, b"k", b"v")]))
        await until_async(lambda: not log.unflushed_messages)
        promised = log.end_offset
        partition.reconfigure(config("os"))
        partition.append(build_batch([Record(0, 1, b"k", b"not promised")]))
        partition.retire()

    asyncio.run(scenario())
    disk.crash()

    assert promised == 401
    assert open_log(disk).end_offset >= promised
