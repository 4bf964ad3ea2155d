"""Record batches to Arrow columns without a Python object per record.

Finding where records begin is a loop, since each length says where the next one is; every other field is read for all records
at once with numpy, and keys and values go to Arrow by one gather each.  docs/spark.md has the figures
beside those of reading through client objects.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.model.time_to_live import TTL_HEADER, is_expired
from headrace.records.header import Buffer

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

VARINT_BYTES_MAX = 10
TTL_HEADER_BYTES = TTL_HEADER.encode()


class Section(NamedTuple):
    """The records of one batch inside a buffer."""

    position: int
    end: int
    record_count: int
    base_offset: int
    base_timestamp: int
    append_time: int | None  # set by the broker for the whole batch, when the topic says so


class Spans(NamedTuple):
    """Stretches of a buffer; a length of -1 is null."""

    starts: Numbers
    lengths: Numbers

    def only(self, chosen: Mask) -> "Spans":
        return Spans(self.starts[chosen], self.lengths[chosen])


class Headers(NamedTuple):
    """All headers of all records in order; record i has `counts[i]` of them."""

    counts: Numbers
    names: Spans
    values: Spans


class Columns(NamedTuple):
    """The fields of many records as arrays of equal length."""

    buffer: Buffer
    offsets: Numbers
    timestamps_ms: Numbers
    timestamp_types: npt.NDArray[np.int32]
    keys: Spans
    values: Spans
    headers: Headers | None  # read when asked for, and where one of them may be a time to live
    may_expire: bool


def decode(buffer: Buffer, sections: Sequence[Section], *, with_headers: bool) -> Columns:
    """Read the records of all sections.  Raises IndexError or ValueError when the bytes are not records."""
    data = np.frombuffer(buffer, np.uint8)
    counts = [section.record_count for section in sections]
    starts = np.concatenate([_record_starts(buffer, section) for section in sections])
    timestamp_deltas, position = varints(data, starts + 1)  # one byte of attributes comes first
    offset_deltas, position = varints(data, position)
    key_lengths, position = varints(data, position)
    key_starts, position = position, position + np.maximum(key_lengths, 0)
    value_lengths, position = varints(data, position)
    value_starts, position = position, position + np.maximum(value_lengths, 0)
    header_counts, position = varints(data, position)
    # Searching the bytes is dear, so it is done only where there are headers at all.
    may_expire = bool(header_counts.any()) and _contains(buffer, TTL_HEADER_BYTES)
    return Columns(
        buffer=buffer,
        offsets=np.repeat(np.array([section.base_offset for section in sections]), counts) + offset_deltas,
        timestamps_ms=_timestamps(sections, counts, timestamp_deltas),
        timestamp_types=np.repeat(np.array([0 if section.append_time is None else 1 for section in sections], np.int32), counts),
        keys=Spans(key_starts, key_lengths),
        values=Spans(value_starts, value_lengths),
        headers=_headers(data, header_counts, position) if with_headers or may_expire else None,
        may_expire=may_expire,
    )


def _record_starts(buffer: Buffer, section: Section) -> Numbers:
    """Where each record's fields begin, after its length."""
    found = [0] * section.record_count
    records = bytes(buffer[section.position : section.end])  # bytes are quicker to index than a view
    position = 0
    for index in range(section.record_count):
        byte = records[position]
        position += 1
        if byte < 0x80:
            length = byte >> 1
        else:
            length, shift = byte & 0x7F, 7
            while byte >= 0x80:
                byte = records[position]
                position += 1
                length |= (byte & 0x7F) << shift
                shift += 7
            length >>= 1
        found[index] = position
        position += length
    if position != len(records):
        raise ValueError(f"{section.record_count} records end at byte {position} of {len(records)}")
    return np.array(found, np.int64) + section.position


def varints(data: Bytes, position: Numbers) -> tuple[Numbers, Numbers]:
    """The zigzag varint at each position, and the positions after them."""
    byte = data[position]
    value = (byte & 0x7F).astype(np.int64)
    position = position + 1
    unfinished = np.flatnonzero(byte >= 0x80)
    shift = 7
    while unfinished.size:
        if shift >= 7 * VARINT_BYTES_MAX:
            raise ValueError("a number in a record has too many bytes")
        byte = data[position[unfinished]]
        value[unfinished] |= (byte & 0x7F).astype(np.int64) << shift
        position[unfinished] += 1
        unfinished = unfinished[byte >= 0x80]
        shift += 7
    return (value >> 1) ^ -(value & 1), position


def _timestamps(sections: Sequence[Section], counts: Sequence[int], deltas: Numbers) -> Numbers:
    bases = np.repeat(np.array([section.base_timestamp for section in sections]), counts) + deltas
    if all(section.append_time is None for section in sections):
        return bases
    stamped = np.repeat(np.array([section.append_time is not None for section in sections]), counts)
    append_times = np.repeat(np.array([section.append_time or 0 for section in sections]), counts)
    return np.where(stamped, append_times, bases)


def _contains(data: Buffer, wanted: bytes) -> bool:
    """Whether some bytes occur in a buffer; looks at the whole frame it lies in, which saves copying it."""
    owner = data.obj if isinstance(data, memoryview) else data
    return wanted in owner if isinstance(owner, bytes | bytearray) else wanted in bytes(data)


