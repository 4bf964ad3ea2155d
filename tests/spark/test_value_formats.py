"""Values by a schema of a registry: typed columns out of a topic, and rows into one, as other clients read and write them."""

import datetime
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace import Consumer, Producer
from headrace.client.formats.avro import Avro
from headrace.client.formats.registry import SchemaRegistry
from headrace.spark.errors import OptionError, SchemaError
from headrace.spark.options.options import sink_options, source_options
from headrace.spark.schemas.value_format import ValueFormat, columns_of
from tests.spark.conftest import TopicMaker
from tests.support.registry import Registry

LINE = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
    ],
}
AT = datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC)
VALUE = {"id": 7, "at": AT, "note": None, "lines": [{"n": 1}, {"n": 2}], "tags": {"a": "b"}}
COLUMNS = "struct<id:bigint,at:timestamp,note:string,lines:array<struct<n:int>>,tags:map<string,string>>"
PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  google.protobuf.Timestamp at = 2;
  optional string note = 3;
  repeated Line lines = 4;
  map<string, string> tags = 5;
  Kind kind = 6;
  message Line { int32 n = 1; }
  enum Kind { UNKNOWN = 0; SALE = 1; }
}
"""
DOCUMENT = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {},
    },
    "required": ["id"],
    "$defs": {"line": {"type": "object", "properties": {"n": {"type": "integer"}}}},
}


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[Registry]:
    with Registry(bootstrap, f"_schemas-{uuid.uuid4().hex[:8]}") as running:
        yield running


def register(registry: Registry, subject: str, kind: str, schema: Any) -> None:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    status, told = registry.ask("POST", f"/subjects/{subject}/versions", {"schema": text, "schemaType": kind})
    assert status == 200, told


def columns(registry: Registry, subject: str, kind: str) -> Any:
    return columns_of(ValueFormat(kind=kind, registry=registry.url, subject=subject))


def test_avro_has_the_types_that_spark_gives_it(registry: Registry) -> None:
    register(registry, "typed-avro", "AVRO", ORDER)
    found = columns(registry, "typed-avro", "avro")

    assert found.column().simpleString() == COLUMNS
    assert found.decoder()(found.encoder()(VALUE)) == VALUE


def test_protobuf_needs_no_generated_code(registry: Registry) -> None:
    register(registry, "typed-protobuf", "PROTOBUF", PROTO)
    found = columns(registry, "typed-protobuf", "protobuf")

    assert found.column().simpleString() == COLUMNS.removesuffix(">") + ",kind:string>"
    assert found.decoder()(found.encoder()({**VALUE, "kind": "SALE"})) == {**VALUE, "tags": [("a", "b")], "kind": "SALE"}
    with pytest.raises(ValueError, match="'RENT' is not one of UNKNOWN, SALE"):
        found.encoder()({"kind": "RENT"})


def test_json_is_shaped_and_what_its_schema_leaves_open_is_text(registry: Registry) -> None:
    register(registry, "typed-json", "JSON", DOCUMENT)
    found = columns(registry, "typed-json", "json-schema")
    encode = found.encoder()

    assert found.column().simpleString() == (
        "struct<id:bigint,note:string,lines:array<struct<n:bigint>>,tags:map<string,string>,any:string>"
    )
    assert found.decoder()(encode({"id": 1, "note": None, "lines": [{"n": 2}], "tags": {"a": "b"}, "any": {"x": 1}})) == {
        "id": 1,
        "note": None,
        "lines": [{"n": 2}],
        "tags": [("a", "b")],
        "any": '{"x":1}',
    }
    with pytest.raises(ValueError, match="id"):
        encode({"note": "without an id"})


def test_what_no_column_can_be_is_refused(registry: Registry) -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    register(registry, "endless", "AVRO", node)
    either = {"type": "record", "name": "Either", "fields": [{"name": "one", "type": ["string", "long"]}]}
    register(registry, "either", "AVRO", either)

    with pytest.raises(SchemaError, match="contains itself"):
        columns(registry, "endless", "avro").column()
    with pytest.raises(SchemaError, match="a column has one type"):
        columns(registry, "either", "avro").column()
    with pytest.raises(OptionError, match="is AVRO"):
        columns(registry, "either", "protobuf")
    with pytest.raises(OptionError, match="cannot be had"):
        columns(registry, "nothing", "avro")


def test_options_of_values_are_read_and_checked() -> None:
    given = {"kafka.bootstrap.servers": "here:9092", "subscribe": "orders"}
    source = source_options({**given, "valueformat": "avro", "badvalues": "null"}, streaming=False).value
    sink = sink_options(
        {"kafka.bootstrap.servers": "here:9092", "topic": "t", "valueformat": "protobuf", "valuesubject": "s"}
    ).value

    assert source == ValueFormat(kind="avro", registry=None, subject="orders-value", bad_is_null=True)
    assert sink == ValueFormat(kind="protobuf", registry=None, subject="s")
    with pytest.raises(OptionError, match="valueSubject"):
        source_options({**given, "subscribe": "a,b", "valueformat": "avro"}, streaming=False)
    with pytest.raises(OptionError, match="without valueFormat"):
        source_options({**given, "badvalues": "null"}, streaming=False)


def test_rows_are_written_and_read_by_the_registry(
    spark: SparkSession, bootstrap: str, registry: Registry, make_topic: TopicMaker
) -> None:
    topic = make_topic()
    register(registry, f"{topic}-value", "AVRO", ORDER)
    options = {"kafka.bootstrap.servers": bootstrap, "valueFormat": "avro", "schemaRegistry": registry.url}
    written = spark.sql(
        "SELECT named_struct('id', id, 'at', timestamp'2026-05-01 12:00:00', 'note', CAST(NULL AS STRING),"
        " 'lines', array(named_struct('n', CAST(id AS INT))), 'tags', map('a', 'b')) AS value FROM range(0, 3, 1, 1)"
    )
    written.write.format("headrace").options(**options, topic=topic).mode("append").save()
    by_schema: Avro[Any] = Avro(ORDER, registry=SchemaRegistry(registry.url))
    with Producer(bootstrap, values=by_schema) as producer:
        producer.send(topic, {**VALUE, "id": 3}).result()
    with Producer(bootstrap) as producer:
        producer.send(topic, b"not avro").result()
    frame = spark.read.format("headrace").options(**options, subscribe=topic, badValues="null").load()
    rows = frame.orderBy("offset").select("value.id", F.col("value.lines")[0]["n"], "value.tags.a").collect()
    with Consumer(topic, bootstrap=bootstrap, start="earliest") as consumer:
        first = next(iter(consumer.to_end())).raw_value

    assert frame.schema["value"].dataType.simpleString() == COLUMNS
    assert [tuple(row) for row in rows] == [(0, 0, "b"), (1, 1, "b"), (2, 2, "b"), (3, 1, "b"), (None, None, None)]
    assert by_schema.decode(first or b"")["id"] == 0
    with pytest.raises(Exception, match="set badValues to null"):
        spark.read.format("headrace").options(**options, subscribe=topic).load().collect()
