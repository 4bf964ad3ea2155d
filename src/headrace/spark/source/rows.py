"""The columns that readers give, the same as those of Spark's own Kafka source, and their Arrow types."""

from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.spark.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa

HEADER_TYPE = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

COLUMNS = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(HEADER_TYPE),
}


def source_schema(*, include_headers: bool, value: DataType | None = None) -> StructType:
    """What a read gives when the query names no schema; `value` where values are decoded."""
    columns = COLUMNS if value is None else {**COLUMNS, "value": value}
    return StructType([StructField(name, kind) for name, kind in columns.items() if name != "headers" or include_headers])


def check_source_schema(schema: StructType, *, value_is_typed: bool = False) -> None:
    """A query may ask for some of the columns by `.schema("value BINARY, offset LONG")`; others there are none."""
    for column in schema.fields:
        if column.name not in COLUMNS:
            raise SchemaError(f"the headrace source has no column '{column.name}'; it has {', '.join(COLUMNS)}")
        expected, given = COLUMNS[column.name].simpleString(), column.dataType.simpleString()
        if expected != given and not (value_is_typed and column.name == "value"):
            raise SchemaError(f"column '{column.name}' of the headrace source is {expected}, not {given}")


def arrow_schema(schema: StructType) -> "pa.Schema":
    """The Arrow schema that Spark expects of a reader, to the letter."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
