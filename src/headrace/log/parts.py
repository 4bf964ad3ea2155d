"""The parts that a log on disk is made of, put together."""

from collections.abc import Callable
from pathlib import Path

from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.log.durability.durability import Durability
from headrace.log.durability.small_files import SmallFiles
from headrace.log.epochs import EpochCache
from headrace.log.producers.producer_state import ProducerStates
from headrace.log.segments.files import FilePool
from headrace.log.segments.segments import Segments
from headrace.log.segments.writing import SegmentWriter
from headrace.log.state import LogState
from headrace.log.truncation import Truncation
from headrace.model.topic_settings import LogConfig


class LogParts:
    """Those of one log.  They know each other as far as they need to, and none knows the log."""

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        *,
        disk: Disk,
        clock: Clock,
        files: FilePool,
        before_truncation: Callable[[int], None] | None = None,
    ) -> None:
        state = LogState(config)
        self.clock = clock
        self.state = state
        self.epochs = EpochCache(lambda: state.end_offset)
        self.producers = ProducerStates(clock.monotonic)
        self.durability = Durability(directory, disk)
        self.small_files = SmallFiles(directory, self.durability, self.epochs)
        self.segments = Segments(directory, state, self.durability, self.small_files, disk=disk, clock=clock, files=files)
        self.writer = SegmentWriter(self.segments, state, self.durability, self.small_files, self.producers, clock)
        self.truncation = Truncation(
            self.segments, self.writer, state, self.durability, self.epochs, self.producers, clock, before_truncation
        )
