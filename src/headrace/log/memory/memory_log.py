"""The log of one partition without any file: gone with the process, bounded by count and by bytes.

Always: the same answers as the log on disk.
"""

from headrace.host.clock import Clock
from headrace.log.appending import Appender
from headrace.log.cleaning.steps import Steps, finish
from headrace.log.epochs import EpochCache
from headrace.log.memory.cleaning import MemoryCleaning
from headrace.log.memory.held_batches import HeldBatches
from headrace.log.memory.reading import MemoryReader
from headrace.log.memory.searching import MemorySearch
from headrace.log.producers.producer_state import ProducerStates
from headrace.log.results import RemovedSegment
from headrace.log.state import LogState
from headrace.model.errors import ErrorCode, RequestError, StorageError
from headrace.model.topic_settings import LogConfig
from headrace.records.header import read_header


class MemoryLog:
    """A partition's log in memory."""

    def __init__(self, config: LogConfig, clock: Clock) -> None:
        state = LogState(config)
        self.epochs = EpochCache(lambda: state.end_offset)
        self.producers = ProducerStates(clock.monotonic)
        self.batches = HeldBatches(state)
        self.state = state
        # Below `looked_to` it is known of each batch when its first record expires, and when the first of all does.
        self.looked_to = 0
        self.next_expiry_ms: int | None = None
        # How often the log was cut: whoever works on it in steps must begin anew.
        self.truncations = 0
        # What a part does by itself is that part's: no call lies between.
        appender = Appender(state, clock, self.epochs, self.producers, self.batches)
        self.append = appender.append
        self.append_as_follower = appender.append_as_follower
        reader = MemoryReader(self.batches, state, self.epochs)
        self.read = reader.read
        self.offset_for_timestamp = reader.offset_for_timestamp
        self.offset_of_max_timestamp = reader.offset_of_max_timestamp
        self.aborted_transactions = reader.aborted_transactions

    def __repr__(self) -> str:
        return f"<{self.state}, {self.batches}>"

    # -- what it is

    @property
    def config(self) -> LogConfig:
        return self.state.config

    def reconfigure(self, config: LogConfig) -> None:
        self.state.config = config

    @property
    def start_offset(self) -> int:
        return self.state.start_offset

    @property
    def end_offset(self) -> int:
        return self.state.end_offset

    @property
    def flushed_offset(self) -> int:
        """Nothing is ever safer than it is at once."""
        return self.state.end_offset

    @property
    def unflushed_messages(self) -> int:
        return 0

    @property
    def size_bytes(self) -> int:
        return self.batches.size_bytes

    @property
    def damaged_from(self) -> int | None:
        return None

    @property
    def failure(self) -> StorageError | None:
        return self.state.failure

    def ahead_of_read(self, offset: int, size: int) -> None:
        return None

    def time_search(self, timestamp: int | None, up_to: int) -> MemorySearch:
        return MemorySearch(self, timestamp, up_to)

    def sync(self) -> int:
        return self.state.end_offset

    def roll(self) -> None:
        return

    def close(self) -> None:
        return

    def delete(self) -> None:
        self.batches.clear()
        self.truncations += 1

    # -- less of it

    def delete_before(self, offset: int) -> list[RemovedSegment]:
        state = self.state
        if offset > state.end_offset or offset < 0:
            raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is beyond the end, {state.end_offset}")
        self.batches.drop_below(offset)
        state.start_offset = max(state.start_offset, offset)
        self.forget_below_start()
        return []

    def forget_below_start(self) -> None:
        """Epochs and aborted transactions that ended before the log begins."""
        self.epochs.truncate_from_start(self.state.start_offset)
        self.batches.forget_aborted_below(self.state.start_offset)

    def apply_retention(self, now_ms: int, high_watermark: int) -> list[RemovedSegment]:
        finish(self.retention_steps(now_ms, high_watermark))
        return []

    def retention_steps(self, now_ms: int, high_watermark: int) -> Steps[None]:
        """The same in short steps: retention, expiry and compaction, between which the log may be used."""
        return MemoryCleaning(self, now_ms, high_watermark).steps()

    def has_expiry_work(self, now_ms: int, high_watermark: int) -> bool:
        """Whether there is something to look at, or something to remove."""
        if not self.config.message_ttl_enable:
            return False
        due = self.next_expiry_ms is not None and self.next_expiry_ms < now_ms
        return due or self.looked_to < min(high_watermark, self.state.end_offset)

    def expiry_steps(self, now_ms: int, high_watermark: int) -> Steps[None]:
        """Only records whose time to live is over, in short steps."""
        return MemoryCleaning(self, now_ms, high_watermark).expiry_steps()

    def truncate_to(self, offset: int) -> list[RemovedSegment]:
        state = self.state
        if offset >= state.end_offset:
            return []
        if offset < state.start_offset:
            return self.truncate_fully_and_start_at(offset)
        state.end_offset = self.batches.cut(offset)
        state.start_offset = min(state.start_offset, state.end_offset)
        self.truncations += 1
        self.looked_to = min(self.looked_to, state.end_offset)
        self.epochs.truncate_from_end(state.end_offset)
        self._replay()
        return []

    def _replay(self) -> None:
        """The producers and aborted transactions as the remaining batches say."""
        self.producers.clear()
        self.batches.aborted.clear()
        for batch in self.batches.in_log():
            if batch.data:
                entry = self.producers.take(read_header(batch.data), lambda batch=batch: batch.data)  # type: ignore[misc]
                if entry is not None:
                    self.batches.note_aborted(entry)

    def truncate_fully_and_start_at(self, offset: int) -> list[RemovedSegment]:
        self.delete()
        self.next_expiry_ms = None
        self.state.start_offset = self.state.end_offset = self.looked_to = self.batches.compacted_to = offset
        self.epochs.clear()
        self.producers.clear()
        return []
