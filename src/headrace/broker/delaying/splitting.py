"""A client's batch on a topic with delays becomes two: what goes into the log now, and what is kept until it is due.

Both keep the identity of the batch: its sequences, its number of offsets.  In the log the records that wait leave a gap, as those
leave that compaction took; where all of them wait, a batch without records.  So a producer's sequences go on without a hole, and
a batch that is sent again is recognised both here and where it waits.  For that, a record with a delay is set aside even if it
is due: sent again it must be on the same side.
"""

import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

from headrace.broker.delaying.entries import DelayEntryCodec, key_hash_of, staged_payload
from headrace.coordination.delay.entries import Cancelled, Staged, Target
from headrace.log.cleaning.rules import emptied, rebuild_steps, unpack
from headrace.log.cleaning.steps import BYTES_PER_STEP, RECORDS_PER_STEP, Steps
from headrace.log.validation import RecordsRefused
from headrace.model.delay.headers import (
    CANCEL_HEADER,
    DELAY_HEADER,
    DELIVER_AT_HEADER,
    due_of,
    headers_when_delivered,
    is_cancellation,
)
from headrace.model.errors import ErrorCode, RequestError
from headrace.records.header import COMPRESSION_MASK, TIMESTAMP_TYPE_BIT, BatchHeader, Buffer, check_crc, read_header
from headrace.records.record import Record, parse_in_parts

_NAMES = tuple(name.encode() for name in (DELIVER_AT_HEADER, DELAY_HEADER, CANCEL_HEADER))
IN_TRANSACTION = "a record of a transaction cannot be delayed or cancel one; send it without a transactional id"
CODEC = DelayEntryCodec()


class Split(NamedTuple):
    """Both halves, each a batch."""

    now: bytes
    later: bytes


def split_steps(batch: Buffer, target: Target, now_ms: int, make_uid: Callable[[], int]) -> Steps[Split | None]:
    """None for a batch of which nothing is delayed: it stays as it came."""
    header = read_header(batch)
    check_crc(batch)
    body = yield from unpack(header, memoryview(batch))
    if not any(name in body for name in _NAMES):
        return None
    sorting = _Sorting(header, target, now_ms, make_uid)
    for records in parse_in_parts(header, body, RECORDS_PER_STEP, BYTES_PER_STEP):
        for record in records:
            sorting.take(record)
        yield None
    sorting.settle()
    if not sorting.later:
        return None
    now = (yield from rebuild_steps(header, sorting.now, None)) if sorting.now else emptied(header)
    later = yield from rebuild_steps(_header_of_waiting(header, target), sorting.later, None)
    return Split(now, later)


class _Sorting:
    """Which record of a batch is for now, and which for later."""

    def __init__(self, header: BatchHeader, target: Target, now_ms: int, make_uid: Callable[[], int]) -> None:
        self.now: list[Record] = []
        self.later: list[Record] = []
        self._wrong: list[tuple[int, str]] = []
        self._header = header
        self._target = target
        self._now_ms = now_ms
        self._make_uid = make_uid

    def take(self, record: Record) -> None:
        entry = self._entry(record) if record.headers else None
        if entry is None:
            self.now.append(record)
        else:
            self.later.append(Record(record.offset, self._now_ms, *CODEC.encode(entry), ()))

    def _entry(self, record: Record) -> Staged | Cancelled | None:
        if is_cancellation(record.headers):
            return self._cancellation(record)
        try:
            due_ms = due_of(record.headers, self._now_ms)
        except ValueError as error:
            self._refuse(record, str(error))
            return None
        if due_ms is None:
            return None
        as_delivered = record._replace(headers=headers_when_delivered(record.headers, due_ms))
        payload = staged_payload(self._target, self._header.attributes & COMPRESSION_MASK, as_delivered)
        key_hash = None if record.key is None else key_hash_of(record.key)
        return Staged(self._make_uid(), due_ms, self._target, key_hash, payload)

    def _cancellation(self, record: Record) -> Cancelled | None:
        if record.key is None or record.value is not None:
            self._refuse(record, f"with the header {CANCEL_HEADER} it needs a key and no value")
            return None
        return Cancelled(self._make_uid(), self._target, key_hash_of(record.key))

    def _refuse(self, record: Record, why: str) -> None:
        self._wrong.append((record.offset - self._header.base_offset, why))

    def settle(self) -> None:
        if self._wrong:
            raise RecordsRefused(ErrorCode.INVALID_RECORD, self._wrong)
        if self.later and self._header.is_transactional:
            raise RequestError(ErrorCode.INVALID_RECORD, IN_TRANSACTION)


def _header_of_waiting(header: BatchHeader, target: Target) -> BatchHeader:
    """Many partitions' batches wait in one log: there a producer has a number for each partition that it writes to."""
    attributes = header.attributes & ~TIMESTAMP_TYPE_BIT
    if header.producer_id < 0:
        return header._replace(attributes=attributes)
    return header._replace(attributes=attributes, producer_id=producer_id_among_waiting(target, header.producer_id))


def producer_id_among_waiting(target: Target, producer_id: int) -> int:
    whole = target.topic_id.bytes + struct.pack(">iq", target.partition, producer_id)
    return int.from_bytes(blake2b(whole, digest_size=8).digest(), "big") >> 2
