"""Which records of a batch stay, when a log is compacted or its expired records are removed.  No I/O.

Kept: for each key the record with the highest offset; tombstones until their delete horizon; markers until the records of their
transaction are gone and the horizon has passed; empty batches that hold a producer's last sequence or a segment's last offset.
Always: offsets, sequences and the order of records stay as they were.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from headrace.log.aborted_index import AbortedEntry
from headrace.model.time_to_live import expires_at
from headrace.records.batch import rebuild_batch
from headrace.records.control import read_marker
from headrace.records.header import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from headrace.records.record import Record, read_records

KEYS_MAX: Final = 500_000
_SHORT_KEY_BYTES = 16


def emptied(header: BatchHeader) -> bytes:
    """A batch without records that still says who wrote up to which offset and sequence."""
    return rebuild_batch(header._replace(attributes=header.attributes & ~COMPRESSION_MASK), [])


class LastWritten(NamedTuple):
    """What must be kept for a producer that is still known: the batch with its last sequence, or the marker with its epoch."""

    last_data_offset: int
    producer_epoch: int


class KeyMap:
    """The highest offset of each key in the part of the log that is not clean yet.  Full at a bound; then the rest waits."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self.keys_max = keys_max
        self._offsets: dict[bytes, int] = {}
        # Records above it are not in the map and stay as they are.
        self.latest_offset = -1

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """False when there is no room for another key."""
        short = _short(key)
        if len(self._offsets) >= self.keys_max and short not in self._offsets:
            return False
        self._offsets[short] = offset
        return True

    def is_superseded(self, key: bytes, offset: int) -> bool:
        return offset < self._offsets.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    # Long keys by their digest, one byte longer than any key that stands for itself.
    return key if len(key) <= _SHORT_KEY_BYTES else b"\x00" + blake2b(key, digest_size=_SHORT_KEY_BYTES).digest()


class _OpenAborted:
    __slots__ = ("entry", "was_seen")

    def __init__(self, entry: AbortedEntry) -> None:
        self.entry = entry
        self.was_seen = False


class TransactionTracker:
    """Follows transactions through the log in order: which records were aborted, which markers stand alone."""

    def __init__(self, aborted: Iterable[AbortedEntry]) -> None:
        self._waiting = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._open_aborted: dict[int, _OpenAborted] = {}
        self._open_committed: set[int] = set()
        # Aborted transactions that still have records or a marker in what was read since this was last emptied.
        self.still_needed: list[AbortedEntry] = []

    def _advance(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            entry = self._waiting.pop()
            self._open_aborted.setdefault(entry.producer_id, _OpenAborted(entry))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to an aborted transaction."""
        self._advance(header.last_offset)
        if not header.attributes & TRANSACTIONAL_BIT:
            return False
        aborted = self._open_aborted.get(header.producer_id)
        if aborted is None:
            self._open_committed.add(header.producer_id)
            return False
        aborted.was_seen = True
        return True

    def marker_stands_alone(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether no record of a marker's transaction was met: then the marker may go, in time."""
        self._advance(header.last_offset)
        if header.producer_id < 0 or (header.record_count and (marker := read_marker(batch)) is None):
            return False
        if not header.record_count:
            return True
        assert marker is not None
        if marker.committed:
            was_open = header.producer_id in self._open_committed
            self._open_committed.discard(header.producer_id)
            return not was_open
        aborted = self._open_aborted.pop(header.producer_id, None)
        if aborted is not None and aborted.was_seen:
            self.still_needed.append(aborted.entry)
            return False
        return True


@dataclass(slots=True, kw_only=True)
class BatchCleaner:
    """Decides batch by batch.  Without a key map only expired records go."""

    now_ms: int
    delete_retention_ms: int
    ttl_enabled: bool
    keys: KeyMap | None
    transactions: TransactionTracker
    last_written: dict[int, LastWritten]
    records_read: int = 0
    records_kept: int = 0
    # When the next record will expire, of those that were kept.
    next_expiry_ms: int | None = None

    def clean(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        """The batch as it stays: itself, a smaller one, or None."""
        self.records_read += header.record_count
        if header.attributes & CONTROL_BIT:
            return self._clean_control(header, batch)
        if self.keys is not None and self.transactions.is_aborted(header):
            return self._keep(header, batch, [], tombstones=False)
        if self.keys is None and not self.ttl_enabled:
            return batch
        records = read_records(batch)
        kept = [record for record in records if self._stays(header, record)]
        tombstones = self.keys is not None and any(record.value is None for record in kept)
        if len(kept) == len(records) and not (tombstones and header.delete_horizon_ms is None):
            self.records_kept += len(kept)
            return batch if records else self._keep(header, batch, [], tombstones=False)
        return self._keep(header, batch, kept, tombstones=tombstones)

    def _clean_control(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        if self.keys is None:
            return batch
        alone = self.transactions.marker_stands_alone(header, batch)
        horizon = header.delete_horizon_ms
        if alone and horizon is not None and horizon <= self.now_ms:
            return self._keep(header, batch, [], tombstones=False)
        if not alone or horizon is not None:
            self.records_kept += header.record_count
            return batch if header.record_count else self._keep(header, batch, [], tombstones=False)
        return self._keep(header, batch, read_records(batch), tombstones=True)

    def _stays(self, header: BatchHeader, record: Record) -> bool:
        if self.ttl_enabled:
            expiry = expires_at(record.headers, record.timestamp)
            if expiry is not None:
                if expiry < self.now_ms:
                    return False
                self.next_expiry_ms = expiry if self.next_expiry_ms is None else min(self.next_expiry_ms, expiry)
        keys = self.keys
        if keys is None or record.offset > keys.latest_offset:
            return True
        if record.key is None or keys.is_superseded(record.key, record.offset):
            return False
        horizon = header.delete_horizon_ms
        return record.value is not None or horizon is None or self.now_ms < horizon

    def _keep(self, header: BatchHeader, batch: memoryview, records: list[Record], *, tombstones: bool) -> bytes | None:
        if records:
            self.records_kept += len(records)
            horizon = header.delete_horizon_ms
            if tombstones and horizon is None:
                horizon = self.now_ms + self.delete_retention_ms
            return rebuild_batch(header, records, delete_horizon_ms=horizon)
        return emptied(header) if self._must_stay_empty(header) else None

    def _must_stay_empty(self, header: BatchHeader) -> bool:
        last = self.last_written.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return header.last_offset == last.last_data_offset
        return bool(header.attributes & CONTROL_BIT) and header.producer_epoch == last.producer_epoch
