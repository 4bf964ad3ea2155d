"""Committed offsets as records, by hand: they are nearly all that a group coordinator writes, and nearly all that it loads.

The layouts are those declared in `wire/entries/group.py`; a test holds the two together.  Whatever is not laid out exactly as we
write it ourselves is left to the declared codec.
"""

import struct
from uuid import UUID

from headrace.coordination.group.entries import CommittedOffset, OffsetEntry
from headrace.model.identity import NO_TOPIC_ID

_KIND = b"\x00\x01"
_LENGTH = struct.Struct(">h")
_INDEX = struct.Struct(">i")
_VALUE_HEAD = struct.Struct(">hqi")
_TIMESTAMP = struct.Struct(">q")
# One tagged field: number 0, sixteen bytes.
_TOPIC_ID_TAG = b"\x01\x00\x10"
_NO_TAGS = b"\x00"
# Lengths up to here take one byte in flexible versions.
_SHORT_MAX = 126
_VALUE_HEAD_BYTES = _VALUE_HEAD.size
_INDEX_BYTES = _INDEX.size
# Version 4 with an empty note and the topic's id.
_PLAIN = struct.Struct(">hqiBq19s")
_PLAIN_BYTES = _PLAIN.size
_TIMESTAMP_BYTES = _TIMESTAMP.size
_TOPIC_ID_BYTES = len(_TOPIC_ID_TAG) + 16


def write_key(entry: OffsetEntry) -> bytes:
    group, topic = entry.group_id.encode(), entry.topic.encode()
    return b"".join(
        (_KIND, _LENGTH.pack(len(group)), group, _LENGTH.pack(len(topic)), topic, _INDEX.pack(entry.partition)),
    )


def write_value(value: CommittedOffset) -> bytes | None:
    """None for a value that the declared codec must write."""
    if value.expire_timestamp_ms != -1 or len(value.metadata) > _SHORT_MAX:
        return None
    metadata = value.metadata.encode()
    timestamp = _TIMESTAMP.pack(value.commit_timestamp_ms)
    if value.topic_id == NO_TOPIC_ID:
        head = _VALUE_HEAD.pack(3, value.offset, value.leader_epoch)
        return b"".join((head, _LENGTH.pack(len(metadata)), metadata, timestamp))
    if len(metadata) > _SHORT_MAX:
        return None
    head = _VALUE_HEAD.pack(4, value.offset, value.leader_epoch)
    return b"".join((head, bytes((len(metadata) + 1,)), metadata, timestamp, _TOPIC_ID_TAG, value.topic_id.bytes))


class OffsetReader:
    """Reads offsets.  Names and ids repeat endlessly in a log, so each is made once."""

    def __init__(self) -> None:
        self._names: dict[bytes, tuple[str, str]] = {}
        self._ids: dict[bytes, UUID] = {}

    def read(self, key: bytes, value: bytes | None) -> OffsetEntry | None:
        """None for what the declared codec must read, or refuse."""
        if key[:2] != _KIND:
            return None
        try:
            names = self._names.get(key[:-_INDEX_BYTES]) or self._read_names(key)
            committed = None
            if value is not None:
                committed = self._read_plain(value) if len(value) == _PLAIN_BYTES else None
                committed = committed or self._read_value(value)
        except (struct.error, IndexError):
            return None
        if names is None or (committed is None) != (value is None):
            return None
        return OffsetEntry(*names, int.from_bytes(key[-_INDEX_BYTES:], "big", signed=True), committed)

    def _read_names(self, key: bytes) -> tuple[str, str] | None:
        """Group and topic; they come again in the key of every other partition of the topic."""
        group_end = 4 + _LENGTH.unpack_from(key, 2)[0]
        topic_end = group_end + 2 + _LENGTH.unpack_from(key, group_end)[0]
        if group_end < 4 or topic_end < group_end + 2 or topic_end + _INDEX_BYTES != len(key):
            return None
        names = (key[4:group_end].decode(), key[group_end + 2 : topic_end].decode())
        self._names[key[:topic_end]] = names
        return names

    def _read_plain(self, value: bytes) -> CommittedOffset | None:
        """An offset without a note, which most are, at one stroke."""
        version, offset, leader_epoch, note, timestamp, tail = _PLAIN.unpack(value)
        if version != 4 or note != 1:
            return None
        topic_id = self._ids.get(tail) or self._topic_id(version, tail)
        return None if topic_id is None else CommittedOffset(offset, leader_epoch, "", timestamp, -1, topic_id)

    def _read_value(self, value: bytes) -> CommittedOffset | None:
        version, offset, leader_epoch = _VALUE_HEAD.unpack_from(value)
        if version == 3:
            start = _VALUE_HEAD_BYTES + 2
            end = start + _LENGTH.unpack_from(value, _VALUE_HEAD_BYTES)[0]
        elif version == 4 and 0 < value[_VALUE_HEAD_BYTES] <= _SHORT_MAX + 1:
            start = _VALUE_HEAD_BYTES + 1
            end = start + value[_VALUE_HEAD_BYTES] - 1
        else:
            return None
        (timestamp,) = _TIMESTAMP.unpack_from(value, end)
        tail = end + _TIMESTAMP_BYTES
        topic_id = self._topic_id(version, value[tail:])
        if topic_id is None or end < start:
            return None
        metadata = value[start:end].decode() if end > start else ""
        return CommittedOffset(offset, leader_epoch, metadata, timestamp, -1, topic_id)

    def _topic_id(self, version: int, tail: bytes) -> UUID | None:
        if version == 3:
            return NO_TOPIC_ID if not tail else None
        if tail == _NO_TAGS:
            return NO_TOPIC_ID
        if len(tail) != _TOPIC_ID_BYTES or tail[:3] != _TOPIC_ID_TAG:
            return None
        known = self._ids.get(tail)
        if known is None:
            known = self._ids[tail] = UUID(bytes=tail[3:])
        return known
