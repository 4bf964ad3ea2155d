"""From Arrow rows to messages for the producer, and what a sink's columns must be."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, LongType, StringType, StructType, TimestampType

from headrace.spark.errors import DeliveryError, SchemaError

logger = logging.getLogger("headrace.spark")

CHUNK_ROWS = 5_000
CHUNK_BYTES = 8 * 1024 * 1024
ANY_PARTITION = -1

SINK_COLUMNS: dict[str, tuple[type[DataType], ...]] = {
    "key": (BinaryType, StringType),
    "value": (BinaryType, StringType),
    "topic": (StringType,),
    "partition": (IntegerType, LongType),
    "timestamp": (TimestampType,),
    "headers": (ArrayType,),
}
SOURCE_ONLY_COLUMNS = frozenset({"offset", "timestampType"})

Header = tuple[str, bytes | None]


class Outgoing(NamedTuple):
    """A run of rows as columns of Python values, ready for the producer; None where the frame lacks the column."""

    row_count: int
    byte_count: int
    keys: Sequence[bytes | None] | None
    values: Sequence[bytes | None]
    topics: Sequence[str | None] | None
    partitions: Sequence[int | None] | None
    timestamps_ms: Sequence[int | None] | None
    headers: Sequence[list[Header] | None] | None


def check_sink_schema(schema: StructType, topic: str | None, *, value_is_typed: bool = False) -> None:
    """Refuse a frame that cannot become records, before any task runs."""
    columns = {column.name: column.dataType for column in schema.fields}
    if "value" not in columns:
        raise SchemaError(f"the headrace sink needs a column 'value'; the frame has {', '.join(columns) or 'no columns'}")
    if topic is None and "topic" not in columns:
        raise SchemaError(
            "the headrace sink needs to know where to write: set the option 'topic' or give the frame a column 'topic'"
        )
    for name, types in SINK_COLUMNS.items():
        if name == "value" and value_is_typed:
            types = (StructType,)
        if name in columns and not isinstance(columns[name], types):
            wanted = " or ".join(one.typeName() for one in types)
            raise SchemaError(f"column '{name}' is {columns[name].simpleString()}, but the headrace sink takes {wanted} there")
    _check_headers(columns.get("headers"))
    ignored = sorted(columns.keys() - SINK_COLUMNS.keys() - SOURCE_ONLY_COLUMNS)
    if ignored:
        logger.warning("the headrace sink does not write the columns %s", ", ".join(ignored))


def _check_headers(found: DataType | None) -> None:
    if found is None:
        return
    element = found.elementType if isinstance(found, ArrayType) else None
    fields = [(field.name, field.dataType) for field in element.fields] if isinstance(element, StructType) else []
    fits = (
        len(fields) == 2
        and [name for name, _ in fields] == ["key", "value"]
        and isinstance(fields[0][1], StringType)
        and isinstance(fields[1][1], BinaryType | StringType)
    )
    if not fits:
        raise SchemaError(
            f"column 'headers' is {found.simpleString()}, "
            "but the headrace sink takes array<struct<key:string,value:binary>> there"
        )


def outgoing(batch: pa.RecordBatch) -> Iterator[Outgoing]:
    """Cut an Arrow batch into runs that a producer's queue takes easily."""
    if not batch.num_rows:
        return
    row_bytes = max(1, batch.nbytes // batch.num_rows)
    rows = max(1, min(CHUNK_ROWS, CHUNK_BYTES // row_bytes))
    for start in range(0, batch.num_rows, rows):
        yield _convert(batch.slice(start, rows))


def _convert(batch: pa.RecordBatch) -> Outgoing:
    columns = {name: batch.column(index) for index, name in enumerate(batch.schema.names) if name in SINK_COLUMNS}
    return Outgoing(
        row_count=batch.num_rows,
        byte_count=_byte_count(columns),
        keys=_bytes(columns["key"]) if "key" in columns else None,
        values=_bytes(columns["value"]),
        topics=columns["topic"].to_pylist() if "topic" in columns else None,
        partitions=_partitions(columns["partition"]) if "partition" in columns else None,
        timestamps_ms=_milliseconds(columns["timestamp"]) if "timestamp" in columns else None,
        headers=_headers(columns["headers"]) if "headers" in columns else None,
    )


def _byte_count(columns: dict[str, Any]) -> int:
    return sum(pc.sum(pc.binary_length(columns[name])).as_py() or 0 for name in ("key", "value") if name in columns)


def _bytes(column: pa.Array) -> list[bytes | None]:
    binary = column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
    # An object array is several times quicker to make than a list of scalars.
    values: list[bytes | None] = binary.to_numpy(zero_copy_only=False).tolist()
    return values


def _partitions(column: pa.Array) -> list[int | None]:
    least = pc.min(column).as_py()
    if least is not None and least < 0:
        raise DeliveryError(f"a row has partition {least}, but partitions are numbered from 0; null lets the key decide")
    values: list[int | None] = column.to_pylist()
    return values


def _milliseconds(column: pa.Array) -> list[int | None]:
    values: list[int | None] = pc.divide(column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()), 1000).to_pylist()
    return values


def _headers(column: pa.Array) -> list[list[Header] | None]:
    if column.null_count == len(column):
        return [None] * len(column)
    rows: list[list[dict[str, Any]] | None] = column.to_pylist()
    return [None if row is None else [_header(one) for one in row] for row in rows]


def _header(one: dict[str, Any]) -> Header:
    if one is None or one["key"] is None:
        raise DeliveryError("a row has a header without a name, which a record cannot carry")
    value = one["value"]
    return one["key"], value.encode() if isinstance(value, str) else value


def topic_of(topics: Sequence[str | None] | None, row: int, default: str | None) -> str:
    """Where a row goes: the option counts for all rows, as in Spark's own sink."""
    if default is not None:
        return default
    found = topics[row] if topics is not None else None
    if found is None:
        raise DeliveryError("a row has no topic: its column 'topic' is null, and the option 'topic' is not set")
    return found
