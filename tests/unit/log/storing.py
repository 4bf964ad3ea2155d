"""What the tests of the log share: a clock to turn, and short ways to write and read."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.log.interface import Origin, PartitionLog
from headrace.log.log import Log
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.topic_settings import LogConfig
from headrace.records.batch import build_batch, iterate_batches
from headrace.records.control import build_end_marker
from headrace.records.record import Record, read_records
from headrace.testing.disk import SimulatedDisk

TIME = 1_700_000_000_000
DAY_MS = 86_400_000
DIRECTORY = Path("/data/topic-0")
OpenLog = Callable[..., PartitionLog]


class ManualClock:
    """Stands still until it is turned."""

    def __init__(self, now_ms: int = TIME) -> None:
        self.now_ms = now_ms
        # Somebody set the wall clock: no time has passed.
        self.set_ahead_by_ms = 0

    def wall_ms(self) -> int:
        return self.now_ms + self.set_ahead_by_ms

    def monotonic(self) -> float:
        return self.now_ms / 1000


def simulated_disk(seed: int = 0, **options: Any) -> SimulatedDisk:
    return SimulatedDisk(random.Random(seed), **options)


def open_log(disk: Any, config: LogConfig | None = None, *, clean: bool = False, clock: Any = None, **options: Any) -> Log:
    """The log in the usual directory; as after a crash unless `clean`."""
    return Log.open(DIRECTORY, config or LogConfig(), disk=disk, clock=clock or ManualClock(), clean=clean, **options)


class LogWalk:
    """A log on a disk that may crash, led at random; its recovery point is kept as a data directory keeps it."""

    def __init__(self, seed: int, config: LogConfig, disk: SimulatedDisk | None = None) -> None:
        self.random = random.Random(seed)
        self.disk = disk or SimulatedDisk(self.random, tearing=self.random.choice(["prefix", "pages"]))
        self.recovery_point = 0
        self._config = config
        self.log = self.reopen(clean=False)

    def reopen(self, *, clean: bool) -> Log:
        def lower(offset: int) -> None:
            self.recovery_point = min(self.recovery_point, offset)

        return open_log(self.disk, self._config, clean=clean, recovery_point=self.recovery_point, before_truncation=lower)


def batch_of(*values: bytes, timestamp: int = TIME, **options: Any) -> bytes:
    """A batch with one keyless record per value."""
    return build_batch([Record(0, timestamp, None, value) for value in values], **options)


def keyed(*pairs: tuple[bytes, bytes | None], timestamp: int = TIME, **options: Any) -> bytes:
    return build_batch([Record(0, timestamp, key, value) for key, value in pairs], **options)


def produce(log: PartitionLog, *values: bytes, epoch: int = 0, **options: Any) -> int:
    """Append one batch; its base offset."""
    return log.append(batch_of(*values, **options), epoch).base_offset


def end_transaction(log: PartitionLog, producer_id: int, *, committed: bool, epoch: int = 0, timestamp: int = TIME) -> int:
    marker = build_end_marker(producer_id, epoch, committed, 0, timestamp)
    return log.append(marker, max(0, log.epochs.latest), origin=Origin.COORDINATOR).base_offset


def read_all(log: PartitionLog, start: int | None = None, up_to: int | None = None, max_bytes: int = 1000) -> list[Record]:
    """Every record a reader gets, control records left out, reading on from reply to reply."""
    offset = log.start_offset if start is None else start
    end = log.end_offset if up_to is None else up_to
    records: list[Record] = []
    while offset < end:
        read = log.read(offset, max_bytes=max_bytes, up_to=end, at_least_one=True)
        if not read.data:
            break
        assert read.next_offset > offset
        assert read.next_offset <= end
        for header, batch in iterate_batches(read.data):
            if not header.is_control:
                records += [record for record in read_records(batch) if record.offset >= offset]
        offset = read.next_offset
    return records


def values_of(log: PartitionLog, **options: Any) -> list[bytes | None]:
    return [record.value for record in read_all(log, **options)]


def offsets_of(log: PartitionLog, **options: Any) -> list[int]:
    return [record.offset for record in read_all(log, **options)]


@contextmanager
def refused(code: ErrorCode) -> Iterator[None]:
    with pytest.raises(RequestError) as error:
        yield
    assert error.value.code is code, error.value
