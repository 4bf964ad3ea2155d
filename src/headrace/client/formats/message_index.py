"""Which message of a Protobuf file a record is of: its place at each level, as zigzag numbers behind their count; the first of
a file is just 0.  That is how Confluent's serializers write it."""

from __future__ import annotations

from typing import Any


def index_of(descriptor: Any) -> bytes:
    """The index of a message by its descriptor."""
    path: list[int] = []
    described = descriptor
    while described is not None:
        around = described.containing_type
        siblings = described.file.message_types_by_name if around is None else around.nested_types_by_name
        path.insert(0, list(siblings).index(described.name))
        described = around
    if path == [0]:
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(path), *path))


def read_index(data: bytes, start: int) -> tuple[list[int], int]:
    """The path to a message, and where the message begins.  Raises ValueError."""
    count, position = _read_varint(data, start)
    path = []
    for _ in range(count >> 1):
        number, position = _read_varint(data, position)
        path.append(number >> 1)
    return path or [0], position


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if position >= len(data):
            raise ValueError("it ends before its message begins")
        byte = data[position]
        number |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return number, position
        shift += 7
