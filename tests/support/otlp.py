"""OpenTelemetry's MetricsData as clients write it, made by hand: protobuf is numbers, sizes and bytes."""

import struct


def varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def label(key: str, value: str | int) -> bytes:
    given = field(1, value.encode()) if isinstance(value, str) else field(3, value)
    return field(1, key.encode()) + field(2, given)


def point(value: float, *labels: bytes) -> bytes:
    number = (
        varint(6 << 3 | 1) + struct.pack("<q", value) if isinstance(value, int) else varint(4 << 3 | 1) + struct.pack("<d", value)
    )
    return varint(3 << 3 | 1) + struct.pack("<Q", 1) + number + b"".join(field(7, each) for each in labels)


def gauge(name: str, *points: bytes) -> bytes:
    return field(1, name.encode()) + field(5, b"".join(field(1, each) for each in points))


def total(name: str, *points: bytes, is_delta: bool = False, only_grows: bool = True) -> bytes:
    kind = field(2, 1 if is_delta else 2) + field(3, int(only_grows))
    return field(1, name.encode()) + field(7, b"".join(field(1, each) for each in points) + kind)


def metrics_data(*metrics: bytes) -> bytes:
    """One client's, under a scope of its own."""
    return field(1, field(1, b"") + field(2, field(1, b"") + b"".join(field(2, each) for each in metrics)))
