"""OpenTelemetry's MetricsData out of protobuf, as far as Kafka's clients use it: gauges and sums of numbers.

Field numbers are those of opentelemetry/proto/metrics/v1/metrics.proto.  The bytes are strangers': whatever they are, reading
ends after a bounded number of points, and what is no protobuf raises ValueError.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

POINTS_MAX: Final = 1000
TEXT_MAX: Final = 200  # characters of a name or a label
LABELS_MAX: Final = 20  # of a point

VARINT, FIXED64, SIZED, FIXED32 = 0, 1, 2, 5
VARINT_BYTES_MAX = 10
DELTA = 1  # AGGREGATION_TEMPORALITY_DELTA
_DOUBLE = struct.Struct("<d")
_SIGNED = struct.Struct("<q")

Labels = tuple[tuple[str, str], ...]


class Point(NamedTuple):
    """One number that a client tells."""

    metric: str
    labels: Labels
    value: float
    only_grows: bool
    # Whether it is what was added since the last time, instead of all there is.
    is_delta: bool


def points_in(data: bytes) -> list[Point]:
    """What is told, the first `POINTS_MAX` of it."""
    points: list[Point] = []
    for metric in _metrics(memoryview(data)):
        for point in _points_of(metric):
            points.append(point)
            if len(points) == POINTS_MAX:
                return points
    return points


def _metrics(data: memoryview) -> Iterator[memoryview]:
    for resource in _messages(data, 1):
        for scope in _messages(resource, 2):
            yield from _messages(scope, 2)


def _points_of(metric: memoryview) -> Iterator[Point]:
    name = ""
    for number, value in _fields(metric):
        if number == 1 and isinstance(value, memoryview):
            name = _text(value)
        elif number in (5, 7) and isinstance(value, memoryview):  # a gauge, a sum
            yield from _numbers(name, value, is_sum=number == 7)


def _numbers(name: str, data: memoryview, *, is_sum: bool) -> Iterator[Point]:
    # What kind of sum it is stands after its points.
    kind = {number: value for number, value in _fields(data) if number in (2, 3)} if is_sum else {}
    for point in _messages(data, 1):
        value: float | None = None
        labels: list[tuple[str, str]] = []
        for number, found in _fields(point):
            if number == 4 and isinstance(found, bytes):
                value = _unpacked(_DOUBLE, found)
            elif number == 6 and isinstance(found, bytes):
                value = _unpacked(_SIGNED, found)
            elif number == 7 and isinstance(found, memoryview) and len(labels) < LABELS_MAX:
                labels.append(_label(found))
        if value is not None and name:
            yield Point(name, tuple(labels), value, is_sum and kind.get(3) == 1, is_sum and kind.get(2) == DELTA)


def _label(data: memoryview) -> tuple[str, str]:
    key, text = "", ""
    for number, found in _fields(data):
        if number == 1 and isinstance(found, memoryview):
            key = _text(found)
        elif number == 2 and isinstance(found, memoryview):
            text = _any_value(found)
    return key, text


def _any_value(data: memoryview) -> str:
    for number, found in _fields(data):
        if number == 1 and isinstance(found, memoryview):
            return _text(found)
        if number in (2, 3) and isinstance(found, int):
            return str(found - (1 << 64) if found >> 63 else found)
        if number == 4 and isinstance(found, bytes):
            return str(_unpacked(_DOUBLE, found))
    return ""


def _unpacked(number: struct.Struct, data: bytes) -> float:
    if len(data) != number.size:
        raise ValueError(f"a number has {len(data)} bytes instead of {number.size}")
    value: float = number.unpack(data)[0]
    return value


def _text(data: memoryview) -> str:
    return bytes(data[: TEXT_MAX * 4]).decode("utf-8", "replace")[:TEXT_MAX]


def _messages(data: memoryview, number: int) -> Iterator[memoryview]:
    return (value for found, value in _fields(data) if found == number and isinstance(value, memoryview))


def _fields(data: memoryview) -> Iterator[tuple[int, int | bytes | memoryview]]:
    """Every field of a message: a whole number, the bytes of a fixed one, or those of a text or a message in it."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if kind == SIZED:
            size, position = _varint(data, position)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"there is no wire type {kind}")
        if position + size > len(data):
            raise ValueError("a field reaches beyond its message")
        found = data[position : position + size]
        position += size
        yield number, found if kind == SIZED else bytes(found)


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(VARINT_BYTES_MAX):
        if position >= len(data):
            raise ValueError("a number ends too early")
        byte = data[position]
        position += 1
        value |= (byte & 127) << (7 * shift)
        if byte < 128:
            return value, position
    raise ValueError("a number is longer than ten bytes")
