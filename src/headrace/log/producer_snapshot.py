"""Producer states as a file, so that a restart need not read the log: Kafka's `.snapshot`, version 1.

version int16 | crc uint32 of all that follows | count int32 | entries of 46 bytes.  Only the last batch of each producer is kept.
"""

import struct
from collections.abc import Collection
from typing import NamedTuple

from crc32c import crc32c

VERSION = 1

_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_COVERED_POSITION = 6


class SnapshotEntry(NamedTuple):
    """One producer: -1 stands for no batch, no transaction, no coordinator."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


def encode_snapshot(entries: Collection[SnapshotEntry]) -> bytes:
    """The file's bytes."""
    data = bytearray(_HEAD.size + _ENTRY.size * len(entries))
    position = _HEAD.size
    for entry in entries:
        _ENTRY.pack_into(data, position, *entry)
        position += _ENTRY.size
    _HEAD.pack_into(data, 0, VERSION, 0, len(entries))
    _HEAD.pack_into(data, 0, VERSION, crc32c(memoryview(data)[_COVERED_POSITION:]), len(entries))
    return bytes(data)


def decode_snapshot(data: bytes) -> list[SnapshotEntry]:
    """The entries; ValueError when the file is not what was written."""
    if len(data) < _HEAD.size:
        raise ValueError("a producer snapshot is cut short")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"producer snapshot version {version} is not known")
    if crc32c(memoryview(data)[_COVERED_POSITION:]) != crc:
        raise ValueError("a producer snapshot's CRC does not match its bytes")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise ValueError("a producer snapshot's length does not match its count")
    return [SnapshotEntry._make(fields) for fields in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :])]
