"""What a change of a topic's flush mode does to records that are already written."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from headrace.broker.flushing import Flusher
from headrace.broker.partition import Alone, Partition
from headrace.controller.entries import PartitionState
from headrace.host.clock import SystemClock
from headrace.log.log import Log
from headrace.model.identity import TopicPartition
from headrace.model.topic_settings import LogConfig
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.testing.disk import SimulatedDisk

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
