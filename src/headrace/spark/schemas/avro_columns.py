"""Avro as columns: the types that Spark's own `from_avro` gives, and values on their way in and out."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, Final

import orjson
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.client.formats.avro import Avro
from headrace.client.formats.registry import RegisteredSchema, SchemaRegistry
from headrace.client.formats.schema_format import HEADER, MAGIC
from headrace.spark.errors import SchemaError

PLAIN: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
LOGICAL: Final[dict[str, DataType]] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "uuid": StringType(),
}


class AvroColumns:
    """One subject's newest schema."""

    def __init__(self, registry: SchemaRegistry, id: int, schema: RegisteredSchema) -> None:
        self._id = id
        # With references a schema is not whole by itself: values are then read as they were written.
        self._avro: Avro[Any] = Avro(None if schema.references else schema.text, registry=registry)
        self._schema = self._avro._written_with(id)

    def column(self) -> DataType:
        return _type(self._schema, {}, ())

    def decoder(self) -> Callable[[bytes], Any]:
        return lambda data: _out(self._avro.decode(data))

    def encoder(self) -> Callable[[Any], bytes]:
        import io

        from fastavro import schemaless_writer

        header = HEADER.pack(MAGIC, self._id)

        def encode(value: Any) -> bytes:
            into = io.BytesIO(header)
            into.seek(len(header))
            schemaless_writer(into, self._schema, value)
            return into.getvalue()

        return encode


def _out(value: Any) -> Any:
    """What fastavro makes of logical types that Spark shows as plain ones."""
    match value:
        case dict():
            return {name: _out(each) for name, each in value.items()}
        case list():
            return [_out(each) for each in value]
        case datetime.time():
            return (value.hour * 3600 + value.minute * 60 + value.second) * 1_000_000 + value.microsecond
        case _ if type(value).__name__ == "UUID":
            return str(value)
    return value


def _type(schema: Any, named: dict[str, Any], around: tuple[str, ...]) -> DataType:
    if isinstance(schema, list):
        return _union(schema, named, around)
    if isinstance(schema, str):
        if schema in PLAIN:
            return PLAIN[schema]
        if schema in around:
            raise SchemaError(f"'{schema}' contains itself, and no column has a type that does")
        if schema not in named:
            raise SchemaError(f"Avro type '{schema}' is not a column's")
        return _type(named[schema], named, around)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0))
    if logical in ("time-millis", "time-micros"):
        return LongType()
    if logical in LOGICAL:
        return LOGICAL[logical]
    if kind == "array":
        return ArrayType(_type(schema["items"], named, around))
    if kind == "map":
        return MapType(StringType(), _type(schema["values"], named, around))
    if kind in ("record", "error"):
        name = schema["name"]
        named[name] = schema
        inner = (*around, name)
        return StructType([StructField(each["name"], _type(each["type"], named, inner)) for each in schema["fields"]])
    if kind in ("enum", "fixed"):
        named[schema["name"]] = schema
    return _type(kind, named, around) if not isinstance(kind, str) or kind not in PLAIN else PLAIN[kind]


def _union(branches: list[Any], named: dict[str, Any], around: tuple[str, ...]) -> DataType:
    wanted = [each for each in branches if each != "null"]
    if len(wanted) == 1:
        return _type(wanted[0], named, around)
    if {_name(each) for each in wanted} == {"int", "long"}:
        return LongType()
    if {_name(each) for each in wanted} == {"float", "double"}:
        return DoubleType()
    raise SchemaError(f"a column has one type, and a field may be any of {orjson.dumps(branches).decode()}")


def _name(schema: Any) -> str:
    return schema if isinstance(schema, str) else "" if isinstance(schema, list) else str(schema["type"])
