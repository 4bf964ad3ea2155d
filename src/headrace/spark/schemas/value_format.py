"""Values by a schema of a registry: typed columns of the source, and columns that the sink writes by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from headrace.client.errors import HeadraceError
from headrace.spark.errors import DeliveryError, OptionError, SchemaError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType

FORMATS = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFormat:
    """What was told of it.  `bad_is_null` shows a value that its schema does not fit as null, and does not fail."""

    kind: str
    registry: str | None
    subject: str
    bad_is_null: bool = False


class Columns(Protocol):
    """The newest schema of a subject, as columns."""

    def column(self) -> DataType: ...

    def decoder(self) -> Callable[[bytes], Any]: ...

    def encoder(self) -> Callable[[Any], bytes]: ...


def columns_of(wanted: ValueFormat) -> Columns:
    """Asks the registry for the newest schema."""
    from headrace.client.formats.registry import SchemaRegistry

    registry = SchemaRegistry(wanted.registry)
    try:
        id, schema = registry.latest(wanted.subject)
    except HeadraceError as error:
        raise OptionError(f"option 'valueFormat' is '{wanted.kind}', and its schema cannot be had: {error}") from None
    if schema.type != FORMATS[wanted.kind]:
        raise OptionError(f"option 'valueFormat' is '{wanted.kind}', and the schema of '{wanted.subject}' is {schema.type}")
    try:
        match wanted.kind:
            case "avro":
                from headrace.spark.schemas.avro_columns import AvroColumns

                return AvroColumns(registry, id, schema)
            case "protobuf":
                from headrace.spark.schemas.protobuf_columns import ProtobufColumns

                return ProtobufColumns(registry, id, schema)
        from headrace.spark.schemas.json_columns import JsonColumns

        return JsonColumns(registry, id, schema)
    except ImportError as error:
        raise OptionError(f"option 'valueFormat' needs pip install 'headrace[schemas]' ({error})") from None


def value_column(wanted: ValueFormat) -> DataType:
    return columns_of(wanted).column()


def with_bytes(schema: pa.Schema) -> pa.Schema:
    """A reader's schema before its values are decoded."""
    import pyarrow as pa

    at = schema.get_field_index("value")
    return schema if at < 0 else schema.set(at, pa.field("value", pa.binary()))


def decoded(batches: Iterator[pa.RecordBatch], schema: pa.Schema, wanted: ValueFormat) -> Iterator[pa.RecordBatch]:
    """Rows with their values as columns of the wanted schema."""
    import pyarrow as pa

    at = schema.get_field_index("value")
    decode: Callable[[bytes], Any] | None = None
    for batch in batches:
        if at < 0:
            yield batch
            continue
        decode = decode or _careful(columns_of(wanted).decoder(), wanted)
        values = [None if each is None else decode(each) for each in batch.column(at).to_pylist()]
        column = pa.array(values, type=schema.field(at).type)
        yield pa.RecordBatch.from_arrays([*batch.columns[:at], column, *batch.columns[at + 1 :]], schema=schema)


def _careful(decode: Callable[[bytes], Any], wanted: ValueFormat) -> Callable[[bytes], Any]:
    def attempt(data: bytes) -> Any:
        try:
            return decode(data)
        except HeadraceError:
            raise
        except Exception as error:  # what a library makes of bytes that are not of its format
            if wanted.bad_is_null:
                return None
            raise SchemaError(
                f"a value is not {wanted.kind} by a schema of the registry: {error}; set badValues to null to go on without it"
            ) from None

    return attempt


def encoded(batches: Iterator[pa.RecordBatch], wanted: ValueFormat | None) -> Iterator[pa.RecordBatch]:
    """Rows with their values as bytes; as they are where no format is wanted."""
    if wanted is None:
        yield from batches
        return
    import pyarrow as pa

    encode: Callable[[Any], bytes] | None = None
    for batch in batches:
        encode = encode or columns_of(wanted).encoder()
        at = batch.schema.get_field_index("value")
        try:
            column = batch.column(at)
            values = [None if each is None else encode(_with_dicts(each, column.type)) for each in column.to_pylist()]
        except HeadraceError:
            raise
        except Exception as error:  # what a library says of values that its schema does not have
            raise DeliveryError(f"a row's value does not fit the newest schema of '{wanted.subject}': {error}") from None
        columns = [*batch.columns[:at], pa.array(values, type=pa.binary()), *batch.columns[at + 1 :]]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _with_dicts(value: Any, kind: pa.DataType) -> Any:
    """Arrow gives maps as pairs, and libraries take them as dicts."""
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: _with_dicts(each, kind.item_type) for key, each in value}
    if pa.types.is_struct(kind):
        return {field.name: _with_dicts(value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_with_dicts(each, kind.value_type) for each in value]
    return value
