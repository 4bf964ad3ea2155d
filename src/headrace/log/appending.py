"""How batches get into a log, wherever it keeps its bytes.

A batch is checked, compared with what its producer wrote before, given offsets and an epoch, stored, and only then counted.
Always: when an append raises, neither offsets nor producers nor epochs have changed.
"""

from collections.abc import Sequence
from typing import Protocol

from headrace.host.clock import Clock
from headrace.host.disk import Buffer
from headrace.log.epochs import EpochCache
from headrace.log.indexes.aborted_index import AbortedEntry
from headrace.log.origin import Origin
from headrace.log.producers.producer_snapshot import WrittenBatch
from headrace.log.producers.producer_state import TRUSTED, ProducerStates, VerificationGuard
from headrace.log.results import Appended
from headrace.log.segments.segment import StoredBatch
from headrace.log.state import LogState
from headrace.log.validation import check_batch
from headrace.model.errors import ErrorCode, RequestError
from headrace.records.control import Marker, read_marker
from headrace.records.header import (
    CONTROL_BIT,
    FRAME_BYTES,
    HEADER_BYTES,
    STAMP,
    STAMP_BYTES,
    BatchError,
    BatchHeader,
    crc_matches,
    iterate_batches,
    read_header,
    with_log_append_time,
)

_pack_stamp = STAMP.pack
# Makes a named tuple without a call of its own function, which every batch would pay for.
_new = tuple.__new__


class BatchStore(Protocol):
    """Where the bytes of a log are kept."""

    def store(self, batches: Sequence[StoredBatch], parts: Sequence[Buffer], next_offset: int, now_ms: int) -> None:
        """Keep the bytes, all or none."""
        ...

    def note_aborted(self, entry: AbortedEntry) -> None:
        """Remember an aborted transaction for readers."""
        ...


class Appender:
    """Lets batches into one log."""

    def __init__(self, state: LogState, clock: Clock, epochs: EpochCache, producers: ProducerStates, store: BatchStore) -> None:
        self._state = state
        self._clock = clock
        self._epochs = epochs
        self._producers = producers
        self._store = store

    def append(
        self,
        records: Buffer,
        leader_epoch: int,
        *,
        origin: Origin = Origin.CLIENT,
        guard: VerificationGuard | None = TRUSTED,
        transaction_version: int = 0,
    ) -> Appended:
        state = self._state
        if state.failure is not None:
            raise state.failure
        config, producers = state.config, self._producers
        now_ms = self._clock.wall_ms()
        append_time = now_ms if config.message_timestamp_type == "LogAppendTime" else -1
        first_offset = next_offset = state.end_offset
        stored: list[StoredBatch] = []
        parts: list[Buffer] = []
        markers: dict[int, Marker] = {}
        for header, batch in _split(records, origin):
            check_batch(batch, header, config, origin, now_ms)
            if header.attributes & CONTROL_BIT:
                self._check_control(header, batch, next_offset, markers, origin, transaction_version)
            elif header.producer_id >= 0:
                duplicate = producers.check(header, origin, guard)
                if duplicate is not None:
                    return self._repeated(duplicate, append_time)
            max_timestamp = header.max_timestamp
            if append_time >= 0:
                batch, max_timestamp = memoryview(with_log_append_time(batch, append_time)), append_time
            parts.append(_pack_stamp(next_offset, header.batch_length, leader_epoch))
            parts.append(batch[STAMP_BYTES:])
            stored.append(_new(StoredBatch, (header, next_offset, max_timestamp, len(batch))))
            next_offset += header.last_offset_delta + 1
        if not stored:
            raise BatchError("there is no batch to append", ErrorCode.INVALID_RECORD)
        self._store.store(stored, parts, next_offset, now_ms)
        self._epochs.assign(leader_epoch, first_offset)
        self._count_in(stored, markers, next_offset)
        return _new(Appended, (first_offset, next_offset - 1, append_time, state.start_offset, False))

    def append_as_follower(self, records: Buffer) -> Appended:
        state = self._state
        if state.failure is not None:
            raise state.failure
        next_offset = end_of_last = state.end_offset
        stored: list[StoredBatch] = []
        parts: list[Buffer] = []
        markers: dict[int, Marker] = {}
        for header, batch in iterate_batches(records):
            if header.magic != 2 or header.last_offset_delta < 0 or not crc_matches(batch):
                raise BatchError(f"the leader's batch at offset {header.base_offset} is broken")
            if header.base_offset < next_offset:
                raise RequestError(
                    ErrorCode.INVALID_RECORD, f"offset {header.base_offset} from the leader is below the end, {next_offset}"
                )
            if header.attributes & CONTROL_BIT:
                self._check_control(header, batch, header.base_offset, markers, Origin.REPLICATION, 0)
            stored.append(StoredBatch(header, header.base_offset, header.max_timestamp, len(batch)))
            parts.append(batch)
            next_offset = header.next_offset
        if not stored:
            return Appended(state.end_offset, state.end_offset - 1, -1, state.start_offset, False)
        self._store.store(stored, parts, next_offset, self._clock.wall_ms())
        for batch_ in stored:
            # An epoch whose first records were compacted away began somewhere in the gap.  Believed to begin later than it did,
            # it would let others keep what was written there in an epoch before, and given up.
            self._epochs.assign(batch_.header.leader_epoch, end_of_last)
            end_of_last = batch_.header.next_offset
        self._count_in(stored, markers, next_offset)
        return Appended(stored[0].base_offset, next_offset - 1, -1, state.start_offset, False)

    def _check_control(
        self,
        header: BatchHeader,
        batch: memoryview,
        base_offset: int,
        markers: dict[int, Marker],
        origin: Origin,
        transaction_version: int,
    ) -> None:
        marker = read_marker(batch) if header.producer_id >= 0 else None
        if marker is not None:
            self._producers.check_marker(header, marker, origin, transaction_version)
            markers[base_offset] = marker

    def _repeated(self, written: WrittenBatch, append_time: int) -> Appended:
        time = written.timestamp if append_time >= 0 else -1
        return Appended(written.first_offset, written.last_offset, time, self._state.start_offset, True)

    def _count_in(self, stored: Sequence[StoredBatch], markers: dict[int, Marker], next_offset: int) -> None:
        """The bytes are stored: from here on they count."""
        producers = self._producers
        for batch in stored:
            header = batch.header
            if header.producer_id < 0:
                continue
            if header.attributes & CONTROL_BIT:
                marker = markers.get(batch.base_offset)
                if marker is not None:
                    completed = producers.apply_marker(header, batch.base_offset, marker)
                    if completed is not None and completed.aborted:
                        self._store.note_aborted(producers.aborted_entry(completed))
            else:
                producers.apply(header, batch.base_offset)
        # Last, as another thread takes it for what it may sync, with all that was noted of it.
        self._state.end_offset = next_offset


def _split(records: Buffer, origin: Origin) -> Sequence[tuple[BatchHeader, memoryview]]:
    """The batches in a buffer.  One batch, as from every client, is the short way."""
    view = memoryview(records)
    if len(view) >= HEADER_BYTES:
        header = read_header(view)
        if header.batch_length + FRAME_BYTES == len(view):
            return ((header, view),)
    batches = list(iterate_batches(view))
    if origin is Origin.CLIENT and len(batches) > 1:
        raise BatchError("a client sends exactly one batch for a partition", ErrorCode.INVALID_RECORD)
    return batches
