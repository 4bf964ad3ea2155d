"""Single records: what is inside a batch once it is opened.  Only those who must look at records pay for it.

A record is a length and then attributes, timestamp delta, offset delta, key, value and headers, the numbers as zig-zag varints.
"""

from collections.abc import Iterator
from typing import NamedTuple

from headrace.model.errors import ErrorCode
from headrace.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from headrace.records.header import HEADER_BYTES, TIMESTAMP_TYPE_BIT, BatchError, BatchHeader, Buffer, read_header

Headers = tuple[tuple[str, bytes | None], ...]

# Length, attributes, two deltas, two lengths and a header count take a byte each at least.
RECORD_BYTES_MIN = 7


class Record(NamedTuple):
    """One message.  A key or value of None is null, which is not the same as empty."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()


def read_records(batch: Buffer, limit: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """All records of one batch, whatever its codec.  Raises BatchError when they are not what the header says, and
    CompressionError when they cannot be unpacked."""
    header = read_header(batch)
    return parse_records(header, unpacked_body(header, batch, limit))


def unpacked_body(header: BatchHeader, batch: Buffer, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The records' bytes, unpacked, of at most `limit` bytes."""
    return decompress(header.compression, memoryview(batch)[HEADER_BYTES : header.size], limit)


def parse_records(header: BatchHeader, body: bytes) -> list[Record]:
    """The records in an unpacked body."""
    _check_count(header, body)
    records, position = parse_some(header, body, 0, header.record_count)
    _check_end(body, position)
    return records


def parse_in_parts(header: BatchHeader, body: bytes, records_max: int, bytes_max: int) -> Iterator[list[Record]]:
    """The same, some at a time, for those who must not be busy for long: so many records, or as many as have so many bytes."""
    _check_count(header, body)
    position, left = 0, header.record_count
    at_once = max(1, min(records_max, left * bytes_max // (len(body) or 1)))
    while left > 0:
        records, position = parse_some(header, body, position, min(left, at_once))
        left -= len(records)
        yield records
    _check_end(body, position)


def parse_some(header: BatchHeader, body: bytes, position: int, count: int) -> tuple[list[Record], int]:
    """So many records from a position on, and the position after them."""
    records = []
    try:
        for _ in range(count):
            record, position = _parse_record(header, body, position)
            records.append(record)
    except IndexError:
        raise BatchError("a record reaches beyond its batch", ErrorCode.INVALID_RECORD) from None
    except UnicodeDecodeError:
        raise BatchError("a header's name is not UTF-8", ErrorCode.INVALID_RECORD) from None
    return records, position


def _check_count(header: BatchHeader, body: bytes) -> None:
    if header.record_count < 0 or header.record_count * RECORD_BYTES_MIN > len(body):
        raise BatchError(f"a batch of {len(body)} bytes cannot hold {header.record_count} records", ErrorCode.INVALID_RECORD)


def _check_end(body: bytes, position: int) -> None:
    if position != len(body):
        raise BatchError(f"{len(body) - position} bytes follow the last record", ErrorCode.INVALID_RECORD)


def read_pairs(batch: Buffer, limit: int = DECOMPRESSED_BYTES_MAX) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of each record of one batch: what whoever replays a log wants, at half the price of whole records."""
    header = read_header(batch)
    body = unpacked_body(header, batch, limit)
    _check_count(header, body)
    pairs = []
    base_offset, position = header.base_offset, 0
    try:
        for _ in range(header.record_count):
            length, position = read_varint(body, position)
            end = position + length
            if length < 0 or end > len(body):
                raise IndexError
            _, position = read_varint(body, position + 1)
            offset_delta, position = read_varint(body, position)
            key, position = _read_bytes(body, position)
            value, position = _read_bytes(body, position)
            if position >= end:
                raise IndexError
            pairs.append((base_offset + offset_delta, key, value))
            position = end
    except IndexError:
        raise BatchError("a record reaches beyond its batch", ErrorCode.INVALID_RECORD) from None
    return pairs


def _parse_record(header: BatchHeader, body: bytes, position: int) -> tuple[Record, int]:
    length, position = read_varint(body, position)
    end = position + length
    if length < 0 or end > len(body):
        raise IndexError
    timestamp_delta, position = read_varint(body, position + 1)  # the attributes byte is unused
    offset_delta, position = read_varint(body, position)
    key, position = _read_bytes(body, position)
    value, position = _read_bytes(body, position)
    count, position = read_varint(body, position)
    headers: Headers = ()
    if count:
        headers, position = _read_headers(body, position, count)
    if position != end:
        raise BatchError("a record's length is not that of its fields", ErrorCode.INVALID_RECORD)
    timestamp = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else header.base_timestamp + timestamp_delta
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), position


def _read_headers(body: bytes, position: int, count: int) -> tuple[Headers, int]:
    # A header takes two bytes at least.
    if count < 0 or count * 2 > len(body) - position:
        raise IndexError
    headers = []
    for _ in range(count):
        name, position = _read_bytes(body, position)
        if name is None:
            raise BatchError("a header's name is null", ErrorCode.INVALID_RECORD)
        value, position = _read_bytes(body, position)
        headers.append((name.decode(), value))
    return tuple(headers), position


def _read_bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    byte = body[position]
    if byte < 0x80:
        length, position = (byte >> 1) ^ -(byte & 1), position + 1
    else:
        length, position = read_varint(body, position)
    if length < 0:
        if length != -1:
            raise IndexError
        return None, position
    end = position + length
    if end > len(body):
        raise IndexError
    return body[position:end], end


def read_varint(body: bytes, position: int) -> tuple[int, int]:
    """A zig-zag number of up to 64 bits, and the position after it."""
    byte = body[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    number = byte & 0x7F
    shift = 7
    while True:
        byte = body[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7
        if shift > 63:
            raise BatchError("a number in a record is longer than 64 bits", ErrorCode.INVALID_RECORD)


def varint(number: int) -> bytes:
    """The zig-zag form of a number of up to 64 bits."""
    number = (number << 1) ^ (number >> 63)
    if number < 0x80:
        return _SINGLE_BYTES[number]
    output = bytearray()
    while number >= 0x80:
        output.append((number & 0x7F) | 0x80)
        number >>= 7
    output.append(number)
    return bytes(output)


_SINGLE_BYTES = tuple(bytes((number,)) for number in range(0x80))
_NULL = varint(-1)


def write_record(record: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    """One record as it lies in an unpacked body."""
    parts = [b"\x00", varint(timestamp_delta), varint(offset_delta)]
    for field in (record.key, record.value):
        if field is None:
            parts.append(_NULL)
        else:
            parts += (varint(len(field)), field)
    parts.append(varint(len(record.headers)))
    for name, value in record.headers:
        encoded = name.encode()
        parts += (varint(len(encoded)), encoded)
        parts += (_NULL,) if value is None else (varint(len(value)), value)
    body = b"".join(parts)
    return varint(len(body)) + body
