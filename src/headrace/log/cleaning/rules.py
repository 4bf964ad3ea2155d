"""Which records of a batch stay, when a log is compacted or its expired records are removed.  No I/O.

Kept: for each key the record with the highest offset; tombstones until their delete horizon; markers until the records of their
transaction are gone and the horizon has passed; empty batches that hold a producer's last sequence or a segment's last offset.
Always: offsets, sequences and the order of records stay as they were.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from itertools import compress as compress_by
from typing import Final, NamedTuple

from headrace.declaring import dataclass
from headrace.log.cleaning.steps import BYTES_PER_STEP, RECORDS_PER_STEP, WHOLE_BYTES_MAX, WHOLE_UNPACKED_BYTES_MAX, Steps, finish
from headrace.log.indexes.aborted_index import AbortedEntry
from headrace.model.time_to_live import TTL_HEADER, expires_at
from headrace.records.batch import assemble, rebuild_batch, rebuilt_header, write_body
from headrace.records.compression import CompressionError, compress
from headrace.records.control import read_marker
from headrace.records.header import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchError,
    BatchHeader,
)
from headrace.records.record import Record, parse_in_parts, read_records, unpacked_body

KEYS_MAX: Final = 500_000
KEY_MAP_PARTS: Final = 128
_SHORT_KEY_BYTES = 16
_TTL_HEADER = TTL_HEADER.encode()


def emptied(header: BatchHeader) -> bytes:
    """A batch without records that still says who wrote up to which offset and sequence."""
    return rebuild_batch(header._replace(attributes=header.attributes & ~COMPRESSION_MASK), [])


class LastWritten(NamedTuple):
    """What must be kept for a producer that is still known: the batch with its last sequence, or the marker with its epoch."""

    last_data_offset: int
    producer_epoch: int


class KeyMap:
    """The highest offset of each key in the part of the log that is not clean yet.  Full at a bound, or after
    the first batch where that alone has more; then the rest waits.

    In many small maps: a large one takes long to grow, and to let go of, in one go.
    """

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self.keys_max = keys_max
        self._parts: list[dict[bytes, int]] = [{} for _ in range(KEY_MAP_PARTS)]
        self._count = 0
        # Records above it are not in the map and stay as they are.
        self.latest_offset = -1

    def __len__(self) -> int:
        return self._count

    def put(self, key: bytes, offset: int, *, beyond_bound: bool = False) -> bool:
        """False when there is no room for another key."""
        short = _short(key)
        part = self._parts[hash(short) % KEY_MAP_PARTS]
        if short not in part:
            if self._count >= self.keys_max and not beyond_bound:
                return False
            self._count += 1
        part[short] = offset
        return True

    def is_superseded(self, key: bytes, offset: int) -> bool:
        short = _short(key)
        return offset < self._parts[hash(short) % KEY_MAP_PARTS].get(short, -1)

    def let_go(self) -> Steps[None]:
        """Forget all keys, for those who must not be busy for long."""
        while self._parts:
            self._parts.pop()
            yield None


def _short(key: bytes) -> bytes:
    # Long keys by their digest, one byte longer than any key that stands for itself.
    return key if len(key) <= _SHORT_KEY_BYTES else b"\x00" + blake2b(key, digest_size=_SHORT_KEY_BYTES).digest()


class _OpenAborted:
    __slots__ = ("entry", "was_seen")

    def __init__(self, entry: AbortedEntry) -> None:
        self.entry = entry
        self.was_seen = False


class TransactionTracker:
    """Follows transactions through the log in order: which records were aborted, which markers stand alone.

    It may begin anywhere, and markers may be gone: an aborted transaction is over where its marker was, met or not.
    """

    def __init__(self, aborted: Iterable[AbortedEntry]) -> None:
        self._waiting = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._open_aborted: dict[int, _OpenAborted] = {}
        self._open_committed: set[int] = set()
        # Aborted transactions that still have records or a marker in what was read since this was last emptied.
        self.still_needed: list[AbortedEntry] = []

    def _advance(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            entry = self._waiting.pop()
            known = self._open_aborted.get(entry.producer_id)
            if known is None or known.entry.last_offset < entry.first_offset:
                self._open_aborted[entry.producer_id] = _OpenAborted(entry)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to an aborted transaction."""
        self._advance(header.last_offset)
        if not header.attributes & TRANSACTIONAL_BIT:
            return False
        aborted = self._open_aborted.get(header.producer_id)
        if aborted is None or aborted.entry.last_offset < header.base_offset:
            self._open_aborted.pop(header.producer_id, None)
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
    last_written: Callable[[int], LastWritten | None]
    records_read: int = 0
    records_kept: int = 0
    # When the next record will expire, of those that were kept since this was last set to None.
    next_expiry_ms: int | None = None

    def clean(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        """The batch as it stays: itself, a smaller one, or None."""
        return finish(self.steps(header, batch))

    def steps(self, header: BatchHeader, batch: memoryview) -> Steps[bytes | memoryview | None]:
        """The same, for those who must not be busy for long."""
        try:
            return (yield from self._steps(header, batch))
        except BatchError:
            # A producer may send what nobody can open, where nobody looks: it stays as it came.
            return batch

    def _steps(self, header: BatchHeader, batch: memoryview) -> Steps[bytes | memoryview | None]:
        self.records_read += header.record_count
        if header.attributes & CONTROL_BIT:
            return self._clean_control(header, batch)
        if self.keys is not None and self.transactions.is_aborted(header):
            return self._emptied_or_gone(header)
        if self.keys is None and not self.ttl_enabled:
            return batch
        if not header.record_count:
            return self._emptied_or_gone(header)
        body = yield from unpack(header, batch)
        if self.keys is None and not may_expire(body):
            self.records_kept += header.record_count
            yield None
            return batch
        # Only verdicts are kept, not records: thousands of them wake the garbage collector, which takes its time.
        verdicts = bytearray()
        kept: Record | None = None
        latest: Record | None = None
        tombstones = False
        for records in parse_in_parts(header, body, RECORDS_PER_STEP, BYTES_PER_STEP):
            for record in records:
                stays = self._stays(header, record)
                verdicts.append(stays)
                if stays:
                    kept = kept or record
                    latest = record if latest is None or record.timestamp > latest.timestamp else latest
                    tombstones = tombstones or (self.keys is not None and record.value is None)
            yield None
        count = sum(verdicts)
        self.records_kept += count
        if count == header.record_count and not (tombstones and header.delete_horizon_ms is None):
            return batch
        if kept is None or latest is None:
            return self._emptied_or_gone(header)
        horizon = self._horizon(header) if tombstones else header.delete_horizon_ms
        template = rebuilt_header(header, (kept, latest), horizon)._replace(record_count=count)
        return (yield from _rebuild_kept(header, template, body, verdicts))

    def _clean_control(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        if self.keys is None:
            return batch
        alone = self.transactions.marker_stands_alone(header, batch)
        if not header.record_count or (
            alone and header.delete_horizon_ms is not None and header.delete_horizon_ms <= self.now_ms
        ):
            return self._emptied_or_gone(header)
        self.records_kept += header.record_count
        if not alone or header.delete_horizon_ms is not None:
            return batch
        return rebuild_batch(header, read_records(batch), delete_horizon_ms=self._horizon(header))

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

    def _horizon(self, header: BatchHeader) -> int:
        """Until when tombstones and lonely markers stay: as it was set, or from now on."""
        horizon = header.delete_horizon_ms
        return horizon if horizon is not None else self.now_ms + self.delete_retention_ms

    def _emptied_or_gone(self, header: BatchHeader) -> bytes | None:
        return emptied(header) if self._must_stay_empty(header) else None

    def _must_stay_empty(self, header: BatchHeader) -> bool:
        last = self.last_written(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return header.last_offset == last.last_data_offset
        return bool(header.attributes & CONTROL_BIT) and header.producer_epoch == last.producer_epoch


def may_expire(body: bytes) -> bool:
    """Whether a record in an unpacked body can have a time to live: far cheaper than opening them all."""
    return _TTL_HEADER in body


def collect_keys(keys: KeyMap, header: BatchHeader, batch: memoryview, first_dirty: int = 0) -> Steps[bool]:
    """Note the keys of a batch; False when there is no room for all of them."""
    if not header.record_count:
        return True
    # The first batch is taken whole, however many keys it has: otherwise no round would ever get beyond it.
    is_first = not len(keys)
    try:
        body = yield from unpack(header, batch)
        for records in parse_in_parts(header, body, RECORDS_PER_STEP, BYTES_PER_STEP):
            for record in records:
                if record.key is None or record.offset < first_dirty:
                    continue
                if not keys.put(record.key, record.offset, beyond_bound=is_first):
                    return False
            yield None
    except BatchError:
        pass
    return True


def first_expiry(header: BatchHeader, batch: memoryview) -> Steps[int | None]:
    """When the first record of a batch expires; None when none does."""
    if header.attributes & CONTROL_BIT or not header.record_count:
        return None
    first: int | None = None
    try:
        body = yield from unpack(header, batch)
        if not may_expire(body):
            yield None
            return None
        for records in parse_in_parts(header, body, RECORDS_PER_STEP, BYTES_PER_STEP):
            for record in records:
                first = earlier(first, expires_at(record.headers, record.timestamp))
            yield None
    except BatchError:
        return None
    return first


def earlier(one: int | None, other: int | None) -> int | None:
    """The earlier of two times, either of which may be never."""
    return other if one is None else one if other is None else min(one, other)


def unpack(header: BatchHeader, batch: memoryview) -> Steps[bytes]:
    """The records' bytes, unpacked."""
    if not header.attributes & COMPRESSION_MASK:
        return unpacked_body(header, batch)
    if len(batch) <= WHOLE_BYTES_MAX:
        # Little may unpack to much, and what is broken is told of below.
        with suppress(CompressionError):
            return unpacked_body(header, batch, WHOLE_UNPACKED_BYTES_MAX)
    body: bytes = yield partial(unpacked_body, header, batch)
    return body


def rebuild_steps(header: BatchHeader, records: list[Record], delete_horizon_ms: int | None) -> Steps[bytes]:
    """A batch with the same identity and these records."""
    template = rebuilt_header(header, records, delete_horizon_ms)
    parts: list[bytes] = []
    for start in range(0, len(records), RECORDS_PER_STEP):
        parts.append(write_body(template, records[start : start + RECORDS_PER_STEP]))
        yield None
    return (yield from _pack(template, b"".join(parts)))


def _rebuild_kept(header: BatchHeader, template: BatchHeader, body: bytes, verdicts: bytearray) -> Steps[bytes]:
    """The same for those records of an unpacked body that stay."""
    parts: list[bytes] = []
    position = 0
    for records in parse_in_parts(header, body, RECORDS_PER_STEP, BYTES_PER_STEP):
        stay = verdicts[position : position + len(records)]
        position += len(records)
        parts.append(write_body(template, list(compress_by(records, stay))))
        yield None
    return (yield from _pack(template, b"".join(parts)))


def _pack(template: BatchHeader, body: bytes) -> Steps[bytes]:
    if not template.attributes & COMPRESSION_MASK:
        return assemble(template, body)
    pack = partial(compress, template.compression, body)
    packed: bytes = (yield pack) if len(body) > WHOLE_BYTES_MAX else pack()
    return assemble(template, packed)
