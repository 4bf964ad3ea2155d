"""Entries of what waits as records of `__headrace_delayed`, and back.

The topic is compacted: an entry that a record is gone is a tombstone of the entry that it waits.

key    version 0x01 | kind | six bytes of due time | eight bytes of uid          a record, or a cancellation, where the time is 0
       version 0x01 | kind | topic id | partition                                a plan
value  of a record: topic id | partition | codec | has a key | what the key comes to | the record itself, as in a batch
       of a cancellation: topic id | partition | what the key comes to
       of a plan: generation | first sequence | time | how many | an offset each
"""

import struct
from hashlib import blake2b
from typing import Final, NamedTuple
from uuid import UUID

from headrace.coordination.delay.entries import Cancelled, Entry, Gone, Planned, Staged, Target
from headrace.records.header import MAGIC, BatchHeader
from headrace.records.record import Record, parse_some, write_record

VERSION: Final = 1
STAGED: Final = ord("r")
CANCELLED: Final = ord("c")
PLANNED: Final = ord("p")

_UNDER_UID = struct.Struct(">BBHIq")
_UNDER_TARGET = struct.Struct(">BB16si")
_KIND = struct.Struct(">BB")
_STAGED = struct.Struct(">16siBBqq")
_CANCELLED = struct.Struct(">16siq")
_PLANNED = struct.Struct(">qiqi")
# A record by itself lies in its entry as in a batch that begins at offset 0 and time 0.
_ALONE = BatchHeader(0, 0, -1, MAGIC, 0, 0, 0, 0, 0, -1, -1, -1, 1)


class Payload(NamedTuple):
    """A record that waits, and in which codec it came."""

    codec: int
    record: Record


class DelayEntryCodec:
    """Satisfies the coordinators' EntryCodec."""

    def encode(self, entry: Entry) -> tuple[bytes, bytes | None]:
        match entry:
            case Staged():
                return _key(STAGED, entry.uid, entry.due_ms), entry.payload
            case Cancelled():
                value = _CANCELLED.pack(entry.target.topic_id.bytes, entry.target.partition, entry.key_hash)
                return _key(CANCELLED, entry.uid), value
            case Planned():
                return _UNDER_TARGET.pack(VERSION, PLANNED, entry.target.topic_id.bytes, entry.target.partition), _plan(entry)
            case Gone():
                return _key(CANCELLED if entry.was_cancellation else STAGED, entry.uid, entry.due_ms), None

    def decode(self, key: bytes, value: bytes | None) -> Entry | None:
        version, kind = _KIND.unpack_from(key)
        if version != VERSION or kind not in (STAGED, CANCELLED, PLANNED):
            return None
        if kind == PLANNED:
            return None if value is None else _read_plan(key, value)
        _, _, high, low, uid = _UNDER_UID.unpack(key)
        due_ms = high << 32 | low
        if value is None:
            return Gone(uid, due_ms, was_cancellation=kind == CANCELLED)
        if kind == CANCELLED:
            topic_id, partition, key_hash = _CANCELLED.unpack(value)
            return Cancelled(uid, Target(UUID(bytes=topic_id), partition), key_hash)
        topic_id, partition, _, has_key, key_hash, _ = _STAGED.unpack_from(value)
        return Staged(uid, due_ms, Target(UUID(bytes=topic_id), partition), key_hash if has_key else None, value)


def staged_payload(target: Target, codec: int, record: Record) -> bytes:
    """The value of a record that waits."""
    has_key = record.key is not None
    head = _STAGED.pack(
        target.topic_id.bytes, target.partition, codec, has_key, key_hash_of(record.key) if has_key else 0, record.timestamp
    )
    return head + write_record(record, 0, 0)


def read_payload(payload: bytes) -> Payload:
    _, _, codec, _, _, timestamp = _STAGED.unpack_from(payload)
    (record,), _ = parse_some(_ALONE, payload, _STAGED.size, 1)
    return Payload(codec, record._replace(timestamp=timestamp))


def key_hash_of(key: bytes | None) -> int:
    assert key is not None, "a record without a key has none to go by"
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big", signed=True)


def _key(kind: int, uid: int, due_ms: int = 0) -> bytes:
    return _UNDER_UID.pack(VERSION, kind, due_ms >> 32, due_ms & 0xFFFF_FFFF, uid)


def _plan(planned: Planned) -> bytes:
    head = _PLANNED.pack(planned.generation, planned.base_sequence, planned.at_ms, len(planned.offsets))
    return head + struct.pack(f">{len(planned.offsets)}q", *planned.offsets)


def _read_plan(key: bytes, value: bytes) -> Planned:
    _, _, topic_id, partition = _UNDER_TARGET.unpack(key)
    generation, base_sequence, at_ms, count = _PLANNED.unpack_from(value)
    offsets = struct.unpack_from(f">{count}q", value, _PLANNED.size)
    return Planned(Target(UUID(bytes=topic_id), partition), generation, base_sequence, at_ms, offsets)
