"""Producer states as a file, so that a restart need not read the log: Kafka's `.snapshot`, version 1.

version int16 | crc uint32 of all that follows | count int32 | entries of 46 bytes.  That much has only the last batch of each
producer, so an earlier one sent again after a restart would be taken for one out of order.  The batches before the last follow
behind, 40 bytes each, oldest first; Kafka's reader checks the CRC to the end of the file and reads no further than the entries.
"""

import struct
from collections.abc import Collection
from typing import NamedTuple

from headrace.records.checksum import crc32c

VERSION = 1

_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_EARLIER = struct.Struct(">qiiqqq")
_COVERED_POSITION = 6


class WrittenBatch(NamedTuple):
    """One batch of a producer that is in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


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
    earlier: tuple[WrittenBatch, ...] = ()


def encode_snapshot(entries: Collection[SnapshotEntry]) -> bytes:
    """The file's bytes."""
    data = bytearray(_HEAD.size)
    for entry in entries:
        data += _ENTRY.pack(*entry[:-1])
    for entry in entries:
        for batch in entry.earlier:
            data += _EARLIER.pack(entry.producer_id, *batch)
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
    end = _HEAD.size + count * _ENTRY.size
    if count < 0 or len(data) < end or (len(data) - end) % _EARLIER.size:
        raise ValueError("a producer snapshot's length does not match its count")
    earlier: dict[int, list[WrittenBatch]] = {}
    for producer_id, *batch in _EARLIER.iter_unpack(memoryview(data)[end:]):
        earlier.setdefault(producer_id, []).append(WrittenBatch._make(batch))
    fields = _ENTRY.iter_unpack(memoryview(data)[_HEAD.size : end])
    return [SnapshotEntry._make((*entry, tuple(earlier.get(entry[0], ())))) for entry in fields]