def _headers(data: Bytes, counts: Numbers, position: Numbers) -> Headers:
    """Read the first header of every record that has one, then the second, …; then put them in the records' order."""
    record = np.flatnonzero(counts > 0)
    position = position[record]
    columns: list[tuple[Numbers, Numbers, Numbers, Numbers, Numbers]] = []
    turn = 0
    while record.size:
        name_lengths, name_starts = varints(data, position)
        value_lengths, value_starts = varints(data, name_starts + np.maximum(name_lengths, 0))
        columns.append((record, name_starts, name_lengths, value_starts, value_lengths))
        turn += 1
        more = counts[record] > turn
        record, position = record[more], (value_starts + np.maximum(value_lengths, 0))[more]
    if not columns:
        nothing = np.empty(0, np.int64)
        return Headers(counts, Spans(nothing, nothing), Spans(nothing, nothing))
    order = np.argsort(np.concatenate([column[0] for column in columns]), kind="stable")
    _, name_starts, name_lengths, value_starts, value_lengths = (
        np.concatenate(part)[order] for part in zip(*columns, strict=True)
    )
    return Headers(counts, Spans(name_starts, name_lengths), Spans(value_starts, value_lengths))


def select(columns: Columns, chosen: Mask) -> Columns:
    """Only the chosen records."""
    if chosen.all():
        return columns
    headers = columns.headers
    if headers is not None:
        of_chosen = np.repeat(chosen, headers.counts)
        headers = Headers(headers.counts[chosen], headers.names.only(of_chosen), headers.values.only(of_chosen))
    return Columns(
        buffer=columns.buffer,
        offsets=columns.offsets[chosen],
        timestamps_ms=columns.timestamps_ms[chosen],
        timestamp_types=columns.timestamp_types[chosen],
        keys=columns.keys.only(chosen),
        values=columns.values.only(chosen),
        headers=headers,
        may_expire=columns.may_expire,
    )


def unexpired(columns: Columns, now_ms: int) -> Mask:
    """Which records a reader may still show.  Called only where one of them may have a time to live."""
    assert columns.headers is not None, "headers are read wherever a time to live may be among them"
    shown = np.ones(len(columns.offsets), np.bool_)
    view = memoryview(columns.buffer)
    counts, names, values = columns.headers
    first = np.cumsum(counts) - counts
    for record in np.flatnonzero(counts > 0):
        header_range = range(int(first[record]), int(first[record] + counts[record]))
        headers = [
            (str(_bytes(view, names, index) or b"", "utf-8", "replace"), _bytes(view, values, index)) for index in header_range
        ]
        shown[record] = not is_expired(headers, int(columns.timestamps_ms[record]), now_ms)
    return shown


def _bytes(view: memoryview, spans: Spans, index: int) -> bytes | None:
    start, length = int(spans.starts[index]), int(spans.lengths[index])
    return None if length < 0 else bytes(view[start : start + length])


def to_arrow(columns: Columns, *, topic: str, partition: int, schema: pa.Schema) -> pa.RecordBatch:
    """The columns that the schema names, as Spark wants them."""
    count = len(columns.offsets)
    storage = pa.py_buffer(columns.buffer)
    builders = {
        "key": lambda: gather(storage, columns.keys, pa.binary()),
        "value": lambda: gather(storage, columns.values, pa.binary()),
        "topic": lambda: pa.repeat(pa.scalar(topic, pa.string()), count),
        "partition": lambda: pa.array(np.full(count, partition, np.int32)),
        "offset": lambda: pa.array(columns.offsets),
        "timestamp": lambda: pa.array(columns.timestamps_ms * 1000, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        "timestampType": lambda: pa.array(columns.timestamp_types),
        "headers": lambda: _header_column(storage, columns.headers, schema.field("headers").type),
    }
    return pa.RecordBatch.from_arrays([builders[name]() for name in schema.names], schema=schema)


def gather(storage: pa.Buffer, spans: Spans, arrow_type: Any) -> pa.Array:
    """Copy stretches of a buffer into one Arrow column.

    Arrow's offsets must run on without holes, so the buffer is first seen as stretch, hole, stretch, hole, …, and then every
    second element is taken.
    """
    count = len(spans.starts)
    if not count:
        return pa.array([], arrow_type)
    null = spans.lengths < 0
    edges = np.empty(2 * count + 1, np.int32)
    edges[0:-1:2] = spans.starts
    edges[1::2] = spans.starts + np.maximum(spans.lengths, 0)
    edges[-1] = edges[-2]
    whole = pa.Array.from_buffers(arrow_type, 2 * count, [None, pa.py_buffer(edges), storage])
    return whole.take(pa.array(np.arange(0, 2 * count, 2), mask=null if null.any() else None))


def _header_column(storage: pa.Buffer, headers: Headers | None, arrow_type: Any) -> pa.Array:
    assert headers is not None, "headers are decoded when the schema has them"
    fields = [arrow_type.value_type.field(0), arrow_type.value_type.field(1)]
    pairs = pa.StructArray.from_arrays(
        [gather(storage, headers.names, pa.string()), gather(storage, headers.values, pa.binary())], fields=fields
    )
    edges = np.zeros(len(headers.counts) + 1, np.int32)
    np.cumsum(headers.counts, out=edges[1:])
    # A record without headers has null there, as Spark's own source gives it.
    without = pa.array(headers.counts == 0)
    return pa.ListArray.from_arrays(pa.array(edges), pairs, type=arrow_type, mask=without)
