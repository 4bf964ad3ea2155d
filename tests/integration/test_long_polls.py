"""A fetch that finds what it may not read yet is answered as soon as it may, not when its time is over."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.parts import Host
from headrace.host.disk import File, SystemDisk, SystemFile
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.testing import Broker
from tests.integration.test_fetch_and_produce import append, base_offsets, create, fetch
from tests.support.raw import RawClient
from tests.support.waiting import until

SECONDS_MAX = 20.0
LONG_MS = 15_000
PARTITION = TopicPartition("t", 0)


class GatedDisk(SystemDisk):
    """Flushes wait while the gate is shut."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()

    def open(self, path: Path, *, create: bool = False) -> File:
        gate = self.gate

        class GatedFile(SystemFile):
            def sync(self) -> None:
                gate.wait(SECONDS_MAX)
                super().sync()

        return GatedFile(path, os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644))


@pytest.fixture
def disk() -> GatedDisk:
    return GatedDisk()


@pytest.fixture
def broker(tmp_path: Path, disk: GatedDisk) -> Iterator[Broker]:
    with Broker(data=tmp_path / "data", host=Host(disk=disk)) as running:
        yield running
        disk.gate.set()


def until_partition(broker: Broker, holds: Callable[[Any], bool]) -> None:
    """Until something holds of the partition."""
    until(lambda: broker.run(lambda real: holds(real.parts.replicas.find(PARTITION.topic, PARTITION.partition))))


@pytest.mark.parametrize("min_bytes", [1, 60])
def test_what_was_written_before_the_fetch_and_flushed_after_it_is_read_at_once(
    broker: Broker, disk: GatedDisk, min_bytes: int
) -> None:
    def write() -> int:
        with RawClient(broker.bootstrap) as client:
            return append(client, "t", b"news")

    def read() -> Any:
        with RawClient(broker.bootstrap) as client:
            return client.call(fetch("t", max_wait_ms=LONG_MS, min_bytes=min_bytes), 12).responses[0].partitions[0]

    with RawClient(broker.bootstrap) as client, ThreadPoolExecutor(2) as pool:
        create(client, "t")
        disk.gate.clear()
        writing = pool.submit(write)
        until_partition(broker, lambda partition: partition.log.end_offset == 1)
        reading = pool.submit(read)
        until_partition(broker, lambda partition: bool(partition.readers))
        started = time.monotonic()
        disk.gate.set()
        data = reading.result(SECONDS_MAX)
        elapsed = time.monotonic() - started

    assert writing.result() == 0
    assert (data.error_code, base_offsets(data)) == (ErrorCode.NONE, [0])
    assert elapsed < LONG_MS / 1000 / 2
